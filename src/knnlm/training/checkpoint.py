"""A training run on disk: weights, optimizer moments and progress in one safetensors file, replaced
in one step.

One file, so that a kill leaves the old state or the new one. Never pickle."""

import math
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import torch

from knnlm.stored_fields import Count, Seconds, check_fields, damaged_field
from knnlm.tensors import read_note, read_tensors, save_tensors


class TrainingState(NamedTuple):
    """How far a run has come: the note beside the tensors, field by field."""

    recipe: str
    """Fingerprint of everything that the result depends on."""
    step: int
    """Updates done."""
    best_loss: float
    best_step: int
    history: list[dict[str, float]]
    """One entry for each validation: `step`, `valid_loss` and, where recorded, `train_loss`."""
    seconds: float
    """Spent on training so far, over all processes."""
    losses: list[float]
    """Training losses since the last validation, where they are recorded."""

    @classmethod
    def initial(cls, recipe: str) -> "TrainingState":
        """The state before the first update."""
        return cls(recipe, 0, math.inf, 0, [], 0.0, [])


class _Validation(TypedDict):
    step: Count
    valid_loss: float
    train_loss: NotRequired[float]


class _Note(TypedDict):
    """The fields of a `TrainingState`."""

    recipe: str
    step: Count
    best_loss: float | None
    best_step: Count
    history: list[_Validation]
    seconds: Seconds
    losses: list[float]


_REMEDY = "delete its folder and run the same command again to start over"


def save_run(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState
) -> None:
    """Write everything that the next update depends on."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    moments = optimizer.state_dict()["state"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    assert len(parameters) == len(names)
    for i, parameter in enumerate(parameters):
        for field, value in moments.get(i, {}).items():
            tensors[f"optimizer.{names[id(parameter)]}.{field}"] = torch.as_tensor(value)
    save_tensors(path, tensors, state._asdict())


def load_run(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> TrainingState | None:
    """Restore what `save_run` wrote into `model` and `optimizer`.

    Returns:
        How far the run had come, or None if `path` does not exist.
    """
    if not path.is_file():
        return None
    tensors, note = read_tensors(path)
    try:
        model.load_state_dict(_below("model.", tensors))
    except RuntimeError as error:
        raise damaged_field(path, "its tensors are of another model", _REMEDY) from error
    for name, parameter in model.named_parameters():
        if moments := _below(f"optimizer.{name}.", tensors):
            optimizer.state[parameter] = moments
    return TrainingState(**_checked(note, path))


def recipe_of(path: Path) -> str | None:
    """The recipe of the run that `save_run` wrote, read without its tensors; None if there is
    none."""
    return str(_checked(read_note(path), path)["recipe"]) if path.is_file() else None


def _checked(note: dict[str, Any], path: Path) -> dict[str, Any]:
    """The note of a run as it is described; a best loss of ∞ is Python's, and not JSON's."""
    best = note.get("best_loss")
    known = {**note, "best_loss": None if best == math.inf else best}
    return {**check_fields(_Note, known, path, _REMEDY), "best_loss": best}


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
