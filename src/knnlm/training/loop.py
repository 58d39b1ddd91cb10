"""The training loop: update, validate, keep the best weights, stop, save, resume.

A resumed run ends with the weights of one that was never stopped, bit for bit, because an update is
a function of three things only: the weights, the optimizer's moments and the number of the step.
The first two come back exactly, from one file that is replaced in one step, so that a kill leaves a
whole older state or a whole newer one. The third decides the rest: a task draws the batch and the
random numbers of `loss(step)` from generators seeded by `step`, and the learning rate is computed
from it, so that no position in a data stream and no generator has to be saved. Updates after the
last save are repeated, with the same result; the best weights are written before the state that
names them, so a kill between the two costs one repeated validation. Clock times decide only when
to save, never what is computed. (Floating-point sums agree on the same hardware with the same
number of threads.)

    FOLDER/last.safetensors    weights, moments and `TrainingState`
    FOLDER/best.safetensors    the weights of the lowest validation loss
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from knnlm.errors import KnnlmError
from knnlm.progress import ProgressBar, log
from knnlm.tensors import save_tensors
from knnlm.training.checkpoint import TrainingState, load_run, save_run

LAST, BEST = "last.safetensors", "best.safetensors"
SAVE_SECONDS = 60.0  # an interruption costs at most about this much


class Diverged(KnnlmError):
    """A loss became infinite or NaN: the learning rate was too large."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained. `loss` and `validate` read `module`; the loop changes it."""

    module: torch.nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[int], torch.Tensor]
    """The loss to minimize in update `step` (from 0): a function of `module` and `step` alone."""
    validate: Callable[[], float]
    """The validation loss; called in inference mode."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When a run updates, validates, stops and saves."""

    steps: int
    learning_rate: Callable[[int], float]
    """Of update `step` (from 0)."""
    validate_every: int
    """Updates between validations; the last update is always followed by one."""
    validate_at_start: bool = False
    """Whether the weights before the first update can be the best ones."""
    patience: int | None = None
    """Validations without improvement after which the run stops; None: it never stops early."""
    clip: float | None = None
    """Largest norm of the gradient."""
    record_losses: bool = False
    """Whether training losses are checked, shown, and averaged into the history."""
    save_every: int | None = None
    """Updates between saves, besides those at validations and every `SAVE_SECONDS`."""


class BarUnit(NamedTuple):
    """What the progress bar counts."""

    label: str
    name: str
    per_step: int


def run_loop(
    task: Task,
    schedule: Schedule,
    folder: Path,
    recipe: str,
    *,
    unit: BarUnit,
    on_validation: Callable[[TrainingState], None],
) -> TrainingState:
    """Train `task.module` in place, or resume the run in `folder`.

    Args:
        task: What is trained.
        schedule: When it updates, validates, stops and saves.
        folder: Where the run is saved; whoever calls has checked that its recipe is this one.
        recipe: Fingerprint of everything that the result depends on.
        unit: What the progress bar counts.
        on_validation: Called after each validation that follows an update, before the run is saved.

    Returns:
        The state at the end. `module` holds the last weights; the best are in `folder`/`BEST`.

    Raises:
        Diverged: If a validation loss, or a recorded training loss, is infinite or NaN.
    """
    state = load_run(folder / LAST, task.module, task.optimizer) or TrainingState.initial(recipe)
    if state.step:
        log.info(f"resuming after step {state.step:,} of {schedule.steps:,}")
    if schedule.validate_at_start and not state.history:
        state = _validate(task, state, folder)
    saved = time.monotonic()
    started = saved - state.seconds
    bar = ProgressBar(
        unit.label, schedule.steps * unit.per_step, unit.name, start=state.step * unit.per_step
    )
    with bar:
        while not _ended(state, schedule):
            loss = _update(task, schedule, state.step)
            losses = [] if loss is None else [*state.losses, loss]
            state = state._replace(step=state.step + 1, losses=losses)
            bar.advance(unit.per_step, "" if loss is None else f"loss {loss:.3f}")
            validates = _due(state.step, schedule.validate_every) or state.step == schedule.steps
            if validates:
                state = _validate(task, state, folder)
                on_validation(state)
            late = time.monotonic() - saved >= SAVE_SECONDS
            if validates or late or _due(state.step, schedule.save_every):
                state = state._replace(seconds=time.monotonic() - started)
                save_run(folder / LAST, task.module, task.optimizer, state)
                saved = time.monotonic()
    return state


def _update(task: Task, schedule: Schedule, step: int) -> float | None:
    """One step of the optimizer; returns the loss before it, where losses are recorded."""
    for group in task.optimizer.param_groups:
        group["lr"] = schedule.learning_rate(step)
    loss = task.loss(step)
    loss.backward()
    if schedule.clip is not None:
        torch.nn.utils.clip_grad_norm_(task.module.parameters(), schedule.clip)
    task.optimizer.step()
    task.optimizer.zero_grad(set_to_none=True)
    return _finite(loss.item(), step) if schedule.record_losses else None


def _validate(task: Task, state: TrainingState, folder: Path) -> TrainingState:
    """The state with one more validation; weights better than all before are written."""
    with torch.inference_mode():
        loss = _finite(task.validate(), state.step)
    entry: dict[str, float] = {"step": state.step, "valid_loss": loss}
    if state.losses:
        entry["train_loss"] = float(np.mean(state.losses))
    state = state._replace(history=[*state.history, entry], losses=[])
    if loss < state.best_loss:
        save_tensors(folder / BEST, task.module.state_dict(), {"step": state.step})
        state = state._replace(best_loss=loss, best_step=state.step)
    return state


def _ended(state: TrainingState, schedule: Schedule) -> bool:
    since_best = sum(entry["step"] > state.best_step for entry in state.history)
    impatient = schedule.patience is not None and since_best >= schedule.patience
    return impatient or state.step >= schedule.steps


def _due(step: int, every: int | None) -> bool:
    return bool(every and step % every == 0)


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise Diverged(f"the loss became {loss} at step {step}: choose a smaller learning rate")
    return loss
