"""What is appended and committed is read back exactly, however it was cut into parts."""

import os
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knnlm.datastore.table import Table, open_table, verify_table
from knnlm.datastore.table_writer import TableWriter
from knnlm.errors import KnnlmError

from .tables import COLUMNS, KIND, rows


def write(folder: Path, parts: list[list[int]]) -> Table:
    folder.mkdir(exist_ok=True)
    with TableWriter(folder, KIND, COLUMNS, {}) as writer:
        at = 0
        for sizes in parts:
            for size in sizes:
                writer.append(rows(at, at + size))
                at += size
                assert writer.pending + writer.rows == at
            writer.commit()
        writer.finish({})
    return open_table(folder, KIND)


parts_of_appends = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5)


@given(parts_of_appends, st.data())
@settings(max_examples=60)
def test_every_way_of_reading_gives_exactly_what_was_written(
    parts: list[list[int]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        table = write(Path(folder), parts)
        total = sum(map(sum, parts))
        assert table.rows == total
        assert len(table.manifest["parts"]) == sum(sum(sizes) > 0 for sizes in parts)
        start, stop = data.draw(st.integers(-2, total + 2)), data.draw(st.integers(-2, total + 2))
        size = data.draw(st.integers(1, total + 2))
        shape = (
            data.draw(st.sampled_from([(4,), (2, 3), (0,), (1, 0), (2, 1, 2)])) if total else (0,)
        )
        ids = np.array(
            data.draw(st.lists(st.integers(0, max(total - 1, 0)), min_size=12, max_size=12))
        )
        ids = np.resize(ids, shape)
        for name, wanted in rows(0, total).items():
            column = table.columns[name]
            assert len(column) == total
            assert column.all().dtype == wanted.dtype
            np.testing.assert_array_equal(column.all(), wanted)
            np.testing.assert_array_equal(
                column.read(start, stop), wanted[max(start, 0) : max(stop, 0)]
            )
            np.testing.assert_array_equal(column.gather(ids), wanted[ids])
            blocks = list(column.blocks(size))
            assert [first for first, _ in blocks] == list(range(0, total, size))
            assert all(len(block) == size for _, block in blocks[:-1])
            np.testing.assert_array_equal(
                np.concatenate([wanted[:0], *(block for _, block in blocks)]), wanted
            )
        verify_table(table)


def test_what_was_read_is_a_copy_that_the_file_does_not_share(tmp_path: Path) -> None:
    table = write(tmp_path, [[5]])
    for found in (table.columns["number"].all(), table.columns["number"].gather(np.array([0, 1]))):
        found[:] = 77
    np.testing.assert_array_equal(table.columns["number"].all(), np.arange(5))
    verify_table(table)


@pytest.mark.parametrize("parts", [[[9]], [[4], [5]]])
@pytest.mark.parametrize("bad", [-1, 9, -10, 1 << 40])
def test_gathering_a_row_that_is_not_there_is_an_error_and_not_some_other_row(
    tmp_path: Path, parts: list[list[int]], bad: int
) -> None:
    column = write(tmp_path, parts).columns["state"]
    with pytest.raises(IndexError, match="there are 9"):
        column.gather(np.array([[0, 3], [bad, 8]]))


def test_parts_are_plain_numpy_files(tmp_path: Path) -> None:
    write(tmp_path, [[4], [2, 1]])
    np.testing.assert_array_equal(np.load(tmp_path / "parts/000001/number.npy"), [4, 5, 6])
    assert np.load(tmp_path / "parts/000000/state.npy").shape == (4, 3)


def test_a_part_may_keep_extra_files_and_they_are_verified_too(tmp_path: Path) -> None:
    with TableWriter(tmp_path, KIND, COLUMNS, {}) as writer:
        writer.append(rows(0, 3))
        writer.commit({"names.json": b"[1]"})
        writer.finish({})
    bytes_of_files = sum(f.stat().st_size for f in (tmp_path / "parts/000000").iterdir())
    assert verify_table(open_table(tmp_path, KIND)) == bytes_of_files
    (tmp_path / "parts/000000/names.json").write_bytes(b"[2]")
    with pytest.raises(KnnlmError, match=r"names\.json is damaged"):
        verify_table(open_table(tmp_path, KIND))
    verify_table(open_table(tmp_path, KIND), ["state", "number"])


@pytest.fixture
def few_open_files(tmp_path: Path) -> Any:
    """A process that may open only a few more files than it has."""
    set_limit = resource.setrlimit  # a test may put another in its place
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    set_limit(resource.RLIMIT_NOFILE, (free + 20, hard))
    yield
    set_limit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_table_of_many_parts_opens_where_few_files_may_be_open(
    tmp_path: Path, few_open_files: None
) -> None:
    table = write(tmp_path, [[1]] * 40)
    np.testing.assert_array_equal(table.columns["number"].all(), np.arange(40))


def test_a_table_of_more_parts_than_the_system_permits_is_one_sentence(
    tmp_path: Path, few_open_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    with pytest.raises(
        KnnlmError, match=r"more files than may be open at once: raise the limit \(ulimit -n\)"
    ):
        write(tmp_path, [[1]] * 40)
