"""Local files and folders become documents."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from knnlm.errors import KnnlmError, UsageError
from knnlm.text import formats
from knnlm.text.documents import Document
from knnlm.text.local_files import Files, find_files


def read(*paths: Path) -> list[Document]:
    """The documents without their metadata."""
    return [d._replace(meta=Document("", "").meta) for d in find_files(paths, "train")]


def test_a_plain_file_is_one_document_that_bears_its_name(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("one\n\ntwo  three\n")
    assert read(file) == [Document("notes.txt", "one\n\ntwo  three\n")]


def test_a_named_file_is_read_whatever_its_suffix(tmp_path: Path) -> None:
    file = tmp_path / "Makefile"
    file.write_text("all:\n")
    assert read(file) == [Document("Makefile", "all:\n")]


def test_an_empty_file_has_no_documents(tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.touch()
    assert read(file) == []


def test_a_folder_gives_its_text_files_in_name_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "c/d.rst", "a/z.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [d.text for d in read(tmp_path)] == ["a/z.txt", "a.md", "b.txt", "c/d.rst"]


def test_a_folder_skips_hidden_files_hidden_folders_and_what_is_not_text(tmp_path: Path) -> None:
    for name in (".hidden.txt", ".git/log.txt", "sub/.cache/x.txt", "picture.png", "seen.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x\n")
    assert [d.name for d in read(tmp_path)] == ["seen.txt"]


def test_a_folder_below_a_hidden_one_is_read(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "notes"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("x\n")
    assert [d.name for d in read(folder)] == ["a.txt"]


def test_several_paths_keep_the_order_given(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    assert [d.text for d in read(tmp_path / "b.txt", tmp_path / "a.txt")] == ["b.txt", "a.txt"]


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_a_huge_file_is_read_in_pieces_that_make_up_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(formats, "PIECE_CHARACTERS", 50)
    text = "".join(f"line {i} {'x' * (i % 13)}\n" for i in range(lines)) + "no line end"
    (tmp_path / "huge.txt").write_text(text)
    pieces = read(tmp_path / "huge.txt")
    assert "".join(p.text for p in pieces) == text
    assert all(len(p.text) <= 50 for p in pieces)
    assert all(p.text.endswith("\n") for p in pieces[:-1])
    assert {p.name for p in pieces} == {"huge.txt"}  # one document, however long
    assert [p.continues for p in pieces] == [False] + [True] * (len(pieces) - 1)


def test_the_pieces_of_a_huge_file_are_as_large_as_they_may_be(tmp_path: Path) -> None:
    line = "x" * 99 + "\n"
    (tmp_path / "huge.txt").write_text(line * 25_000)
    sizes = [len(p.text) for p in read(tmp_path / "huge.txt")]
    assert sum(sizes) == 2_500_000
    assert all(
        formats.PIECE_CHARACTERS - 100 < size <= formats.PIECE_CHARACTERS for size in sizes[:-1]
    )
    assert len(sizes) == 3


def test_each_line_of_a_jsonl_file_is_a_document(tmp_path: Path) -> None:
    rows = [
        {"text": "c", "name": "third", "id": 3},
        {"text": "d", "id": 0},
        {"text": "", "id": 7},
        {"text": "e", "id": "5-b", "name": None},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n\n".join(json.dumps(r) for r in rows) + "\n")
    assert read(file) == [
        Document("rows.jsonl:third", "c"),
        Document("rows.jsonl:0", "d"),
        Document("rows.jsonl:5-b", "e"),
    ]


@pytest.mark.parametrize("given", [None, "", " ", [1], {"a": 1}, True, 1.5])
def test_a_row_without_a_usable_id_is_named_by_its_content(tmp_path: Path, given: object) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"text": "one\ntwo", "id": given}) + "\n")
    (document,) = read(file)
    assert re.fullmatch("rows.jsonl:[0-9a-f]{12}", document.name)
    # neither a row above it nor other line ends change its name
    rows = [{"text": "first"}, {"text": "one\r\ntwo"}]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert read(file)[1] == document
    assert read(file)[0].name != document.name


def test_rows_do_not_change_what_is_known_of_their_file(tmp_path: Path) -> None:
    row = {"text": "hi", "path": "x", "bytes": -1, "date": "never", "author": "y"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    os.utime(tmp_path / "rows.jsonl", (86400, 86400))
    (document,) = find_files([tmp_path], "train", {"path": "z", "author": "x"})
    assert document.meta == {
        "path": "rows.jsonl",
        "bytes": len(json.dumps(row)),
        "date": "1970-01-02T00:00:00+00:00",
        "author": "y",
    }


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"body": "x"}', '"text"', '{"text": null}', '{"text": 3}']
)
def test_a_jsonl_line_without_a_text_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(
        KnnlmError, match=r'rows.jsonl line 2 is not a JSON object with a "text": fix that line'
    ):
        read(file)


@pytest.mark.parametrize("before", [0, 5, 30_000])
def test_bytes_that_are_not_utf8_are_refused_with_their_offset_in_the_file(
    tmp_path: Path, before: int
) -> None:
    file = tmp_path / "latin.txt"
    file.write_bytes(b"all is well\n" * before + b"caf\xe9 au lait\n")
    with pytest.raises(
        KnnlmError, match=rf"latin.txt is not UTF-8 text \(byte {12 * before + 3}\): convert it"
    ):
        read(file)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there is no file or folder .*nowhere: check the path of the text"
    ):
        find_files([tmp_path / "nowhere"], "train")


def test_a_folder_without_text_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no text: give another folder, or name files"):
        find_files([tmp_path], "train")
    (tmp_path / "picture.png").touch()
    (tmp_path / "nothing.txt").touch()
    with pytest.raises(
        UsageError, match=r"holds no text \(skipped: 1 empty, 1 .png\): give another"
    ):
        find_files([tmp_path], "train")


def test_the_description_changes_with_a_byte_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("the same\n")
    before = Files((file,)).describe()
    assert Files((file,)).describe() == before
    file.write_text("the sane\n")
    assert Files((file,)).describe() != before


def test_the_description_changes_with_the_order_of_the_files(tmp_path: Path) -> None:
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    a.write_text("a")
    b.write_text("b")
    assert Files((a, b)).describe() != Files((b, a)).describe()


def test_the_description_does_not_depend_on_where_the_files_are(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.txt").write_text("text")
    assert (
        find_files([tmp_path / "here"], "train").describe()
        == find_files([tmp_path / "there"], "train").describe()
    )


def test_one_endless_line_is_cut_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "PIECE_CHARACTERS", 50)
    (tmp_path / "line.txt").write_text("x" * 175)
    assert [len(d.text) for d in read(tmp_path / "line.txt")] == [50, 50, 50, 25]


def test_a_file_that_is_named_twice_is_read_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    files = find_files([tmp_path / "b.txt", tmp_path, tmp_path / ".." / tmp_path.name], "train")
    assert [path.name for path in files.paths] == ["b.txt", "a.txt"]
    assert "note: 5 names mean 2 files; each is read once" in caplog.text


def test_documents_are_named_by_their_path_below_the_folder(tmp_path: Path) -> None:
    for name in ("README.md", "guide/README.md", "guide/Install.MD", "api/x.PY"):
        (tmp_path / "docs" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "docs" / name).write_text(f"{name}\n")
    names = [d.name for d in read(tmp_path / "docs")]
    assert names == ["README.md", "api/x.PY", "guide/Install.MD", "guide/README.md"]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "README.md").write_text("more\n")
    several = [d.name for d in read(tmp_path / "docs", tmp_path / "more")]
    assert several == [*(f"docs/{name}" for name in names), "more/README.md"]
    alone = [d.name for d in read(tmp_path / "docs/README.md", tmp_path / "docs/api/x.PY")]
    assert alone == ["README.md", "x.PY"]
    alike = [d.name for d in read(tmp_path / "docs/README.md", tmp_path / "more/README.md")]
    assert alike == ["README.md", "more/README.md"]


def test_names_depend_on_the_paths_given_and_a_later_path_changes_no_other(tmp_path: Path) -> None:
    for name in ("a/x.md", "a/deep/y.md", "b/x.md", "c/b/x.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(f"{name}\n")

    def names(*paths: str) -> list[str]:
        return [d.name for d in read(*(tmp_path / path for path in paths))]

    assert names("a/x.md", "a/deep/y.md") == ["x.md", "y.md"]
    assert names("a/x.md", "a/deep/y.md", "b/x.md") == ["x.md", "y.md", "b/x.md"]
    assert names("a/x.md", "b/x.md", "c/b/x.md") == ["x.md", "b/x.md", "c/b/x.md"]
    assert names("a", "b") == ["a/deep/y.md", "a/x.md", "b/x.md"]
    assert names("a", "b", "c/b") == ["a/deep/y.md", "a/x.md", "b/x.md", "c/b/x.md"]
    assert names("a/deep", "b/x.md") == ["deep/y.md", "x.md"]
    assert names("b", "b", "a/../b") == names("b") == ["x.md"]
    (tmp_path / "a" / "z.md").write_text("new\n")  # nor do files that are found
    assert names("a", "b") == ["a/deep/y.md", "a/x.md", "a/z.md", "b/x.md"]


def test_the_working_folder_among_several_paths_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"{name}\n")
    monkeypatch.chdir(tmp_path / "here")
    assert [d.name for d in read(Path("."), Path("../there"))] == ["here/a.md", "there/a.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_not_utf8_is_spelled_out(tmp_path: Path) -> None:
    for byte in (0xE8, 0xE9):
        (tmp_path / os.fsdecode(b"caf%c.txt" % byte)).write_text("text\n")
    names = [d.name for d in read(tmp_path)]
    assert names == ["caf\\udce8.txt", "caf\\udce9.txt"]
    "".join(names).encode()
    assert [d.name for d in read(tmp_path / os.fsdecode(b"caf\xe9.txt"))] == names[1:]


def test_links_that_are_not_followed_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.md").write_text("text\n")
    (folder / "linked").symlink_to(folder / "sub", target_is_directory=True)
    (folder / "gone.md").symlink_to(folder / "nowhere.md")
    (folder / "gone2.md").symlink_to(folder / "nowhere.md")
    (folder / "b.md").symlink_to(folder / "a.md")  # the same file, and read once
    caplog.set_level("INFO", logger="knnlm")
    assert [d.name for d in read(folder)] == ["a.md"]
    assert f"{folder}: 2 files, and 2 dangling links, 1 linked folder skipped" in caplog.text
    assert "note: 2 names mean 1 file; each is read once" in caplog.text


def test_what_a_folder_skips_is_said_in_one_line_and_listed_on_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.md").write_text("text\n")
    for name in ("b.png", "c.png", "d.zip", "e"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "binary.txt").write_bytes(b"a\0b\n")
    (tmp_path / "empty.txt").touch()
    with caplog.at_level("DEBUG", logger="knnlm"):
        assert [d.name for d in read(tmp_path)] == ["a.md"]
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "INFO"]
    assert line == (
        f"{tmp_path}: 1 file, and 2 .png, 2 not UTF-8, 1 .zip, 1 without a suffix, 1 empty skipped"
    )
    listed = [r.getMessage() for r in caplog.records if r.levelname == "DEBUG"]
    assert len(listed) == 7
    assert f"skipped: {tmp_path / 'latin.txt'} (not UTF-8)" in listed


def test_metadata_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    os.utime(tmp_path / "a.txt", (86400, 86400))
    (document,) = find_files([tmp_path], "train", {"author": "x"})
    assert document.meta == {
        "path": "a.txt",
        "bytes": 4,
        "date": "1970-01-02T00:00:00+00:00",
        "author": "x",
    }
    row = {"text": "hi", "author": "y", "stars": 3, "tags": ["not", "plain"], "name": "n"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    (document,) = find_files([tmp_path / "rows.jsonl"], "train", {"author": "x"})
    assert (document.meta["author"], document.meta["stars"]) == ("y", 3)
    assert "tags" not in document.meta
    assert "text" not in document.meta


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "growing.txt"
    file.write_text("line\n" * 10)
    documents = iter(find_files([tmp_path], "train"))
    next(documents)
    with file.open("a") as more:
        more.write("later\n")
    with pytest.raises(KnnlmError, match=r"growing.txt changed while it was read: run the same"):
        next(documents)
