"""Fitting a module to the entries of a datastore: AdamW with a learning rate that falls linearly to
zero, stopped when validation no longer improves.

    OUT/fitted.json    the recipe and the `FitResult`, written at the end

The rest of OUT is the training loop's (loop.py)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import read_json, write_json
from knnlm.locks import write_lock
from knnlm.progress import log
from knnlm.stored_fields import Count, Loss, Seconds, check_fields
from knnlm.tensors import read_tensors
from knnlm.training.checkpoint import TrainingState, recipe_of
from knnlm.training.loop import BEST, LAST, BarUnit, Schedule, Task, run_loop

RECORD = "fitted.json"


class Batches(Protocol):
    """What updates learn from (entry_batches.py)."""

    batch: int
    steps_per_epoch: int

    def at(self, step: int) -> Any:
        """The batch of update `step`, whatever was asked for before."""
        ...


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit. The learning rate falls linearly from `lr` to zero over `epochs`."""

    lr: float
    epochs: int
    weight_decay: float = 0.0
    validations_per_epoch: int = 1
    patience: int = 2
    """Validations without improvement after which fitting stops."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise UsageError(f"learning rate {self.lr} is out of range: choose a number above 0")
        if self.epochs < 1:
            raise UsageError(f"{self.epochs} epochs are out of range: choose 1 or more")

    def settings(self) -> dict[str, Any]:
        """All fields, under the names that records and fingerprints have always had."""
        return {
            "lr": self.lr,
            "epochs": self.epochs,
            "weight_decay": self.weight_decay,
            "looks": self.validations_per_epoch,
            "patience": self.patience,
        }


class _Record(TypedDict):
    """What is written of a run at its end."""

    recipe: str
    steps: Count
    best_step: Count
    valid_loss: Loss
    rows_per_second: Seconds


class FitResult(NamedTuple):
    """How fitting ended. The module has the weights of `best_step`; 0 is how it began."""

    steps: int
    best_step: int
    valid_loss: float
    entries_per_second: float


def fit(
    module: torch.nn.Module,
    batches: Batches,
    loss: Callable[[Any], torch.Tensor],
    validate: Callable[[], float],
    settings: FitSettings,
    out: Path,
    recipe: str,
) -> FitResult:
    """Fit `module` in place, resume the run in `out`, or read the finished one there.

    Args:
        module: What is fitted; `loss` and `validate` read it.
        batches: What each update learns from.
        loss: The loss of a batch.
        validate: The validation loss; the weights of its lowest value are kept.
        settings: How to fit.
        out: The folder of this run.
        recipe: Fingerprint of everything that the result depends on.

    Raises:
        Diverged: If the validation loss becomes infinite or NaN.
        KnnlmError: If `out` holds a run of another recipe.
    """
    with write_lock(out):
        if (out / RECORD).is_file():
            remedy = f"delete {out} and run the same command again"
            record = check_fields(_Record, read_json(out / RECORD), out / RECORD, remedy)
            if record["recipe"] != recipe:
                raise KnnlmError(
                    f"{out} holds something learned in another way: choose another folder"
                )
        else:
            record = _run(module, batches, loss, validate, settings, out, recipe)
            write_json(out / RECORD, record)
        weights, _ = read_tensors(out / BEST)
        module.load_state_dict(weights)
    return FitResult(
        steps=record["steps"],
        best_step=record["best_step"],
        valid_loss=record["valid_loss"],
        entries_per_second=record["rows_per_second"],
    )


def _run(
    module: torch.nn.Module,
    batches: Batches,
    loss: Callable[[Any], torch.Tensor],
    validate: Callable[[], float],
    settings: FitSettings,
    out: Path,
    recipe: str,
) -> _Record:
    """Fit, and return what is recorded of it."""
    if recipe_of(out / LAST) not in (None, recipe):
        raise KnnlmError(
            f"{out} holds something half learned in another way: choose another folder or delete it"
        )
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
    )
    steps = settings.epochs * batches.steps_per_epoch
    state = run_loop(
        Task(
            module=module,
            optimizer=optimizer,
            loss=lambda step: loss(batches.at(step)),
            validate=validate,
        ),
        Schedule(
            steps=steps,
            learning_rate=lambda step: settings.lr * (1 - step / steps),
            validate_every=max(1, batches.steps_per_epoch // settings.validations_per_epoch),
            validate_at_start=True,
            patience=settings.patience,
        ),
        out,
        recipe,
        unit=BarUnit("learn", "entries", batches.batch),
        on_validation=_log_validation,
    )
    return {
        "recipe": recipe,
        "steps": state.step,
        "best_step": state.best_step,
        "valid_loss": state.best_loss,
        "rows_per_second": state.step * batches.batch / max(state.seconds, 1e-9),
    }


def _log_validation(state: TrainingState) -> None:
    log.info(
        f"  validation loss {state.history[-1]['valid_loss']:.4f} after {state.step:,} updates"
    )
