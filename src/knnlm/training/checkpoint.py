"""A training run on disk: weights, optimiser moments and progress in one safetensors file, replaced
in one step.

One file, so that a kill leaves the old state or the new one. Never pickle. Knows nothing of the
loop."""

from pathlib import Path
from typing import NamedTuple

import torch

from knnlm.tensors import read_note, read_tensors, save_tensors


class Progress(NamedTuple):
    """How far a run has come. `recipe` fingerprints everything the result depends on."""

    recipe: str
    step: int
    best_loss: float
    best_step: int
    history: list[dict[str, float]]
    seconds: float
    losses: list[float]
    """Of the updates since the last validation."""


def save_run(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    """Everything needed to go on as if nothing had happened."""
    tensors = {f"model.{name}": t for name, t in model.state_dict().items()}
    names = [name for name, _ in model.named_parameters()]
    by_index = optimizer.state_dict()["state"]
    order = [p for group in optimizer.param_groups for p in group["params"]]
    name_of = {id(p): n for n, p in model.named_parameters()}
    for i, parameter in enumerate(order):
        for field, value in by_index.get(i, {}).items():
            tensors[f"optimizer.{name_of[id(parameter)]}.{field}"] = torch.as_tensor(value)
    assert len(order) == len(names)
    save_tensors(path, tensors, progress._asdict())


def load_run(
    path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Progress | None:
    """Restore what `save_run` wrote; None if there is nothing."""
    if not path.is_file():
        return None
    tensors, note = read_tensors(path)
    model.load_state_dict(
        {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
    )
    for name, parameter in model.named_parameters():
        prefix = f"optimizer.{name}."
        found = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
        if found:
            optimizer.state[parameter] = found
    return Progress(**note)


def recipe_of(path: Path) -> str | None:
    """The recipe of the run that `save_run` wrote, read without its tensors; None if there is
    nothing."""
    if not path.is_file():
        return None
    return str(read_note(path)["recipe"])
