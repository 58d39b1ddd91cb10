"""The training loop: when it validates, saves and stops, and that a stopped run resumes exactly."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from knnlm.tensors import read_note, read_tensors
from knnlm.training.checkpoint import TrainingState
from knnlm.training.loop import BEST, LAST, BarUnit, Diverged, Schedule, Task, run_loop

SCHEDULE = Schedule(
    steps=10, learning_rate=lambda step: 0.1 / (1 + step), validate_every=4, clip=1.0
)


class Regression:
    """A linear map to learn from noisy inputs that are drawn again in each update."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.folder = folder
        self.module = torch.nn.Linear(3, 1)
        self.task = Task(
            module=self.module,
            optimizer=torch.optim.AdamW(self.module.parameters()),
            loss=self.loss,
            validate=lambda: self.error(torch.eye(3)).item(),
        )
        self.validated: list[int] = []

    def loss(self, step: int) -> torch.Tensor:
        torch.manual_seed(step)
        return self.error(torch.randn(5, 3))

    def error(self, inputs: torch.Tensor) -> torch.Tensor:
        return (self.module(inputs) - inputs.sum(1, keepdim=True)).square().mean()

    def run(self, schedule: Schedule = SCHEDULE, task: Task | None = None) -> TrainingState:
        return run_loop(
            task or self.task,
            schedule,
            self.folder,
            "recipe",
            unit=BarUnit("learn", "inputs", 5),
            on_validation=lambda state: self.validated.append(state.step),
        )

    def validating(self, losses: Iterator[float]) -> Task:
        """The task with these validation losses."""
        return dataclasses.replace(self.task, validate=lambda: next(losses))


def test_it_validates_at_intervals_and_at_the_end(tmp_path: Path) -> None:
    regression = Regression(tmp_path)
    state = regression.run()
    assert regression.validated == [4, 8, 10]
    assert [entry["step"] for entry in state.history] == [4, 8, 10]
    assert state.losses == []
    assert all(set(entry) == {"step", "valid_loss"} for entry in state.history)


def test_the_start_can_be_the_best(tmp_path: Path) -> None:
    regression = Regression(tmp_path)
    before = regression.module.weight.detach().clone()
    state = regression.run(
        dataclasses.replace(SCHEDULE, validate_at_start=True),
        regression.validating(iter([1.0, 2.0, 3.0, 4.0])),
    )
    assert (state.best_step, state.best_loss) == (0, 1.0)
    assert torch.equal(read_tensors(tmp_path / BEST)[0]["weight"], before)
    assert not torch.equal(regression.module.weight, before)


def test_recorded_losses_are_averaged_between_validations(tmp_path: Path) -> None:
    regression, losses = Regression(tmp_path), []

    def loss(step: int) -> torch.Tensor:
        value = regression.loss(step)
        losses.append(value.item())
        return value

    state = regression.run(
        dataclasses.replace(SCHEDULE, record_losses=True),
        dataclasses.replace(regression.task, loss=loss),
    )
    means = [sum(losses[a:b]) / (b - a) for a, b in ((0, 4), (4, 8), (8, 10))]
    assert [entry["train_loss"] for entry in state.history] == pytest.approx(means)


@pytest.mark.parametrize("patience", [1, 2])
def test_patience_counts_validations_since_the_best(tmp_path: Path, patience: int) -> None:
    regression = Regression(tmp_path)
    schedule = dataclasses.replace(SCHEDULE, steps=100, validate_every=1, patience=patience)
    losses = iter([3.0, 2.0, 2.5, 1.0, 1.0, 1.5, 0.5])
    state = regression.run(schedule, regression.validating(losses))
    assert (state.step, state.best_step) == {1: (3, 2), 2: (6, 4)}[patience]
    assert regression.run(schedule) == state  # a run that has ended stays so


def test_gradients_are_clipped(tmp_path: Path) -> None:
    regression = Regression(tmp_path)
    parameters = list(regression.module.parameters())
    task = dataclasses.replace(regression.task, optimizer=torch.optim.SGD(parameters))
    before = torch.cat([p.detach().flatten() for p in parameters])
    schedule = Schedule(steps=1, learning_rate=lambda _: 1.0, validate_every=1, clip=1e-3)
    regression.run(schedule, task)
    after = torch.cat([p.detach().flatten() for p in parameters])
    assert (after - before).norm().item() == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("stop", range(1, 10))
@pytest.mark.parametrize("record_losses", [False, True])
def test_a_run_stopped_in_any_update_resumes_and_ends_with_the_same_bytes(
    tmp_path: Path, stop: int, record_losses: bool
) -> None:
    schedule = dataclasses.replace(
        SCHEDULE, validate_at_start=True, record_losses=record_losses, save_every=3
    )
    whole = Regression(tmp_path / "whole").run(schedule)
    stopped = Regression(tmp_path / "stopped")

    def loss(step: int) -> torch.Tensor:
        if step == stop:
            raise KeyboardInterrupt
        return stopped.loss(step)

    with pytest.raises(KeyboardInterrupt):
        stopped.run(schedule, dataclasses.replace(stopped.task, loss=loss))
    saved = [0, *(step for step in (3, 4, 6, 8, 9) if step <= stop)][-1]
    if saved:
        assert read_note(tmp_path / "stopped" / LAST)["step"] == saved
    resumed = Regression(tmp_path / "stopped").run(schedule)
    assert resumed._replace(seconds=0.0) == whole._replace(seconds=0.0)
    best = [(tmp_path / run / BEST).read_bytes() for run in ("whole", "stopped")]
    assert best[0] == best[1]
    last = [read_tensors(tmp_path / run / LAST)[0] for run in ("whole", "stopped")]
    assert last[0].keys() == last[1].keys()
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


def test_a_kill_between_the_best_weights_and_the_state_repeats_the_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Regression(tmp_path / "whole").run()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("knnlm.training.loop.save_run", killed)
        with pytest.raises(KeyboardInterrupt):
            Regression(tmp_path / "stopped").run()
    assert read_note(tmp_path / "stopped" / BEST) == {"step": 4}
    resumed = Regression(tmp_path / "stopped").run()
    assert resumed._replace(seconds=0.0) == whole._replace(seconds=0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, value: float) -> None:
    regression = Regression(tmp_path)
    with pytest.raises(Diverged, match=f"the loss became {value} at step 4: choose a smaller"):
        regression.run(task=regression.validating(iter([value])))
    assert not (tmp_path / BEST).exists()


def test_training_losses_are_checked_only_where_they_are_recorded(tmp_path: Path) -> None:
    regression = Regression(tmp_path)

    def loss(step: int) -> torch.Tensor:
        return regression.loss(step) + (math.inf if step == 2 else 0.0)

    task = dataclasses.replace(regression.task, loss=loss)
    assert regression.run(task=task).step == SCHEDULE.steps
    with pytest.raises(Diverged, match="the loss became inf at step 2"):
        Regression(tmp_path / "recorded").run(
            dataclasses.replace(SCHEDULE, record_losses=True), task
        )
