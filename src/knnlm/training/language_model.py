"""Training a base LM from scratch: AdamW, warm-up and cosine, best-on-validation, exact resume.

Update `step` depends on nothing but the recipe and `step` (batches and dropout are seeded by it),
so a killed run that resumes ends with the same weights as one that was never killed. Knows nothing
of states or search."""

import math
import time
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import fingerprint, read_json, write_json, write_lock
from knnlm.models.load import LanguageModel, hide_transformers_progress
from knnlm.models.presets import Preset, new_model
from knnlm.progress import ProgressBar, log
from knnlm.tensors import read_tensors, save_tensors
from knnlm.text.documents import Source
from knnlm.text.tokenizer import joined_tokens, tokenizer_fingerprint, train_tokenizer
from knnlm.training.checkpoint import Progress, load_run, recipe_of, save_run
from knnlm.training.token_batches import Batches, validation_windows

RECORD = "training.json"
SAVE_SECONDS = 60.0  # an interruption costs at most about this much
LAST, BEST = Path("training", "last.safetensors"), Path("training", "best.safetensors")
CHECKPOINTS = "checkpoints"


class Teacher(Protocol):
    """Says what an update is to learn, where that is not the next token alone."""

    def describe(self) -> dict[str, Any]:
        """All that the lesson depends on."""

    def loss(self, logits: torch.Tensor, places: NDArray[np.int64]) -> torch.Tensor:
        """Of logits (…, V) for the tokens at these places (…) of the training text's stream."""


class Trained(NamedTuple):
    """What training came to."""

    path: Path
    parameters: int
    train_tokens: int
    steps: int
    best_step: int
    train_ppl: float
    """Perplexity of the last updates' batches, dropout on."""
    valid_ppl: float
    tokens_per_second: float


def train(
    train_text: Source,
    valid_text: Source,
    preset: Preset,
    out: Path,
    *,
    seed: int = 0,
    begin: LanguageModel | None = None,
    teacher: Teacher | None = None,
    save_every: int | None = None,
) -> Trained:
    """Train `preset` on `train_text` into the folder `out`; a finished or interrupted run there is
    continued.

    `begin` is a model of the same shape whose weights to begin with; `teacher` replaces the loss of
    training."""
    given: dict[str, Any] = {"train": train_text.describe(), "valid": valid_text.describe()}
    given |= {"begin": begin.fingerprint} if begin is not None else {}
    given |= {"teacher": teacher.describe()} if teacher is not None else {}
    recipe = fingerprint({"preset": preset.settings(), "seed": seed, **given})
    if (out / "manifest.json").is_file():
        raise KnnlmError(f"{out} is a store: choose another --out for the model")
    if odd := [
        step for step in preset.keep if step % preset.valid_every or not 0 < step <= preset.steps
    ]:
        raise UsageError(
            f"preset {preset.name} cannot keep update {odd[0]}: keep multiples of "
            f"{preset.valid_every}"
        )
    if not 0 <= seed < 1 << 32:
        raise UsageError(f"seed {seed} is out of range: choose 0 to {(1 << 32) - 1}")
    with write_lock(out):
        finished = _finished(out, recipe)
        if finished is not None:
            log.info(f"{out} is trained already")
            return finished
        _refuse_others(out, recipe)
        tokenizer = _tokenizer(out, train_text, preset)
        tokens = joined_tokens(tokenizer, train_text)
        valid = validation_windows(
            joined_tokens(tokenizer, valid_text), preset.context, preset.valid_tokens
        )
        batches = Batches(tokens, preset.context, preset.batch, seed)
        torch.manual_seed(seed)
        model = new_model(preset, len(tokenizer), tokenizer.bos_token_id)
        if begin is not None:
            _begin(model, tokenizer, begin, preset)
        state = _run(model, batches, valid, preset, seed, teacher, out, recipe, save_every)
        return _finish(model, state, batches, preset, seed, out, recipe)


def _begin(model: Any, tokenizer: Any, begin: LanguageModel, preset: Preset) -> None:
    """Take over the weights of a model that reads the same tokens and has the same shape."""
    if tokenizer_fingerprint(tokenizer) != begin.tokenizer_fingerprint:
        raise KnnlmError(
            f"{begin.source} reads text as other tokens: begin with a model that was trained on "
            "this text"
        )
    try:
        model.load_state_dict(begin.model.state_dict())
    except RuntimeError as error:
        raise KnnlmError(
            f"{begin.source} has another shape than preset {preset.name}: begin with one of it"
        ) from error


def learning_rate(step: int, preset: Preset) -> float:
    """Linear warm-up, then a cosine from `lr` to a tenth of it."""
    if step < preset.warmup:
        return preset.lr * (step + 1) / preset.warmup
    share = (step - preset.warmup) / max(1, preset.steps - preset.warmup)
    return preset.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


def new_optimizer(model: torch.nn.Module, preset: Preset) -> torch.optim.AdamW:
    """AdamW; matrices decay, vectors (biases, norms) do not."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": preset.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=preset.lr, betas=(0.9, 0.98), fused=True)


def next_token_loss(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Mean -log p of each window's targets."""
    return cross_entropy(_logits(model, ids).flatten(0, 1), ids[:, 1:].flatten())


def _logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model(input_ids=ids[:, :-1], use_cache=False).logits.float()
    return found


def _run(
    model: Any,
    batches: Batches,
    valid: NDArray[np.int64],
    preset: Preset,
    seed: int,
    teacher: Teacher | None,
    out: Path,
    recipe: str,
    save_every: int | None,
) -> Progress:
    optimizer = new_optimizer(model, preset)
    last, best = out / LAST, out / BEST
    state = load_run(last, model, optimizer) or Progress(recipe, 0, math.inf, 0, [], 0.0, [])
    per_step = batches.batch * preset.context
    began, losses = time.monotonic() - state.seconds, list(state.losses)
    saved = time.monotonic()
    if state.step:
        log.info(f"continuing after step {state.step:,} of {preset.steps:,}")
    with ProgressBar(
        "train", preset.steps * per_step, "tokens", start=state.step * per_step
    ) as meter:
        for step in range(state.step, preset.steps):
            loss = _update(model, optimizer, batches, step, preset, seed, teacher)
            losses.append(loss)
            meter.advance(per_step, f"loss {loss:.3f}")
            done = step + 1
            if done % preset.valid_every == 0 or done == preset.steps:
                state = _validate(model, valid, state, done, losses, best, began)
                log.info(_line(state))
                if done in preset.keep:
                    save_tensors(_kept(out, done), model.state_dict(), {"step": done})
                losses = []
                save_run(last, model, optimizer, state)
                saved = time.monotonic()
            elif (save_every and done % save_every == 0) or time.monotonic() - saved > SAVE_SECONDS:
                now = state._replace(step=done, seconds=time.monotonic() - began, losses=losses)
                save_run(last, model, optimizer, now)
                saved = time.monotonic()
    return state


def _update(
    model: Any,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    step: int,
    preset: Preset,
    seed: int,
    teacher: Teacher | None,
) -> float:
    torch.manual_seed(seed * 1_000_003 + step)  # dropout of this step, whatever came before
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step, preset)
    model.train()
    ids = torch.from_numpy(batches.at(step))
    if teacher is None:
        loss = next_token_loss(model, ids)
    else:
        loss = teacher.loss(_logits(model, ids), batches.places(step)[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return _finite(loss.item(), step)


def _validate(
    model: Any,
    valid: NDArray[np.int64],
    state: Progress,
    step: int,
    losses: list[float],
    best: Path,
    began: float,
) -> Progress:
    model.eval()
    with torch.inference_mode():
        parts = [
            next_token_loss(model, torch.from_numpy(ids)).item() * len(ids)
            for ids in np.array_split(valid, math.ceil(len(valid) / 16))
        ]
    loss = _finite(sum(parts) / len(valid), step)
    entry = {"step": step, "valid_loss": loss, "train_loss": float(np.mean(losses))}
    state = state._replace(
        step=step, history=[*state.history, entry], seconds=time.monotonic() - began, losses=[]
    )
    if loss < state.best_loss:
        state = state._replace(best_loss=loss, best_step=step)
        save_tensors(best, model.state_dict(), {"step": step})
    return state


def _kept(out: Path, step: int) -> Path:
    return out / LAST.parent / f"step-{step}.safetensors"


def _open_checkpoints(model: Any, out: Path, preset: Preset) -> None:
    """The models kept on the way, each as a folder that opens like any other model."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    for step in preset.keep:
        weights, _ = read_tensors(_kept(out, step))
        model.load_state_dict(weights)
        model.save_pretrained(out / CHECKPOINTS / str(step))
        tokenizer.save_pretrained(out / CHECKPOINTS / str(step))


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise KnnlmError(
            f"the loss became {loss} at step {step}: choose a smaller learning rate (preset)"
        )
    return loss


def _line(state: Progress) -> str:
    latest = state.history[-1]
    return (
        f"step {state.step:,}: training perplexity {math.exp(latest['train_loss']):.1f}, "
        f"validation {math.exp(latest['valid_loss']):.1f} (best {math.exp(state.best_loss):.1f})"
    )


def _tokenizer(
    out: Path,
    text: Source,
    preset: Preset,
) -> Any:
    import transformers

    if (
        out / LAST
    ).is_file():  # a tokenizer without a checkpoint may be half written, or another text's
        return transformers.AutoTokenizer.from_pretrained(out)
    began = time.monotonic()
    tokenizer = train_tokenizer((d.text for d in text), preset.vocab_size)
    tokenizer.save_pretrained(out)
    log.info(f"tokenizer: {len(tokenizer):,} entries in {time.monotonic() - began:.1f} s")
    return tokenizer


def _refuse_others(out: Path, recipe: str) -> None:
    """Leave alone what this recipe did not begin."""
    begun = recipe_of(out / LAST)
    if begun is None and (out / "config.json").exists():
        raise KnnlmError(
            f"{out} holds a model that 'knnlm train' did not write: choose another --out"
        )
    if begun not in (None, recipe):
        raise KnnlmError(
            f"{out} holds an unfinished run of another text, preset or seed: choose another --out "
            "or delete that folder"
        )


def _finished(out: Path, recipe: str) -> Trained | None:
    if not (out / RECORD).is_file():
        return None
    record = read_json(out / RECORD)
    if record["recipe"] != recipe:
        raise KnnlmError(
            f"{out} holds a model of another text, preset or seed: choose another --out"
        )
    return Trained(**{**record["trained"], "path": out})


def _finish(
    model: Any, state: Progress, batches: Batches, preset: Preset, seed: int, out: Path, recipe: str
) -> Trained:
    weights, _ = read_tensors(out / BEST)
    model.load_state_dict(weights)
    model.eval()
    with hide_transformers_progress():
        model.save_pretrained(out)
        _open_checkpoints(model, out, preset)
        model.load_state_dict(weights)
    trained = Trained(
        path=out,
        parameters=sum(p.numel() for p in model.parameters()),
        train_tokens=len(batches.tokens),
        steps=preset.steps,
        best_step=state.best_step,
        train_ppl=math.exp(state.history[-1]["train_loss"]),
        valid_ppl=math.exp(state.best_loss),
        tokens_per_second=preset.steps * batches.batch * preset.context / max(state.seconds, 1e-9),
    )
    fields = {k: v for k, v in trained._asdict().items() if k != "path"}
    record = {
        "recipe": recipe,
        "preset": preset.settings(),
        "seed": seed,
        "trained": fields,
        "history": state.history,
    }
    write_json(out / RECORD, record)
    return trained
