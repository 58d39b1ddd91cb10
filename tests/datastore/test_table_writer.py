"""Rows exist when a manifest names them; a writer goes on from there or says why it will not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knnlm.datastore.table import FORMAT, MANIFEST, ColumnType, open_table
from knnlm.datastore.table_writer import TableWriter
from knnlm.errors import DamagedError, KnnlmError
from knnlm.files import read_json, write_json

from .helpers import contents
from .tables import COLUMNS, KIND, rows

META = {"model": {"name": "m", "size": 3}, "text": "t", "window": 12}


def writer(
    folder: Path, meta: Mapping[str, Any] = META, columns: Mapping[str, ColumnType] = COLUMNS
) -> TableWriter:
    return TableWriter(folder, KIND, columns, meta)


def unfinished(folder: Path, committed: int = 5, pending: int = 0) -> None:
    with writer(folder) as table:
        table.append(rows(0, committed))
        table.commit()
        if pending:
            table.append(rows(committed, committed + pending))


@pytest.mark.parametrize("name", ["parts", "parts/000001"])
def test_a_linked_folder_of_parts_is_not_emptied(tmp_path: Path, name: str) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.mkdir()
    unfinished(store, committed=5)
    (elsewhere / "000001").mkdir(parents=True)
    for folder in (elsewhere, elsewhere / "000001"):
        (folder / "precious").write_bytes(b"mine")
    if name == "parts":
        (store / "parts").rename(tmp_path / "moved")
    (store / name).symlink_to(elsewhere)
    before = contents(elsewhere)
    with (
        writer(store) as table,
        pytest.raises(KnnlmError, match=f"store/{name} is a symbolic link, and nothing is written"),
    ):
        table.append(rows(5, 9))
    assert contents(elsewhere) == before


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_linked_column_is_not_written_through(tmp_path: Path, checkpoint: bool) -> None:
    store, precious = tmp_path / "store", tmp_path / "precious"
    store.mkdir()
    with writer(store) as table:
        table.append(rows(0, 5))
        table.checkpoint()
    column = store / "parts/000000/number.npy"
    precious.write_bytes(column.read_bytes() + b"and more")
    before = precious.read_bytes()
    column.unlink()
    column.symlink_to(precious)
    if not checkpoint:
        (store / "open.json").unlink()
    with writer(store) as table:
        assert table.pending == 0
        table.append(rows(0, 5))
        table.commit()
    assert precious.read_bytes() == before
    assert not column.is_symlink()


def test_rows_that_are_not_committed_are_invisible(tmp_path: Path) -> None:
    with writer(tmp_path) as table:
        table.append(rows(0, 5))
        assert not (tmp_path / MANIFEST).exists()
        table.commit()
        table.append(rows(5, 8))
        assert (table.rows, table.pending) == (5, 3)
        seen = open_table(tmp_path, KIND, unfinished=True)
        np.testing.assert_array_equal(seen.columns["number"].all(), np.arange(5))


def test_a_reopened_writer_continues_at_the_committed_row_and_overwrites_left_overs(
    tmp_path: Path,
) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for folder in (whole, torn):
        folder.mkdir()
        unfinished(folder, committed=5, pending=900 if folder == torn else 0)
    (torn / "parts/000001/junk.npy").write_bytes(b"junk")
    for folder in (whole, torn):
        with writer(folder) as table:
            assert (table.rows, table.pending) == (5, 0)
            table.append(rows(5, 9))
            table.finish({"words": 1})
    assert contents(torn) == contents(whole)
    np.testing.assert_array_equal(open_table(torn, KIND).columns["number"].all(), np.arange(9))


def test_finish_commits_what_is_open_and_keeps_the_summary(tmp_path: Path) -> None:
    with writer(tmp_path) as table:
        table.append(rows(0, 4))
        table.finish({"words": 7})
    found = open_table(tmp_path, KIND)
    assert (found.rows, found.manifest["complete"], found.manifest["summary"]) == (
        4,
        True,
        {"words": 7},
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": {"name": "m", "size": 4}}, "other model"),
        ({"text": "u", "window": 13}, "other text and window"),
        ({"dtype": "new"}, "other dtype"),
    ],
)
def test_a_writer_with_other_settings_is_refused_and_told_which(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    unfinished(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(
        KnnlmError, match=rf"was made from something else \({named}\): choose another folder"
    ):
        writer(tmp_path, {**META, **changed})
    assert contents(tmp_path) == before


def test_a_writer_with_fewer_settings_is_refused_and_told_which(tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(KnnlmError, match=r"was made from something else \(other window\)"):
        writer(tmp_path, {k: v for k, v in META.items() if k != "window"})


def test_a_writer_with_other_columns_is_refused(tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(KnnlmError, match=r"something else \(other columns\)"):
        writer(tmp_path, columns={**COLUMNS, "state": ColumnType("<f4", 3)})


def test_an_unfinished_table_is_refused_with_the_next_step(tmp_path: Path) -> None:
    unfinished(tmp_path, committed=1500)
    with pytest.raises(KnnlmError, match=r"is not finished \(1,500 rows so far\): do this next"):
        open_table(tmp_path, KIND, "do this next")


def test_a_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    unfinished(tmp_path)
    with pytest.raises(KnnlmError, match="holds things, not states: check the path"):
        open_table(tmp_path, "states", unfinished=True)
    with pytest.raises(KnnlmError, match="holds things, not states: check the path"):
        TableWriter(tmp_path, "states", COLUMNS, META)


def test_a_manifest_of_no_kind_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / MANIFEST, {"format": FORMAT, "metric": "l2"})
    with pytest.raises(KnnlmError, match="holds something else, not states: check the path"):
        open_table(tmp_path, "states")


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        KnnlmError, match=r"is not a datastore \(no manifest\.json\): check the path"
    ):
        open_table(tmp_path, "states")


def test_a_table_of_a_newer_format_is_refused_by_readers_and_writers(tmp_path: Path) -> None:
    unfinished(tmp_path)
    write_json(
        tmp_path / MANIFEST,
        {**read_json(tmp_path / MANIFEST), "format": FORMAT + 1, "new": "field"},
    )
    for use in (lambda: open_table(tmp_path, KIND), lambda: writer(tmp_path)):
        with pytest.raises(
            KnnlmError, match="has format 3 but this knnlm reads up to 2: install a newer knnlm"
        ):
            use()


def test_a_table_of_an_older_format_is_refused(tmp_path: Path) -> None:
    unfinished(tmp_path)
    write_json(tmp_path / MANIFEST, {**read_json(tmp_path / MANIFEST), "format": 1})
    for use in (lambda: open_table(tmp_path, KIND), lambda: writer(tmp_path)):
        with pytest.raises(
            KnnlmError, match="has format 1, of an earlier knnlm: make it again with this one"
        ):
            use()


def test_a_format_number_that_was_altered_is_damage_and_not_news(tmp_path: Path) -> None:
    unfinished(tmp_path)
    file = tmp_path / MANIFEST
    file.write_bytes(file.read_bytes().replace(b'"format": 2', b'"format": 3'))
    with pytest.raises(DamagedError, match=r"manifest\.json is damaged"):
        open_table(tmp_path, KIND)


def test_a_newer_format_may_be_laid_out_in_another_way(tmp_path: Path) -> None:
    write_json(tmp_path / MANIFEST, {"format": FORMAT + 1, "kind": KIND})
    sealed = json.loads((tmp_path / MANIFEST).read_bytes())
    (tmp_path / MANIFEST).write_text(json.dumps(sealed))
    with pytest.raises(KnnlmError, match="install a newer knnlm"):
        open_table(tmp_path, KIND)


def test_appended_columns_must_be_those_of_the_table_and_equally_long(tmp_path: Path) -> None:
    with writer(tmp_path) as table:
        with pytest.raises(
            ValueError, match=r"columns \['number'\] given, \['number', 'state'\] expected"
        ):
            table.append({"number": np.arange(3, dtype="<i4")})
        with pytest.raises(ValueError, match="different lengths"):
            table.append({**rows(0, 3), "number": np.arange(4, dtype="<i4")})
        assert (table.rows, table.pending) == (0, 0)
    assert contents(tmp_path) == {}
