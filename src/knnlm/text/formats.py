"""Files as people have them → text: which suffixes are read, and how.

Plain text, Markdown, reStructuredText and source code are read as they are. Notebooks give their
cells. HTML and PDF go through converters of other projects (the extra `documents`). JSON lines and
WikiText files hold many documents. Whatever the container, line ends become \\n, half of a
surrogate pair becomes U+FFFD, and a byte-order mark is not text.
"""

import importlib.util
import io
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import xxhash

from knnlm.errors import KnnlmError, first_line
from knnlm.text import wikitext
from knnlm.text.documents import Document, Meta

PLAIN = frozenset(
    """
    .adoc .asciidoc .bash .bib .c .cc .cfg .clj .cmake .cpp .cs .css .csv .cu .dart .erl .ex .exs
    .f90 .go .h .hpp .hs .ini .java .jl .js .jsx .kt .log .lua .m .markdown .md .mdx .ml .org .php
    .pl .proto .py .pyi .r .rb .rs .rst .scala .sh .sql .swift .tex .text .textile .toml .ts .tsv
    .tsx .txt .yaml .yml
    """.split()  # noqa: SIM905  # a set of sixty lines reads worse
)
"""Suffixes that are read as they are."""
PLAIN_NAMES = frozenset(["changelog", "copying", "dockerfile", "license", "makefile", "readme"])
"""Files without a suffix that are read as they are."""
JSON_LINES = frozenset({".jsonl", ".ndjson"})
NOTEBOOKS, HTML, PDF = ".ipynb", frozenset({".htm", ".html", ".xhtml"}), ".pdf"
SUFFIXES = PLAIN | JSON_LINES | HTML | {NOTEBOOKS, PDF, wikitext.SUFFIX}
CONVERTED = HTML | {PDF}

PIECE_CHARACTERS = 1 << 20
"""A longer file comes in pieces, so that memory stays bounded; together they are one document."""
OWN_FIELDS = ("path", "bytes", "date")
"""What is known of every file; fields of the same name in a row do not replace it."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_DECLARED_ENCODING = re.compile(rb"<meta[^>]*charset\s*=|<\?xml[^>]*encoding\s*=", re.IGNORECASE)
_HASH_DIGITS = 12
_INSTALL = "run pip install pypdf inscriptis"


class NoText(KnnlmError):
    """A file has no text in it, or none that can be read.

    Attributes:
        reason: Which files these are, after their number, as in "2 .pdf without text".
        remedy: What to do about all of them.
    """

    remedy = "give versions with text, or leave them out"
    _reason = "{} without text"

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.reason = self._reason.format(suffix_of(path))


class Damaged(NoText):
    """A file is not what its suffix says."""

    remedy = "fix them, or leave them out"
    _reason = "damaged {}"


class NoConverter(NoText):
    """What converts this kind of file is not installed."""

    remedy = _INSTALL
    _reason = "{} whose converter is missing"


def suffix_of(path: Path) -> str:
    """The suffix in lower case; .txt for a file like README, which has none."""
    return path.suffix.lower() or (".txt" if path.name.lower() in PLAIN_NAMES else "")


def is_read(path: Path) -> bool:
    """Whether a folder's file is read."""
    return suffix_of(path) in SUFFIXES


def is_converted(path: Path) -> bool:
    """Whether a file must be converted before anyone knows whether it has text."""
    return suffix_of(path) in _CONVERTERS


def needs_missing_converter(path: Path) -> bool:
    """Whether a file is one that only an extra can read, which is not installed."""
    package = "pypdf" if suffix_of(path) == PDF else "inscriptis"
    return suffix_of(path) in CONVERTED and importlib.util.find_spec(package) is None


def holds_many(path: Path) -> bool:
    """Whether a file holds many documents, each with a name of its own."""
    return suffix_of(path) in JSON_LINES or suffix_of(path) == wikitext.SUFFIX


def read_documents(path: Path, name: str, meta: Mapping[str, Any]) -> Iterator[Document]:
    """The documents of one file, in bounded memory where it is plain text.

    Args:
        path: The file; its suffix says what it is.
        name: What to call the document.
        meta: What is known of it besides.

    Raises:
        NoText: There is no text in it, or it cannot be converted.
        KnnlmError: A line of a JSON lines file is not a document.
    """
    suffix = suffix_of(path)
    if suffix in _CONVERTERS:
        yield from pieces(name, io.StringIO(_CONVERTERS[suffix](path)), meta)
        return
    try:
        # a byte-order mark is not text, and every line end becomes \n
        with path.open(encoding="utf-8-sig", newline=None) as lines:
            if suffix in JSON_LINES:
                yield from _json_lines(lines, path, name, meta)
            elif suffix == wikitext.SUFFIX:
                for article in wikitext.split_articles(Path(name).name, lines):
                    yield article._replace(meta=meta)
            else:
                yield from pieces(name, lines, meta)
    except UnicodeDecodeError as error:
        raise Damaged(
            f"{path} is not UTF-8 text (byte {_first_bad_byte(path)}): convert it, for example "
            "with iconv",
            path,
        ) from error


def pieces(name: str, file: TextIO, meta: Mapping[str, Any]) -> Iterator[Document]:
    """A text as one document, in pieces if it is long.

    It is cut at line ends; a line longer than a piece is cut too, to bound memory.
    """
    piece: list[str] = []
    size, continues = 0, False
    while line := file.readline(PIECE_CHARACTERS):
        if size + len(line) > PIECE_CHARACTERS and piece:
            yield Document(name, "".join(piece), continues=continues, meta=meta)
            piece, size, continues = [], 0, True
        piece.append(line)
        size += len(line)
    if piece:
        yield Document(name, "".join(piece), continues=continues, meta=meta)


def _json_lines(
    lines: Iterable[str], path: Path, name: str, meta: Mapping[str, Any]
) -> Iterator[Document]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = row["text"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise KnnlmError(
                f'{path} line {number} is not a JSON object with a "text": fix that line'
            ) from error
        text = _normalized(text)
        fields = {
            _valid_unicode(key): _valid_unicode(value) if isinstance(value, str) else value
            for key, value in row.items()
            if isinstance(value, Meta) and key not in ("text", *OWN_FIELDS)
        }
        yield from pieces(f"{name}:{_row_id(row, text)}", io.StringIO(text), {**meta, **fields})


def _row_id(row: Mapping[str, Any], text: str) -> str:
    """Its name or id; without one a hash of its text, which rows above it do not change."""
    for given in (row.get("name"), row.get("id")):
        if isinstance(given, str | int) and not isinstance(given, bool) and str(given).strip():
            return _valid_unicode(str(given))
    return xxhash.xxh3_128_hexdigest(text.encode())[:_HASH_DIGITS]


def _normalized(text: str) -> str:
    """A text with one kind of line end, without a byte-order mark, that can be encoded."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return _valid_unicode(text)


def _valid_unicode(text: str) -> str:
    return _LONE_SURROGATE.sub("\ufffd", text)


def _first_bad_byte(path: Path) -> int:
    """Its offset in the file; the decoder's error only knows the offset in the block it read."""
    offset = 0
    with path.open("rb") as lines:
        for line in lines:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return offset + error.start
            offset += len(line)
    return offset


def _notebook(path: Path) -> str:
    """The sources of all cells, an empty line between them; outputs are left out."""
    try:
        cells = json.loads(path.read_bytes().decode("utf-8-sig"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Damaged(f"{path} is not a Jupyter notebook: leave it out or fix it", path) from error
    return _not_empty("\n\n".join(source for source in sources if source.strip()) + "\n", path)


def _html(path: Path) -> str:
    try:
        import inscriptis
    except ImportError as error:
        raise NoConverter(f"reading {path} needs inscriptis: {_INSTALL}", path) from error
    import lxml.html

    try:
        data = path.read_bytes()
        parser = lxml.html.HTMLParser(encoding="utf-8") if _is_undeclared_utf8(data) else None
        tree = lxml.html.document_fromstring(data, parser=parser)
        for template in list(tree.iter("template")):
            template.drop_tree()
        text: str = inscriptis.Inscriptis(tree).get_text()
    except (lxml.etree.LxmlError, ValueError) as error:
        raise Damaged(
            f"{path} cannot be read as HTML ({first_line(error)}): leave it out", path
        ) from error
    return _not_empty(text.strip() + "\n", path)


def _is_undeclared_utf8(data: bytes) -> bool:
    """Whether a page is UTF-8 and does not say which encoding it has, where lxml takes Latin-1."""
    if _DECLARED_ENCODING.search(data):
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _pdf(path: Path) -> str:
    try:
        import pypdf
    except ImportError as error:
        raise NoConverter(f"reading {path} needs pypdf: {_INSTALL}", path) from error
    # it reports every oddity of a file as a warning; what matters becomes our sentence
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = pypdf.PdfReader(path)
        pages = [page.extract_text() for page in reader.pages]
    except Exception as error:  # pypdf raises many kinds on damaged files
        raise Damaged(
            f"{path} cannot be read as PDF ({first_line(error)}): leave it out", path
        ) from error
    return _not_empty("\n\n".join(pages).strip() + "\n", path)


def _not_empty(text: str, path: Path) -> str:
    if not text.strip():
        raise NoText(f"{path} has no text in it: give a version with text, or leave it out", path)
    return _normalized(text)


_CONVERTERS: dict[str, Callable[[Path], str]] = {
    NOTEBOOKS: _notebook,
    PDF: _pdf,
    **dict.fromkeys(HTML, _html),
}
