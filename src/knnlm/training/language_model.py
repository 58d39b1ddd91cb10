"""Training a base LM from scratch: tokenizer, AdamW with warm-up and cosine, the best model on
validation.

    OUT/                 the trained model and its tokenizer, as transformers writes them
    OUT/training.json    the recipe, the preset, the `TrainingResult`, every validation, and size
                         and checksum of every file of the models; written once they are on disk
    OUT/training/        the run as the training loop (loop.py) saves it, the weights to keep, and
                         the checksums of the tokenizer's files
    OUT/checkpoints/N    the model after update N, for each N that the preset keeps

Batches and dropout of an update are seeded by its number, as the loop's exact resume asks for."""

import math
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from knnlm.errors import DamagedError, KnnlmError, UsageError
from knnlm.files import changed_file, fingerprint, read_json, write_json
from knnlm.locks import write_lock
from knnlm.models import (
    CHECKPOINTS,
    TRAINING_RECORD,
    LanguageModel,
    Preset,
    hide_transformers_progress,
    new_model,
    save_model,
)
from knnlm.progress import log
from knnlm.ranges import check_path
from knnlm.stored_fields import Count, FileList, Perplexity, Positive, Seconds, check_fields
from knnlm.tensors import read_tensors, save_tensors
from knnlm.text import Source, joined_tokens, tokenizer_fingerprint, train_tokenizer
from knnlm.training.checkpoint import TrainingState, recipe_of
from knnlm.training.loop import BEST, LAST, BarUnit, Diverged, Schedule, Task, run_loop
from knnlm.training.token_batches import TokenBatches, validation_windows

RUN = "training"
_TOKENIZER_RECORD = "tokenizer.json"
CLIP = 1.0  # largest norm of the gradient
VALIDATION_BATCH = 16  # windows scored at once


class _TokenizerRecord(TypedDict):
    files: FileList


class _Trained(TypedDict):
    """The fields of a `TrainingResult` beside its path."""

    parameters: Positive
    train_tokens: Positive
    steps: Positive
    best_step: Count
    train_ppl: Perplexity
    valid_ppl: Perplexity
    tokens_per_second: Seconds


class _Record(TypedDict):
    """What is read here of the record of a training."""

    recipe: str
    trained: _Trained
    files: NotRequired[FileList]


class Teacher(Protocol):
    """Says what an update is to learn where that is not the next token alone."""

    def describe(self) -> dict[str, Any]:
        """Everything that the loss depends on, as JSON."""

    def loss(self, logits: torch.Tensor, positions: NDArray[np.int64]) -> torch.Tensor:
        """The loss of logits (…, V) for the tokens at `positions` (…) of the training text's
        stream."""


class TrainingResult(NamedTuple):
    """A trained model and how its training ended."""

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
    initial_model: LanguageModel | None = None,
    teacher: Teacher | None = None,
    save_every: int | None = None,
) -> TrainingResult:
    """Train `preset` on `train_text` into the folder `out`; a finished run there is read, an
    interrupted one resumes.

    Args:
        train_text: The text to learn.
        valid_text: The text that chooses the best weights.
        preset: Size and training recipe.
        out: The folder of the model.
        seed: Decides the first weights, the order of the text and dropout.
        initial_model: A model of the same shape and tokens whose weights to start with.
        teacher: Replaces the next-token loss of training.
        save_every: Updates between saves, besides those that are made anyway.
    """
    described: dict[str, Any] = {"train": train_text.describe(), "valid": valid_text.describe()}
    described |= {"begin": initial_model.fingerprint} if initial_model is not None else {}
    described |= {"teacher": teacher.describe()} if teacher is not None else {}
    recipe = fingerprint({"preset": preset.settings(), "seed": seed, **described})
    _check(preset, out, seed)
    with write_lock(out):
        finished = _finished(out, recipe)
        if finished is not None:
            log.info(f"{out} is trained already")
            return finished
        _refuse_other_runs(out, recipe)
        if not any(document.text.strip() for document in train_text):
            raise KnnlmError("the training text is empty: give a file with text in it")
        tokenizer = _tokenizer(out, train_text, preset)
        tokens = joined_tokens(tokenizer, train_text)
        valid = validation_windows(
            joined_tokens(tokenizer, valid_text), preset.context, preset.valid_tokens
        )
        batches = TokenBatches(tokens, preset.context, preset.batch, seed)
        torch.manual_seed(seed)
        model = new_model(preset, len(tokenizer), tokenizer.bos_token_id)
        if initial_model is not None:
            _copy_weights(initial_model, model, tokenizer, preset)
        task = Task(
            module=model,
            optimizer=new_optimizer(model, preset),
            loss=partial(_loss, model, batches, seed, teacher),
            validate=partial(_validation_loss, model, valid),
        )
        state = _run(task, preset, out, recipe, batches.batch * preset.context, save_every)
        return _finish(model, state, batches, preset, seed, out)


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
    """Mean -log p of the targets of windows (B, T + 1)."""
    return cross_entropy(_logits(model, ids).flatten(0, 1), ids[:, 1:].flatten())


def _logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=ids[:, :-1], use_cache=False).logits
    return logits.float()


def _loss(
    model: Any, batches: TokenBatches, seed: int, teacher: Teacher | None, step: int
) -> torch.Tensor:
    torch.manual_seed(seed * 1_000_003 + step)  # dropout of this step, whatever came before
    model.train()
    ids = torch.from_numpy(batches.at(step))
    if teacher is None:
        return next_token_loss(model, ids)
    return teacher.loss(_logits(model, ids), batches.positions(step)[:, 1:])


def _validation_loss(model: Any, windows: NDArray[np.int64]) -> float:
    model.eval()
    sums = [
        next_token_loss(model, torch.from_numpy(ids)).item() * len(ids)
        for ids in np.array_split(windows, math.ceil(len(windows) / VALIDATION_BATCH))
    ]
    return sum(sums) / len(windows)


def _run(
    task: Task, preset: Preset, out: Path, recipe: str, tokens_per_step: int, save_every: int | None
) -> TrainingState:
    def on_validation(state: TrainingState) -> None:
        latest, best = state.history[-1], math.exp(state.best_loss)
        log.info(
            f"step {state.step:,}: training perplexity {math.exp(latest['train_loss']):.1f}, "
            f"validation {math.exp(latest['valid_loss']):.1f} (best {best:.1f})"
        )
        if state.step in preset.keep:
            save_tensors(_kept(out, state.step), task.module.state_dict(), {"step": state.step})

    schedule = Schedule(
        steps=preset.steps,
        learning_rate=lambda step: learning_rate(step, preset),
        validate_every=preset.valid_every,
        clip=CLIP,
        record_losses=True,
        save_every=save_every,
    )
    unit = BarUnit("train", "tokens", tokens_per_step)
    try:
        return run_loop(task, schedule, out / RUN, recipe, unit=unit, on_validation=on_validation)
    except Diverged as error:
        raise KnnlmError(f"{error} (preset)") from error


def _kept(out: Path, step: int) -> Path:
    return out / RUN / f"step-{step}.safetensors"


def _check(preset: Preset, out: Path, seed: int) -> None:
    """Refuse what cannot be done before any work."""
    check_path(out)
    if (out / "manifest.json").is_file():
        raise KnnlmError(f"{out} is a datastore: choose another `path` for the model")
    for step in preset.keep:
        if step % preset.valid_every or not 0 < step <= preset.steps:
            raise UsageError(
                f"preset {preset.name} cannot keep update {step}: keep multiples of "
                f"{preset.valid_every}"
            )
    if not 0 <= seed < 1 << 32:
        raise UsageError(f"seed {seed} is out of range: choose 0 to {(1 << 32) - 1}")


def _refuse_other_runs(out: Path, recipe: str) -> None:
    """Leave alone what this recipe did not begin."""
    begun = recipe_of(out / RUN / LAST)
    if begun is None and (out / "config.json").exists():
        raise KnnlmError(f"{out} holds a model that `train` did not write: choose another `path`")
    if begun not in (None, recipe):
        raise KnnlmError(
            f"{out} holds an unfinished run of another text, preset or seed: choose another `path` "
            "or delete that folder"
        )


def _tokenizer(out: Path, text: Source, preset: Preset) -> Any:
    """The tokenizer of the run in `out`, trained on `text` if there is no run yet."""
    import transformers

    # a tokenizer without a saved run may be another text's
    before = _tokenizer_files(out) if (out / RUN / LAST).is_file() else None
    if before is not None and changed_file(out, before) is None:
        return transformers.AutoTokenizer.from_pretrained(out)
    started = time.monotonic()
    tokenizer = train_tokenizer((document.text for document in text), preset.vocab_size)
    files = save_model(out, tokenizer)
    if before not in (None, files):
        raise DamagedError(
            f"the tokenizer in {out} is damaged, and training it again gives another one: delete "
            f"{out / RUN} and run the same command again to start over"
        )
    (out / RUN).mkdir(exist_ok=True)
    write_json(out / RUN / _TOKENIZER_RECORD, {"files": files})
    log.info(f"tokenizer: {len(tokenizer):,} entries in {time.monotonic() - started:.1f} s")
    return tokenizer


def _tokenizer_files(out: Path) -> dict[str, Any]:
    """The files of the tokenizer of the run in `out`, with their checksums."""
    record = out / RUN / _TOKENIZER_RECORD
    if not record.is_file():
        raise DamagedError(
            f"{record} is missing: delete {out / RUN} and run the same command again to start over"
        )
    remedy = f"delete {out / RUN} and run the same command again to start over"
    return dict(check_fields(_TokenizerRecord, read_json(record), record, remedy)["files"])


def _copy_weights(source: LanguageModel, model: Any, tokenizer: Any, preset: Preset) -> None:
    """Take over the weights of a model that reads the same tokens and has the same shape."""
    if tokenizer_fingerprint(tokenizer) != source.tokenizer_fingerprint:
        raise KnnlmError(
            f"{source.source} reads text as other tokens: begin with a model that was trained on "
            "this text"
        )
    try:
        model.load_state_dict(source.model.state_dict())
    except RuntimeError as error:
        raise KnnlmError(
            f"{source.source} has another shape than preset {preset.name}: begin with one of it"
        ) from error


def _finished(out: Path, recipe: str) -> TrainingResult | None:
    if not (out / TRAINING_RECORD).is_file():
        return None
    file = out / TRAINING_RECORD
    record = check_fields(_Record, read_json(file), file, f"delete {out} and train again")
    if record["recipe"] != recipe:
        raise KnnlmError(
            f"{out} holds a model of another text, preset or seed: choose another `path`"
        )
    if changed := changed_file(out, record.get("files", {})):  # earlier versions name none
        resumes = (out / RUN / LAST).is_file() and (out / RUN / BEST).is_file()
        remedy = out / TRAINING_RECORD if resumes else out
        raise DamagedError(
            f"{changed} is not the file that {TRAINING_RECORD} names: restore it from a copy, or "
            f"delete {remedy} and run the same command again to "
            f"{'write it' if resumes else 'train'} again"
        )
    return TrainingResult(path=out, **record["trained"])


def _finish(
    model: Any, state: TrainingState, batches: TokenBatches, preset: Preset, seed: int, out: Path
) -> TrainingResult:
    """Write the kept weights and the best ones as models, then the record."""
    model.eval()
    with hide_transformers_progress():
        files = _write_checkpoints(model, out, preset)
        weights, _ = read_tensors(out / RUN / BEST)
        model.load_state_dict(weights)
        files |= _tokenizer_files(out) | save_model(out, model)
    result = TrainingResult(
        path=out,
        parameters=sum(p.numel() for p in model.parameters()),
        train_tokens=len(batches.tokens),
        steps=preset.steps,
        best_step=state.best_step,
        train_ppl=math.exp(state.history[-1]["train_loss"]),
        valid_ppl=math.exp(state.best_loss),
        tokens_per_second=preset.steps * batches.batch * preset.context / max(state.seconds, 1e-9),
    )
    record = {
        "recipe": state.recipe,
        "preset": preset.settings(),
        "seed": seed,
        "trained": {name: value for name, value in result._asdict().items() if name != "path"},
        "history": state.history,
        "files": files,
    }
    write_json(out / TRAINING_RECORD, record)
    return result


def _write_checkpoints(model: Any, out: Path, preset: Preset) -> dict[str, Any]:
    """Write the weights kept on the way as folders that open like any other model; returns their
    files."""
    import transformers

    files: dict[str, Any] = {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    for step in preset.keep:
        weights, _ = read_tensors(_kept(out, step))
        model.load_state_dict(weights)
        saved = save_model(out / CHECKPOINTS / str(step), model, tokenizer)
        files |= {f"{CHECKPOINTS}/{step}/{name}": file for name, file in saved.items()}
    return files
