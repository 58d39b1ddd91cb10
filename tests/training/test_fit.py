"""The loop: it learns, keeps the best, stops in time, and goes on after a kill as if nothing had
happened."""

from pathlib import Path

import numpy as np
import pytest
import torch

import knnlm.training.fit as module
from knnlm.errors import KnnlmError
from knnlm.training.entry_batches import Batch, RowBatches
from knnlm.training.fit import BEST, FitResult, FitSettings, fit
from tests.arrays import column

pytestmark = pytest.mark.pipeline

DEFAULT_FIT = FitSettings(lr=0.05, epochs=6, patience=3)


class Problem:
    """Which of five directions a state points to."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal((5, 8)).astype(np.float32)
        states = rng.standard_normal((3000, 8)).astype(np.float32)
        targets = (states @ truth.T).argmax(1).astype(np.int32)
        self.batches = RowBatches([column(states[:2500])], targets[:2500], 100, seed)
        self.valid = Batch(
            torch.from_numpy(states[2500:]), torch.from_numpy(targets[2500:].astype(np.int64)), {}
        )
        torch.manual_seed(0)
        self.module = torch.nn.Linear(8, 5, bias=False)

    def loss(self, batch: Batch) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.module(batch.states), batch.targets)

    def into(self, out: Path, how: FitSettings = DEFAULT_FIT, recipe: str = "r") -> FitResult:
        return fit(
            self.module,
            self.batches,
            self.loss,
            lambda: self.loss(self.valid).item(),
            how,
            out,
            recipe,
        )


def test_it_learns_and_returns_the_best(tmp_path: Path) -> None:
    problem = Problem()
    before = problem.loss(problem.valid).item()
    found = problem.into(tmp_path)
    assert found.valid_loss < 0.5 * before
    assert problem.loss(problem.valid).item() == pytest.approx(found.valid_loss, abs=1e-6)
    assert found.rows_per_second > 0


def test_it_stops_when_validation_no_longer_improves(tmp_path: Path) -> None:
    problem = Problem()
    found = problem.into(tmp_path, FitSettings(lr=5.0, epochs=40, patience=2))
    assert found.best_step < found.steps < 40 * problem.batches.steps_per_epoch


def test_a_start_that_nothing_improves_on_is_kept(tmp_path: Path) -> None:
    problem = Problem()
    problem.into(tmp_path / "a")
    good = problem.module.weight.detach().clone()
    again = Problem()
    again.module.load_state_dict({"weight": good})
    found = again.into(tmp_path / "b", FitSettings(lr=50.0, epochs=4, patience=2))
    assert found.best_step == 0
    assert torch.equal(again.module.weight, good)


@pytest.mark.parametrize("save", [0, 17, 60])
def test_an_interrupted_fit_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: int
) -> None:
    whole = Problem()
    undisturbed = whole.into(tmp_path / "whole")
    monkeypatch.setattr(module, "SAVE_SECONDS", 0.0)
    stopped, steps = Problem(), 0
    real = stopped.loss

    def stops(batch: Batch) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps == save + 1:
            raise KeyboardInterrupt
        return real(batch)

    monkeypatch.setattr(stopped, "loss", stops)
    with pytest.raises(KeyboardInterrupt):
        stopped.into(tmp_path / "stopped")
    resumed = Problem()
    found = resumed.into(tmp_path / "stopped")
    assert found[:3] == undisturbed[:3]
    assert torch.equal(resumed.module.weight, whole.module.weight)
    assert (tmp_path / "stopped" / BEST).read_bytes() == (tmp_path / "whole" / BEST).read_bytes()


def test_a_finished_fit_is_opened_not_repeated(tmp_path: Path) -> None:
    first = Problem()
    found = first.into(tmp_path)
    second = Problem()
    second.batches = None  # type: ignore[assignment]
    assert second.into(tmp_path) == found
    assert torch.equal(second.module.weight, first.module.weight)


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    Problem().into(tmp_path)
    with pytest.raises(KnnlmError, match="learned in another way"):
        Problem().into(tmp_path, recipe="other")


def test_a_loss_that_explodes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KnnlmError, match="choose a smaller learning rate"):
        Problem().into(tmp_path, FitSettings(lr=1e38, epochs=2))
