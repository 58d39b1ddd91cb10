"""A file that changes while a datastore is built is noticed: no manifest names another text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knnlm.datastore import build_entries, open_entries
from knnlm.errors import KnnlmError
from knnlm.models import LanguageModel
from knnlm.text import Document
from knnlm.text.local_files import find_files


class WrittenWhileRead:
    """The files of a folder; something happens after the first document."""

    def __init__(self, folder: Path, happens: Any) -> None:
        self.files, self.happens = find_files([folder], "train"), happens

    def describe(self) -> dict[str, Any]:
        return self.files.describe()

    def __iter__(self) -> Iterator[Document]:
        for number, document in enumerate(self.files):
            yield document
            if number == 0:
                self.happens()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in "abc":
        (tmp_path / "docs" / f"{name}.txt").write_text("the cat sat on a mat.\n" * 20)
    return tmp_path / "docs"


@pytest.mark.parametrize(
    ("names", "message"), [("b", r"b\.txt changed while"), ("bc", r"2 files changed while")]
)
def test_a_file_that_changes_before_it_is_read_is_noticed(
    lm: LanguageModel, folder: Path, tmp_path: Path, names: str, message: str
) -> None:
    def happens() -> None:
        for name in names:
            (folder / f"{name}.txt").write_text("it rained\n" * 20)

    with pytest.raises(KnnlmError, match=message):
        build_entries(lm, WrittenWhileRead(folder, happens), tmp_path / "store")
    with pytest.raises(KnnlmError, match="not finished"):
        open_entries(tmp_path / "store")


def test_a_new_file_beside_them_changes_nothing(
    lm: LanguageModel, folder: Path, tmp_path: Path
) -> None:
    source = WrittenWhileRead(folder, lambda: (folder / "d.txt").write_text("new"))
    assert build_entries(lm, source, tmp_path / "store").count > 0
