"""A training run on disk: all of it comes back."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm.errors import DamagedError
from knnlm.tensors import read_note, read_tensors, save_tensors
from knnlm.training.checkpoint import TrainingState, load_run, recipe_of, save_run
from tests.hostile import mutations, survive

STATE = TrainingState(
    "recipe", 3, 1.25, 2, [{"step": 2, "valid_loss": 1.25}], 0.5, losses=[2.5, 2.25]
)


def new_run(seed: int) -> tuple[torch.nn.Module, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 1))
    vectors = [p for p in model.parameters() if p.ndim == 1]
    matrices = [p for p in model.parameters() if p.ndim == 2]
    return model, torch.optim.AdamW(
        [{"params": matrices, "lr": 0.1}, {"params": vectors, "lr": 0.2}]
    )


def updated(model: Any, optimizer: torch.optim.AdamW, steps: int) -> list[torch.Tensor]:
    """The weights after more updates, which depend on every moment of the optimizer."""
    for step in range(steps):
        model(torch.linspace(-1, 1 + step, 4)).square().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def test_a_run_resumes_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    model, optimizer = new_run(0)
    updated(model, optimizer, 3)
    save_run(tmp_path / "run" / "last.safetensors", model, optimizer, STATE)
    expected = updated(model, optimizer, 4)
    other, other_optimizer = new_run(1)
    assert load_run(tmp_path / "run" / "last.safetensors", other, other_optimizer) == STATE
    for one, another in zip(expected, updated(other, other_optimizer, 4), strict=True):
        assert torch.equal(one, another)


def test_a_run_can_be_saved_before_its_first_update(tmp_path: Path) -> None:
    model, optimizer = new_run(0)
    save_run(tmp_path / "last.safetensors", model, optimizer, STATE)
    other, other_optimizer = new_run(1)
    load_run(tmp_path / "last.safetensors", other, other_optimizer)
    for one, another in zip(
        updated(model, optimizer, 2), updated(other, other_optimizer, 2), strict=True
    ):
        assert torch.equal(one, another)


def test_where_nothing_was_saved_there_is_nothing(tmp_path: Path) -> None:
    assert load_run(tmp_path / "last.safetensors", *new_run(0)) is None
    assert recipe_of(tmp_path / "last.safetensors") is None


def test_the_note_has_the_fields_that_unfinished_runs_on_disk_have(tmp_path: Path) -> None:
    save_run(tmp_path / "last.safetensors", *new_run(0), TrainingState.initial("recipe"))
    note = {"recipe": "recipe", "step": 0, "best_loss": math.inf, "best_step": 0}
    note |= {"history": [], "seconds": 0.0, "losses": []}
    assert read_note(tmp_path / "last.safetensors") == note


def test_the_recipe_is_known_without_the_model(tmp_path: Path) -> None:
    save_run(tmp_path / "last.safetensors", *new_run(0), STATE)
    assert recipe_of(tmp_path / "last.safetensors") == "recipe"


def test_equal_tensors_are_equal_bytes_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    tensors = {name: torch.arange(5.0) + i for i, name in enumerate("zyx")}
    written = set()
    for _ in range(10):
        save_tensors(tmp_path / "a.safetensors", tensors, {"b": 1, "a": 2})
        written.add((tmp_path / "a.safetensors").read_bytes())
    assert len(written) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    read, note = read_tensors(tmp_path / "a.safetensors")
    assert note == {"b": 1, "a": 2}
    assert all(torch.equal(read[name], tensors[name]) for name in "xyz")


def test_a_flipped_bit_is_never_resumed_from(tmp_path: Path) -> None:
    file = tmp_path / "run" / "last.safetensors"
    save_run(file, *new_run(0), STATE)
    good, chance = file.read_bytes(), random.Random(0)
    for bit in chance.sample(range(len(good) * 8), 60):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        file.write_bytes(bad)
        for resume in (lambda: load_run(file, *new_run(1)), lambda: recipe_of(file)):
            with pytest.raises(DamagedError, match=r"last.safetensors is damaged: delete .*run"):
                resume()


def test_tensors_that_someone_else_wrote_are_refused(tmp_path: Path) -> None:
    import safetensors.torch

    safetensors.torch.save_file({"a": torch.zeros(2)}, tmp_path / "a.safetensors")
    with pytest.raises(DamagedError, match=r"a.safetensors is damaged: delete"):
        read_tensors(tmp_path / "a.safetensors")
    with pytest.raises(DamagedError, match=r"a.safetensors is damaged: delete"):
        recipe_of(tmp_path / "a.safetensors")


def test_a_note_of_somebody_else_is_refused(tmp_path: Path) -> None:
    model, optimizer = new_run(0)
    file = tmp_path / "last.safetensors"
    save_run(file, model, optimizer, STATE)
    tensors, note = read_tensors(file)

    def use() -> None:
        other, other_optimizer = new_run(1)
        state = load_run(file, other, other_optimizer)
        assert state is not None
        assert state.step >= 0
        assert recipe_of(file) == state.recipe

    cases = [case for case in mutations(note, 300, sealed=False) if case[0]]
    assert survive(note, cases, lambda value: save_tensors(file, tensors, value), use) > 150


def test_tensors_of_another_model_are_refused(tmp_path: Path) -> None:
    model, optimizer = new_run(0)
    file = tmp_path / "last.safetensors"
    save_run(file, model, optimizer, STATE)
    other = torch.nn.Linear(2, 2)
    with pytest.raises(DamagedError, match="its tensors are of another model"):
        load_run(file, other, torch.optim.AdamW(other.parameters()))
