"""A writer may die at any step: what was committed is there, and going on gives the bytes of a run
that never died."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import ENTRIES_KIND as STATES
from knnlm.datastore.table import open_table, verify_table
from knnlm.models.load import LanguageModel

from .disk import Crash, Disk, run
from .helpers import committed, contents, library
from .tables import KIND, PART, ROWS, rows, write_table

pytestmark = pytest.mark.pipeline

Work = Callable[[Path], object]


def crash(disk: Disk, folder: Path, work: Work) -> None:
    with disk.in_use(), pytest.raises(Crash):
        work(folder)


@pytest.mark.parametrize("power", ["stays", "fails"])
def test_a_table_survives_a_crash_at_every_step(tmp_path: Path, power: str) -> None:
    whole = tmp_path / "whole"
    steps = run(whole, write_table)
    assert steps > 60
    seen = []
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        disk = Disk(fails_at=step)
        crash(disk, folder, write_table)
        if power == "fails" and folder.exists():
            disk.lose_power(folder)
        seen.append(committed(folder))
        if seen[-1]:
            table = open_table(folder, KIND, unfinished=True)
            assert verify_table(table) > 0
            for name, wanted in rows(0, seen[-1]).items():
                np.testing.assert_array_equal(table.columns[name].all(), wanted)
        run(folder, write_table)
        assert contents(folder) == contents(whole), f"after a crash at step {step} of {steps}"
    assert seen == sorted(seen)
    assert set(seen) == {0, PART, 2 * PART, ROWS}


def test_a_table_survives_crash_after_crash(tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "torn"
    steps = run(whole, write_table)
    disk = Disk()
    for step in (steps // 2, steps // 4, 3, steps // 3, 2):
        disk.fails_at = disk.steps + step
        crash(disk, folder, write_table)
        disk.lose_power(folder)
    write_table(folder)
    assert contents(folder) == contents(whole)


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("power", ["stays", "fails"])
def test_a_build_survives_a_crash_at_every_step(
    tmp_path: Path, lm: LanguageModel, power: str
) -> None:
    def build(folder: Path) -> None:
        build_entries(lm, library(), folder, keys=["ffn"], window=12, stride=5, part_rows=90)

    whole = tmp_path / "whole"
    steps = run(whole, build)
    reference = open_table(whole, STATES)
    cuts = np.cumsum([0] + [part["rows"] for part in reference.manifest["parts"]])
    assert len(cuts) == 4
    seen = []
    for step in range(1, steps + 1):
        folder = tmp_path / str(step)
        disk = Disk(fails_at=step)
        crash(disk, folder, build)
        if power == "fails" and folder.exists():
            disk.lose_power(folder)
        seen.append(committed(folder))
        if seen[-1]:
            table = open_table(folder, STATES, unfinished=True)
            for name, column in table.columns.items():
                np.testing.assert_array_equal(
                    column.all(), reference.columns[name].read(0, seen[-1])
                )
        run(folder, build)
        assert contents(folder) == contents(whole), f"after a crash at step {step} of {steps}"
    assert set(seen) == set(cuts.tolist())
