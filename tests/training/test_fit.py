"""Fitting a module to entries: it learns, returns the best weights, stops in time, and resumes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import read_json
from knnlm.training.entry_batches import Batch, EntryBatches
from knnlm.training.fit import RECORD, FitResult, FitSettings, fit
from knnlm.training.loop import BEST, Diverged
from tests.arrays import column

pytestmark = pytest.mark.pipeline

SETTINGS = FitSettings(lr=0.05, epochs=6, patience=3)


class Problem:
    """Which of five directions a state points to."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        truth = rng.standard_normal((5, 8)).astype(np.float32)
        states = rng.standard_normal((3000, 8)).astype(np.float32)
        targets = (states @ truth.T).argmax(1).astype(np.int32)
        self.batches = EntryBatches([column(states[:2500])], targets[:2500], 100, seed)
        self.valid = Batch(
            torch.from_numpy(states[2500:]), torch.from_numpy(targets[2500:].astype(np.int64)), {}
        )
        torch.manual_seed(0)
        self.module = torch.nn.Linear(8, 5, bias=False)

    def loss(self, batch: Batch) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.module(batch.states), batch.targets)

    def into(self, out: Path, settings: FitSettings = SETTINGS, recipe: str = "r") -> FitResult:
        return fit(
            self.module,
            self.batches,
            self.loss,
            lambda: self.loss(self.valid).item(),
            settings,
            out,
            recipe,
        )


def test_it_learns_and_returns_the_best(tmp_path: Path) -> None:
    problem = Problem()
    before = problem.loss(problem.valid).item()
    result = problem.into(tmp_path)
    assert result.valid_loss < 0.5 * before
    assert problem.loss(problem.valid).item() == pytest.approx(result.valid_loss, abs=1e-6)
    assert result.entries_per_second > 0


def test_it_stops_when_validation_no_longer_improves(tmp_path: Path) -> None:
    problem = Problem()
    result = problem.into(tmp_path, FitSettings(lr=5.0, epochs=40, patience=2))
    assert result.best_step < result.steps < 40 * problem.batches.steps_per_epoch


def test_a_start_that_nothing_improves_on_is_kept(tmp_path: Path) -> None:
    problem = Problem()
    problem.into(tmp_path / "a")
    good = problem.module.weight.detach().clone()
    again = Problem()
    again.module.load_state_dict({"weight": good})
    result = again.into(tmp_path / "b", FitSettings(lr=50.0, epochs=4, patience=2))
    assert result.best_step == 0
    assert torch.equal(again.module.weight, good)


@pytest.mark.parametrize("save", [0, 17, 60])
def test_an_interrupted_fit_ends_with_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: int
) -> None:
    whole = Problem()
    undisturbed = whole.into(tmp_path / "whole")
    monkeypatch.setattr("knnlm.training.loop.SAVE_SECONDS", 0.0)
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
    result = resumed.into(tmp_path / "stopped")
    assert result[:3] == undisturbed[:3]
    assert torch.equal(resumed.module.weight, whole.module.weight)
    assert (tmp_path / "stopped" / BEST).read_bytes() == (tmp_path / "whole" / BEST).read_bytes()


def test_a_finished_fit_is_opened_not_repeated(tmp_path: Path) -> None:
    first = Problem()
    result = first.into(tmp_path)
    second = Problem()
    second.batches = None  # type: ignore[assignment]
    assert second.into(tmp_path) == result
    assert torch.equal(second.module.weight, first.module.weight)


def test_another_recipe_is_refused_finished_or_not(tmp_path: Path) -> None:
    Problem().into(tmp_path)
    with pytest.raises(KnnlmError, match="holds something learned in another way"):
        Problem().into(tmp_path, recipe="other")
    (tmp_path / RECORD).unlink()
    with pytest.raises(KnnlmError, match="holds something half learned in another way"):
        Problem().into(tmp_path, recipe="other")


def test_a_loss_that_explodes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="choose a smaller learning rate"):
        Problem().into(tmp_path, FitSettings(lr=1e38, epochs=2))


def test_settings_and_records_keep_their_names_on_disk(tmp_path: Path) -> None:
    settings = FitSettings(lr=0.1, epochs=1, validations_per_epoch=3)
    names = {"lr": 0.1, "epochs": 1, "weight_decay": 0.0, "looks": 3, "patience": 2}
    assert settings.settings() == names
    result = Problem().into(tmp_path, settings)
    assert result == tuple(
        read_json(tmp_path / RECORD)[name]
        for name in ("steps", "best_step", "valid_loss", "rows_per_second")
    )


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="learning rate 0.0 is out of range"):
        FitSettings(lr=0.0, epochs=1)
    with pytest.raises(UsageError, match="0 epochs are out of range"):
        FitSettings(lr=0.1, epochs=0)
