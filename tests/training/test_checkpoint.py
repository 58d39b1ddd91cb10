"""A training run on disk: all of it comes back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm.errors import DamagedError
from knnlm.tensors import read_tensors, save_tensors
from knnlm.training.checkpoint import Progress, load_run, recipe_of, save_run

PROGRESS = Progress(
    "recipe", 3, 1.25, 2, [{"step": 2, "valid_loss": 1.25}], 0.5, losses=[2.5, 2.25]
)


def made(seed: int) -> tuple[torch.nn.Module, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1))
    vectors = [p for p in model.parameters() if p.ndim == 1]
    matrices = [p for p in model.parameters() if p.ndim == 2]
    return model, torch.optim.AdamW(
        [{"params": matrices, "lr": 0.1}, {"params": vectors, "lr": 0.2}]
    )


def updated(model: Any, optimizer: torch.optim.AdamW, steps: int) -> list[torch.Tensor]:
    """Its weights after more updates, which depend on every moment of the optimiser."""
    for step in range(steps):
        model(torch.linspace(-1, 1 + step, 4)).square().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model, optimizer = made(0)
    updated(model, optimizer, 3)
    save_run(tmp_path / "run" / "last.safetensors", model, optimizer, PROGRESS)
    wanted = updated(model, optimizer, 4)
    other, its_optimizer = made(1)
    assert load_run(tmp_path / "run" / "last.safetensors", other, its_optimizer) == PROGRESS
    for one, another in zip(wanted, updated(other, its_optimizer, 4), strict=True):
        assert torch.equal(one, another)


def test_a_run_can_be_saved_before_its_first_update(tmp_path: Path) -> None:
    model, optimizer = made(0)
    save_run(tmp_path / "last.safetensors", model, optimizer, PROGRESS)
    other, its_optimizer = made(1)
    load_run(tmp_path / "last.safetensors", other, its_optimizer)
    for one, another in zip(
        updated(model, optimizer, 2), updated(other, its_optimizer, 2), strict=True
    ):
        assert torch.equal(one, another)


def test_where_nothing_was_saved_there_is_nothing(tmp_path: Path) -> None:
    assert load_run(tmp_path / "last.safetensors", *made(0)) is None
    assert recipe_of(tmp_path / "last.safetensors") is None


def test_the_recipe_is_known_without_the_model(tmp_path: Path) -> None:
    save_run(tmp_path / "last.safetensors", *made(0), PROGRESS)
    assert recipe_of(tmp_path / "last.safetensors") == "recipe"


def test_equal_tensors_are_equal_bytes_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    tensors = {name: torch.arange(5.0) + i for i, name in enumerate("zyx")}
    written = set()
    for _ in range(10):
        save_tensors(tmp_path / "a.safetensors", tensors, {"b": 1, "a": 2})
        written.add((tmp_path / "a.safetensors").read_bytes())
    assert len(written) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    found, note = read_tensors(tmp_path / "a.safetensors")
    assert note == {"b": 1, "a": 2}
    assert all(torch.equal(found[name], tensors[name]) for name in "xyz")


def test_tensors_that_someone_else_wrote_are_refused(tmp_path: Path) -> None:
    import safetensors.torch

    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors")
    with pytest.raises(DamagedError, match=r"a.safetensors is damaged: delete"):
        read_tensors(tmp_path / "a.safetensors")
    with pytest.raises(DamagedError, match=r"a.safetensors is damaged: delete"):
        recipe_of(tmp_path / "a.safetensors")
