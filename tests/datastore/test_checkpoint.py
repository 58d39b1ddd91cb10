"""A build that stops between two commits keeps what it computed, and still ends with the same
bytes."""

import random
from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import open_entries
from knnlm.datastore.npy import NpyWriter
from knnlm.datastore.table import CHECKPOINT
from knnlm.datastore.table_writer import TableWriter
from knnlm.disk import temporary_name
from knnlm.errors import KnnlmError
from knnlm.files import read_json, write_json
from knnlm.hidden_states import begin_entries
from knnlm.models.load import LanguageModel
from knnlm.text.documents import Document
from tests.hostile import mutations, sealed_file, survive

from .disk import Disk
from .helpers import Texts, contents, library
from .tables import COLUMNS, KIND, rows

pytestmark = pytest.mark.usefixtures("small_groups")


def build(lm: LanguageModel, source: Texts, folder: Path, part_rows: int = 1000) -> None:
    build_entries(lm, source, folder, window=12, stride=5, part_rows=part_rows)


class Groups:
    """Counts the groups that were run through the model, and stops after so many, like Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.rows = 10**9, 0
        monkeypatch.setattr("knnlm.datastore.build.begin_entries", self)

    def __call__(self, *args: Any) -> Any:
        begun, groups = begin_entries(*args), self

        class Counted:
            def __call__(self) -> Any:
                if groups.left == 0:
                    raise KeyboardInterrupt
                groups.left -= 1
                computed = begun()
                groups.rows += len(computed["target"])
                return computed

            def cancel(self) -> None:
                begun.cancel()

        return Counted()


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Groups:
    return Groups(monkeypatch)


def stopped(lm: LanguageModel, source: Texts, folder: Path, groups: Groups, after: int) -> int:
    """A build interrupted after so many groups; returns the entries that it had computed."""
    groups.left, groups.rows = after, 0
    with pytest.raises(KeyboardInterrupt):
        build(lm, source, folder)
    groups.left = 10**9
    return groups.rows


@pytest.mark.parametrize("part_rows", [90, 1000])
@pytest.mark.parametrize("after", [1, 3, 5])
def test_no_entry_is_computed_twice_after_ctrl_c(
    tmp_path: Path, lm: LanguageModel, groups: Groups, part_rows: int, after: int
) -> None:
    build(lm, library(), tmp_path / "whole", part_rows)
    every = groups.rows
    groups.left, groups.rows = after, 0
    with pytest.raises(KeyboardInterrupt):
        build(lm, library(), tmp_path / "stopped", part_rows)
    groups.left = 10**9
    build(lm, library(), tmp_path / "stopped", part_rows)
    assert groups.rows == every
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_build_may_be_stopped_again_and_again(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    build(lm, library(), tmp_path / "whole", 90)
    every, groups.rows = groups.rows, 0
    for _ in range(every):
        groups.left = 1
        try:
            build(lm, library(), tmp_path / "stopped", 90)
        except KeyboardInterrupt:
            continue
        break
    assert groups.rows == every
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_killed_build_keeps_what_its_last_checkpoint_named(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    """As if power failed after the checkpoint: later bytes are there, but nobody vouches for
    them."""
    build(lm, library(), tmp_path / "whole")
    folder = tmp_path / "killed"
    kept = stopped(lm, library(), folder, groups, after=3)
    for column in (folder / "parts/000000").iterdir():
        with column.open("ab") as file:
            file.write(b"half a row")
    groups.rows = 0
    build(lm, library(), folder)
    assert contents(folder) == contents(tmp_path / "whole")
    assert groups.rows > 0
    assert read_json(folder / "manifest.json")["rows"] == groups.rows + kept


@pytest.mark.parametrize("what", ["bit", "shorter", "missing", "checkpoint", "another part"])
def test_a_damaged_open_part_is_computed_again(
    tmp_path: Path, lm: LanguageModel, groups: Groups, what: str
) -> None:
    build(lm, library(), tmp_path / "whole")
    folder, every = tmp_path / "damaged", groups.rows
    stopped(lm, library(), folder, groups, after=3)
    column, checkpoint = folder / "parts/000000/att.npy", folder / CHECKPOINT
    if what == "bit":
        data = bytearray(column.read_bytes())
        data[random.Random(0).randrange(128, len(data))] ^= 4
        column.write_bytes(data)
    elif what == "shorter":
        column.write_bytes(column.read_bytes()[:-1])
    elif what == "missing":
        column.unlink()
    elif what == "checkpoint":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-9])
    else:
        write_json(checkpoint, {**read_json(checkpoint), "part": 7})
    groups.rows = 0
    build(lm, library(), folder)
    assert groups.rows == every
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_text_that_changed_inside_the_open_part_is_refused(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    stopped(lm, library(), tmp_path, groups, after=3)
    changed = library()
    changed.documents[2] = Document("n° 2", changed.documents[2].text[:-1] + "!")
    with pytest.raises(KnnlmError, match="the text differs from the one .* was begun with"):
        build(lm, changed, tmp_path)
    build(lm, library(), tmp_path)  # what was kept is still there


def test_other_settings_do_not_continue_an_open_part(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    build_entries(lm, library(), tmp_path / "whole", window=16, stride=8)
    every = groups.rows
    stopped(lm, library(), tmp_path / "other", groups, after=3)
    groups.rows = 0
    build_entries(lm, library(), tmp_path / "other", window=16, stride=8)
    assert groups.rows == every
    assert contents(tmp_path / "other") == contents(tmp_path / "whole")


def test_a_torn_append_keeps_the_checkpoint_before_it(
    tmp_path: Path, lm: LanguageModel, groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(lm, library(), tmp_path / "whole")
    every, groups.rows = groups.rows, 0
    real, calls = NpyWriter.write, 0

    def torn(writer: NpyWriter, values: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 13:  # in the third group, some of whose columns are written
            raise KeyboardInterrupt
        real(writer, values)

    monkeypatch.setattr(NpyWriter, "write", torn)
    with pytest.raises(KeyboardInterrupt):
        build(lm, library(), tmp_path / "torn")
    computed, groups.rows = groups.rows, 0
    build(lm, library(), tmp_path / "torn")
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")
    assert every - computed < groups.rows < every  # one group again, and no more


def test_what_an_interrupted_commit_left_is_not_taken_in(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    build(lm, library(), tmp_path / "whole")
    stopped(lm, library(), tmp_path / "torn", groups, after=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knnlm.disk._PROCESS", "00000000")  # of one that was killed
        temporary_name(tmp_path / "torn" / "parts/000000/documents.json").write_text("half")
        temporary_name(tmp_path / "torn" / "open.json").write_text("half")
    build(lm, library(), tmp_path / "torn")
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")


def test_an_unfinished_build_is_called_that(
    tmp_path: Path, lm: LanguageModel, groups: Groups, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(lm, library(), tmp_path, groups, after=3)
    with pytest.raises(KnnlmError, match="its build has not finished, run the same `Datastore"):
        open_entries(tmp_path)
    build_entries(lm, library(), tmp_path, window=16, stride=8)
    assert "begun and not finished; they are replaced" in caplog.text


def test_a_checkpoint_survives_a_power_failure(
    tmp_path: Path, lm: LanguageModel, groups: Groups
) -> None:
    disk = Disk()
    groups.left = 3
    with disk.in_use(), pytest.raises(KeyboardInterrupt):
        build(lm, library(), tmp_path / "store")
    disk.lose_power(tmp_path / "store")
    kept, groups.left, groups.rows = groups.rows, 10**9, 0
    build(lm, library(), tmp_path / "store")
    assert kept > 0
    assert read_json(tmp_path / "store/manifest.json")["rows"] == kept + groups.rows


def test_a_folder_of_other_files_is_not_built_into(tmp_path: Path, lm: LanguageModel) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(KnnlmError, match="holds other files: choose an empty or a new folder"):
        build(lm, library(), tmp_path)
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_a_checkpoint_of_somebody_else_is_not_followed(tmp_path: Path) -> None:
    """With a seal that fits and absurd content it is left alone, and the part begun again."""

    def begun() -> TableWriter:
        return TableWriter(tmp_path, KIND, COLUMNS, {"a": 1})

    with begun() as writer:
        writer.append(rows(0, 5))
        writer.checkpoint()
    columns = {file: file.read_bytes() for file in tmp_path.glob("parts/000000/*.npy")}
    fields, write = sealed_file(tmp_path / CHECKPOINT)

    def use() -> None:
        for file, data in columns.items():
            file.write_bytes(data)
        with begun() as writer:
            assert writer.pending in (0, 5)

    survive(fields, mutations(fields, 300), write, use)
