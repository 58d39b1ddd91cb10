"""A text is named in one way everywhere; the verb says which split is read."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knnlm.errors import UsageError
from knnlm.text import (
    SPLITS,
    Document,
    Files,
    HubDataset,
    HubSplit,
    PythonDocs,
    PythonDocsSplit,
    open_text,
)


@dataclass(frozen=True)
class OneDocument:
    """A source that a user wrote."""

    def describe(self) -> dict[str, Any]:
        return {"kind": "one"}

    def __iter__(self) -> Iterator[Document]:
        yield Document("only", "text")


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text(file.name)
    return files


def test_a_path_is_a_text_as_a_string_or_a_path_alone_or_in_a_list(paths: list[Path]) -> None:
    first, _ = paths
    for text in (first, str(first), [first], (str(first),)):
        assert open_text(text, "train") == Files((first,))
    assert open_text([str(paths[1]), first], "train") == Files((paths[1], first))


def test_plain_files_are_read_whole_whatever_the_split(paths: list[Path]) -> None:
    for split in SPLITS:
        assert open_text(paths, split) == Files(tuple(paths))


def test_a_folder_of_wikitext_gives_the_file_of_the_split_among_other_paths(
    paths: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "wikitext"
    folder.mkdir()
    for split in SPLITS:
        (folder / f"wiki.{split}.tokens").write_text(" words \n")
    for split in SPLITS:
        opened = open_text([paths[0], folder], split)
        assert isinstance(opened, Files)
        assert opened.paths == (paths[0], folder / f"wiki.{split}.tokens")


def test_a_data_set_gives_its_split() -> None:
    for split in SPLITS:
        assert open_text(HubDataset("owner/name"), split) == HubSplit("owner/name", None, split)
    assert open_text(HubDataset("name:config", column="body"), "valid") == HubSplit(
        "name", "config", "valid", "body"
    )


def test_the_python_documentation_gives_its_split() -> None:
    for split in SPLITS:
        assert open_text(PythonDocs(), split) == PythonDocsSplit(split)


def test_a_source_passes_through() -> None:
    source = OneDocument()
    assert open_text(source, "train") is source


def test_an_empty_list_of_paths_is_refused() -> None:
    with pytest.raises(UsageError, match=r"text is an empty list of paths: give at least one"):
        open_text([], "train")


@pytest.mark.parametrize("text", [None, 3, [HubDataset("a"), HubDataset("b")], {"a": 1}])
def test_what_names_no_text_is_refused_with_what_would(text: Any) -> None:
    with pytest.raises(
        UsageError,
        match=rf"text is {type(text).__name__}, which names no text: give a path, several paths,",
    ):
        open_text(text, "train")


@pytest.mark.parametrize("text", ["nowhere", ["nowhere"]])
def test_errors_speak_of_the_text_and_of_no_flag(
    text: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="check the path of the text") as refused:
        open_text(text, "train")
    assert "--" not in str(refused.value)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown split 'vaild': did you mean 'valid'"):
        open_text(PythonDocs(), "vaild")  # type: ignore[arg-type]
