"""A full disk is one sentence; what was committed is kept, and with space again the build ends as
it always would."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import ENTRIES_KIND as STATES
from knnlm.datastore.table import open_table, verify_table
from knnlm.errors import KnnlmError
from knnlm.models.load import LanguageModel

from .disk import Disk, run
from .helpers import committed, contents, library
from .tables import KIND, write_table

FULL = (
    r"the disk under .* is full: free some space and run the same command again; "
    r"what was committed so far is kept"
)
pytestmark = pytest.mark.usefixtures("small_groups")


def no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_space_at_any_step_of_a_table_is_a_sentence_and_loses_nothing(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    for step in range(1, run(whole, write_table) + 1):
        folder = tmp_path / str(step)
        with Disk(step, no_space()).in_use(), pytest.raises(KnnlmError, match=FULL):
            write_table(folder)
        if committed(folder):
            verify_table(open_table(folder, KIND, unfinished=True))
        run(folder, write_table)
        assert contents(folder) == contents(whole), f"no space at step {step}"


def test_no_space_at_random_steps_of_a_build_is_a_sentence_and_loses_nothing(
    tmp_path: Path, lm: LanguageModel
) -> None:
    def build(folder: Path) -> None:
        build_entries(lm, library(), folder, window=12, stride=5, logprobs=True, part_rows=90)

    whole, folder = tmp_path / "whole", tmp_path / "short"
    steps, kept, chance = run(whole, build), 0, random.Random(7)
    for step in sorted(
        chance.sample(range(1, steps // 2), 8)
    ):  # each run goes on where the last one stopped
        with Disk(step, no_space()).in_use(), pytest.raises(KnnlmError, match=FULL):
            build(folder)
        assert committed(folder) >= kept
        kept = committed(folder)
    assert kept > 0
    run(folder, build)
    assert contents(folder) == contents(whole)


def test_a_file_that_takes_no_bytes_is_a_sentence_and_leaves_no_noise(
    tmp_path: Path, lm: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that really is full stands in for each file in turn; no file stays open, so none
    complains later."""

    def build(folder: Path) -> None:
        build_entries(lm, library(), folder, keys=["ffn"], window=12, stride=5, part_rows=150)

    really, opened, full = Path.open, 0, 0

    def open_next(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        nonlocal opened
        opened += mode == "xb"
        return (
            open("/dev/full", "wb")
            if mode == "xb" and opened == full
            else really(path, mode, *given, **named)
        )

    monkeypatch.setattr(Path, "open", open_next)
    build(tmp_path / "whole")
    assert opened > 10
    for number in range(1, opened + 1):
        folder = tmp_path / str(number)
        opened, full = 0, number
        with pytest.raises(KnnlmError, match=FULL):
            build(folder)
        if committed(folder):
            verify_table(open_table(folder, STATES, unfinished=True))
        full = 0
        build(folder)
        assert contents(folder) == contents(tmp_path / "whole"), f"file {number} took no bytes"
