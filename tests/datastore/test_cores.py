"""Cores that run batches of their own, while entries of other groups are written: the bytes do not
depend on it, and a failure in a thread loses nothing that is written."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch

from knnlm.datastore.build import GROUPS_BEGUN, build_entries
from knnlm.errors import KnnlmError
from knnlm.hidden_states import BegunEntries, forward
from knnlm.models.load import LanguageModel
from knnlm.workers import begin_on_all_cores, core_count

from .helpers import contents, library

pytestmark = pytest.mark.usefixtures("small_groups")


def build(lm: LanguageModel, folder: Path) -> None:
    build_entries(lm, library(), folder, window=12, stride=5, part_rows=90, logprobs=True)


def test_bytes_do_not_depend_on_the_number_of_cores(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knnlm.hidden_states.forward.BATCH_TOKENS", 24)
    before = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            build(lm, tmp_path / str(count))
    finally:
        torch.set_num_threads(before)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


@pytest.mark.parametrize("after", [0, 5, 9])
def test_a_failure_in_a_thread_keeps_what_was_written(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr("knnlm.hidden_states.forward.BATCH_TOKENS", 24)
    build(lm, tmp_path / "whole")
    run, ran = forward._run_batch, list[int]()

    def fails(*args: Any) -> None:
        ran.append(0)
        if len(ran) > after:
            raise MemoryError("no more")
        run(*args)

    with monkeypatch.context() as patch:
        patch.setattr("knnlm.hidden_states.forward._run_batch", fails)
        with pytest.raises(MemoryError, match="no more"):
            build(lm, tmp_path / "failed")
    build(lm, tmp_path / "failed")
    assert contents(tmp_path / "failed") == contents(tmp_path / "whole")


def test_groups_that_wait_when_one_cannot_be_written_are_left_out(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = list[BegunEntries]()

    def full(*_: Any) -> None:
        raise KnnlmError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("knnlm.datastore.table_writer.TableWriter.append", full)
        patch.setattr(BegunEntries, "cancel", lambda begun: cancelled.append(begun))
        with pytest.raises(KnnlmError, match="full"):
            build(lm, tmp_path / "store")
    assert len(cancelled) == GROUPS_BEGUN
    build(lm, tmp_path / "store")
    build(lm, tmp_path / "whole")
    assert contents(tmp_path / "store") == contents(tmp_path / "whole")


@pytest.mark.parametrize("begun", [0, 1, 7])
def test_bytes_do_not_depend_on_how_many_groups_are_begun(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    build(lm, tmp_path / "usual")
    monkeypatch.setattr("knnlm.datastore.build.GROUPS_BEGUN", begun)
    build(lm, tmp_path / "other")
    assert contents(tmp_path / "other") == contents(tmp_path / "usual")


def test_a_large_model_runs_the_same_entries(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(lm, tmp_path / "small")
    started = list[Any]()
    monkeypatch.setattr("knnlm.hidden_states.forward.begin_on_all_cores", started.append)
    monkeypatch.setattr("knnlm.hidden_states.forward._SMALL_MODEL", 0)
    build(lm, tmp_path / "large")
    assert not started
    targets = "parts/000000/target.npy"
    assert contents(tmp_path / "large")[targets] == contents(tmp_path / "small")[targets]


def test_results_come_in_the_order_of_the_pieces() -> None:
    waiting = [begin_on_all_cores(lambda n: n * n, range(k, k + 20)) for k in (0, 20)]
    assert [n for wait in waiting for n in wait()] == [n * n for n in range(40)]


def test_pieces_that_wait_when_one_fails_are_left_out() -> None:
    begun, raised = list[int](), Event()

    def work(number: int) -> None:
        if number == 0:
            raise ValueError("the first")
        begun.append(number)
        raised.wait()

    try:
        with pytest.raises(ValueError, match="the first"):
            begin_on_all_cores(work, range(100))()
    finally:
        raised.set()
    assert len(begun) <= core_count()
