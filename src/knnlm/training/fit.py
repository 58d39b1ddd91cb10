"""The loop: AdamW over batches of rows, the best on validation kept, stopped when it no longer
improves, exact resume.

    OUT/last.safetensors    weights, moments and progress
    OUT/best.safetensors    the weights of the lowest validation loss
    OUT/fitted.json         what it came to

Update `step` depends on nothing but the module, the recipe and `step`. Knows nothing of what the
module computes."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import read_json, write_json, write_lock
from knnlm.progress import ProgressBar, log
from knnlm.tensors import read_tensors, save_tensors
from knnlm.training.checkpoint import Progress, load_run, save_run

RECORD, LAST, BEST = "fitted.json", "last.safetensors", "best.safetensors"
SAVE_SECONDS = 60.0


class Diverged(KnnlmError):
    """The learning rate was too large."""


class Batches(Protocol):
    """Where updates get their rows."""

    batch: int
    steps_per_epoch: int

    def at(self, step: int) -> Any:
        """What update `step` sees."""
        ...


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to learn. The rate falls linearly to zero over `epochs`; validation is looked at `looks`
    times an epoch."""

    lr: float
    epochs: int
    weight_decay: float = 0.0
    looks: int = 1
    patience: int = 2
    """Looks without improvement before it stops."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise UsageError(f"learning rate {self.lr} is out of range: choose a number above 0")
        if self.epochs < 1:
            raise UsageError(f"{self.epochs} epochs are out of range: choose 1 or more")


class FitResult(NamedTuple):
    """What learning came to."""

    steps: int
    best_step: int
    valid_loss: float
    rows_per_second: float


def fit(
    module: torch.nn.Module,
    batches: Batches,
    loss: Callable[[Any], torch.Tensor],
    validate: Callable[[], float],
    how: FitSettings,
    out: Path,
    recipe: str,
) -> FitResult:
    """FitSettings `module` in place; `loss` and `validate` look at it. `recipe` names all that the result
    depends on."""
    with write_lock(out):
        if (out / RECORD).is_file():
            record = read_json(out / RECORD)
            if record["recipe"] != recipe:
                raise KnnlmError(
                    f"{out} holds something learned in another way: choose another folder"
                )
        else:
            record = {
                "recipe": recipe,
                **_run(module, batches, loss, validate, how, out, recipe)._asdict(),
            }
            write_json(out / RECORD, record)
        weights, _ = read_tensors(out / BEST)
        module.load_state_dict(weights)
    return FitResult(**{name: record[name] for name in FitResult._fields})


def _run(
    module: torch.nn.Module,
    batches: Batches,
    loss: Callable[[Any], torch.Tensor],
    validate: Callable[[], float],
    how: FitSettings,
    out: Path,
    recipe: str,
) -> FitResult:
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=how.lr, weight_decay=how.weight_decay, fused=True
    )
    state = load_run(out / LAST, module, optimizer) or Progress(recipe, 0, math.inf, 0, [], 0.0, [])
    if state.recipe != recipe:
        raise KnnlmError(
            f"{out} holds something half learned in another way: choose another folder or delete it"
        )
    steps, every = (
        how.epochs * batches.steps_per_epoch,
        max(1, batches.steps_per_epoch // how.looks),
    )
    if not state.history:
        state = _look(module, validate, state, 0, out)  # where it begins is a candidate too
    began = time.monotonic() - state.seconds
    saved = time.monotonic()
    with ProgressBar(
        "learn", steps * batches.batch, "rows", start=state.step * batches.batch
    ) as meter:
        while state.step < steps and not _stopped(state, how):
            for group in optimizer.param_groups:
                group["lr"] = how.lr * (1 - state.step / steps)
            value = loss(batches.at(state.step))
            value.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            state = state._replace(step=state.step + 1, seconds=time.monotonic() - began)
            meter.advance(batches.batch)
            if state.step % every == 0 or state.step == steps:
                state = _look(module, validate, state, state.step, out)
                log.info(
                    f"  validation loss {state.history[-1]['valid_loss']:.4f} after "
                    f"{state.step:,} updates"
                )
            elif time.monotonic() - saved < SAVE_SECONDS:
                continue
            save_run(out / LAST, module, optimizer, state)
            saved = time.monotonic()
    return FitResult(
        state.step,
        state.best_step,
        state.best_loss,
        state.step * batches.batch / max(state.seconds, 1e-9),
    )


def _look(
    module: torch.nn.Module, validate: Callable[[], float], state: Progress, step: int, out: Path
) -> Progress:
    with torch.inference_mode():
        found = validate()
    if not math.isfinite(found):
        raise Diverged(
            f"the validation loss became {found} after {step} updates: choose a smaller learning "
            "rate"
        )
    state = state._replace(history=[*state.history, {"step": step, "valid_loss": found}])
    if found < state.best_loss:
        save_tensors(out / BEST, module.state_dict(), {"step": step})
        state = state._replace(best_loss=found, best_step=step)
    return state


def _stopped(state: Progress, how: FitSettings) -> bool:
    since = [entry for entry in state.history if entry["step"] > state.best_step]
    return len(since) >= how.patience
