"""Files as people have them: the same text, whatever its container."""

import json
import sys
from pathlib import Path

import pytest

from knnlm.errors import KnnlmError, UsageError
from knnlm.text import formats
from knnlm.text.documents import Document
from knnlm.text.local_files import find_files

TEXT = "First line, naïve.\nSecond line.\n"


def pdf(text: str) -> bytes:
    """A PDF of one page, by hand; an empty text makes a page without any."""
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode() if text else b""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(data)
    data += b"xref\n0 6\n0000000000 65535 f \n" + table
    return data + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def texts(path: Path) -> list[str]:
    return [document.text for document in find_files([path], "train")]


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
    ],
    ids=["plain", "byte-order mark", "Windows", "old Mac"],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.RST", "a.py", "README"])
def test_line_ends_and_a_byte_order_mark_are_not_text(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    assert texts(tmp_path / name) == texts(tmp_path) == [TEXT]


def test_json_lines_and_notebooks_hold_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT.replace("\n", "\r\n")}) + "\r\n")
    assert texts(tmp_path / "a.jsonl") == [TEXT]
    cells = [
        {"cell_type": "markdown", "source": ["First line, naïve.\n", "Second line."]},
        {"cell_type": "code", "source": "", "outputs": [{"text": "not this"}]},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert texts(tmp_path / "a.ipynb") == [TEXT]


def test_html_gives_what_a_reader_sees(tmp_path: Path) -> None:
    page = (
        "<html><head><title>T</title><style>p {}</style><script>alert(1)</script></head><body>"
        "<h1>Title</h1><p>One <b>bold</b> word &amp; more.</p><ul><li>item</li></ul></body></html>"
    )
    (tmp_path / "page.HTML").write_text(page)
    (text,) = texts(tmp_path)
    assert "One bold word & more." in text
    assert "item" in text
    assert "alert" not in text
    assert "p {}" not in text


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("", "utf-8"),
        ("", "utf-8-sig"),
        ("", "utf-16"),
        ("", "latin-1"),
        ('<meta charset="latin-1">', "latin-1"),
        ('<META http-equiv="Content-Type" content="text/html; charset=utf-8">', "utf-8"),
    ],
)
def test_html_is_read_in_the_encoding_it_has(tmp_path: Path, head: str, encoding: str) -> None:
    page = f"<html><head>{head}</head><body>Ein Stück.</body></html>"
    (tmp_path / "page.html").write_bytes(page.encode(encoding))
    assert texts(tmp_path) == ["Ein Stück.\n"]


def test_html_that_declares_another_encoding_is_believed(tmp_path: Path) -> None:
    page = '<html><head><meta charset="latin-1"></head><body>Ã¼</body></html>'
    (tmp_path / "page.html").write_bytes(page.encode("latin-1"))  # ü, were it UTF-8
    assert texts(tmp_path) == ["Ã¼\n"]


def test_an_html_template_is_not_text(tmp_path: Path) -> None:
    page = "<html><body><p>seen</p><template><p>hidden</p></template>after</body></html>"
    (tmp_path / "page.html").write_text(page)
    (text,) = texts(tmp_path)
    assert text.split() == ["seen", "after"]


def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a\\ud83d b", "id": "x\\ud83d", "by": "\\ud83d"}')
    cells = '{"cells": [{"source": "c\\udfff\\ud83d\\ude00"}]}'
    (tmp_path / "b.ipynb").write_text(cells)
    rows, notebook = find_files([tmp_path], "train")
    assert (rows.text, notebook.text) == ("a\ufffd b", "c\ufffd\U0001f600\n")
    assert (rows.name, rows.meta["by"]) == ("a.jsonl:x\ufffd", "\ufffd")


def test_pdf_gives_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("The quick brown fox"))
    assert texts(tmp_path) == ["The quick brown fox\n"]


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("scan.pdf", pdf(""), "scan.pdf has no text in it: give a version with text, or leave"),
        ("bad.pdf", b"%PDF-1.4\nnothing", r"bad.pdf cannot be read as PDF \(.*\): leave it out"),
        ("empty.html", b"<html><body></body></html>", "empty.html has no text in it"),
        ("empty.ipynb", b'{"cells": [{"source": " "}]}', "empty.ipynb has no text in it"),
        ("bad.ipynb", b"{}", "bad.ipynb is not a Jupyter notebook"),
        ("bad2.ipynb", b"[" * 100_000, "bad2.ipynb is not a Jupyter notebook"),
        ("latin.md", b"caf\xe9", r"latin.md is not UTF-8 text \(byte 3\)"),
    ],
)
def test_a_file_without_text_is_an_error_if_named_and_skipped_in_a_folder(
    tmp_path: Path,
    name: str,
    data: bytes,
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "good.txt").write_text("text\n")
    with pytest.raises(KnnlmError, match=sentence):
        texts(tmp_path / name)
    assert texts(tmp_path) == ["text\n"]
    assert "skipped" in caplog.text or "note: skipped 1 " in caplog.text


@pytest.mark.parametrize("suffix", [".pdf", ".html"])
def test_a_missing_converter_says_what_to_install(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setitem(sys.modules, "inscriptis", None)
    (tmp_path / f"a{suffix}").write_bytes(b"x")
    with pytest.raises(KnnlmError, match=r"needs .*: run pip install pypdf inscriptis"):
        texts(tmp_path / f"a{suffix}")


def skipped(path: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The notes of reading a folder twice."""
    caplog.clear()
    files = find_files([path], "train")
    assert [d.text for d in files] == [d.text for d in files] == ["text\n"]
    return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]


def test_reasons_for_skipping_read_differently_and_come_with_a_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.txt").write_text("text\n")
    for number in range(2):
        (tmp_path / f"scan{number}.pdf").write_bytes(pdf(""))
    assert skipped(tmp_path, caplog) == [
        "note: skipped 2 .pdf without text: give versions with text, or leave them out"
    ]
    (tmp_path / "empty.html").write_text("<html><body></body></html>")
    for number in range(3):
        (tmp_path / f"bad{number}.pdf").write_bytes(b"%PDF-1.4\nnothing")
    assert skipped(tmp_path, caplog) == [
        "note: skipped 3 damaged .pdf, 2 .pdf without text, 1 .html without text: "
        "fix them, or leave them out"
    ]
    monkeypatch.setitem(sys.modules, "inscriptis", None)
    assert skipped(tmp_path, caplog) == [
        "note: skipped 1 .html whose converter is missing, 3 damaged .pdf, 2 .pdf without text: "
        "run pip install pypdf inscriptis"
    ]


def test_a_folder_in_which_nothing_can_be_read_is_refused_with_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(""))
    with pytest.raises(UsageError, match=r"\(skipped: 1 .pdf without text\): give versions with"):
        texts(tmp_path)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(UsageError, match=r"1 .pdf whose converter is missing\): run pip install"):
        texts(tmp_path)


def test_pieces_of_a_long_file_are_encoded_as_one_document(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knnlm.models.load import load_model
    from knnlm.text.tokenizer import encode_documents

    (tmp_path / "long.txt").write_text("the cat sat on a mat.\n" * 50)
    (tmp_path / "next.txt").write_text("and looked at dogs.\n")
    tokenizer = load_model(tiny_model).tokenizer
    whole = list(encode_documents(tokenizer, find_files([tmp_path], "train")))
    monkeypatch.setattr(formats, "PIECE_CHARACTERS", 100)
    cut = list(encode_documents(tokenizer, find_files([tmp_path], "train")))
    assert [d.name for d in cut] == ["long.txt", "next.txt"]
    assert [d.words for d in cut] == [d.words for d in whole]
    assert [tokenizer.decode(d.tokens) for d in cut] == [tokenizer.decode(d.tokens) for d in whole]
    assert len(cut[0].meta) == 3


def test_an_endless_line_is_cut_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(formats, "PIECE_CHARACTERS", 50)
    (tmp_path / "a.txt").write_text("x" * 120)
    documents: list[Document] = list(find_files([tmp_path], "train"))
    assert [len(d.text) for d in documents] == [50, 50, 20]
