"""Local files and folders as a source of documents: plain text, WikiText and JSON lines."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import checksum_file
from knnlm.progress import log
from knnlm.text import wikitext
from knnlm.text.documents import Document, Split

TEXT_SUFFIXES = frozenset(
    {".txt", ".md", ".rst", ".tokens", ".jsonl", ".tex", ".py", ".org", ".log"}
)
"""A folder's files that are read; a file that is named itself is read whatever its suffix."""

PIECE_CHARACTERS = 1 << 20
"""Plain files above this size are read in pieces, each a document, so that memory stays bounded."""


@dataclass(frozen=True)
class Files:
    """The documents of local files.

    A plain file is a document (several, if it is above `PIECE_CHARACTERS`), a WikiText file
    (`.tokens`) holds articles, and a `.jsonl` file has one JSON object with a "text" on each line.
    """

    paths: tuple[Path, ...]

    def describe(self) -> dict[str, Any]:
        """Names, sizes and checksums of the files; folders may move."""
        files = [
            {"name": p.name, "bytes": p.stat().st_size, "xxh3": checksum_file(p)}
            for p in self.paths
        ]
        return {"kind": "files", "files": files}

    def __iter__(self) -> Iterator[Document]:
        for path in self.paths:
            try:
                yield from _read(path)
            except UnicodeDecodeError as error:
                raise KnnlmError(
                    f"{path} is not UTF-8 text (byte {_first_bad_byte(path)}): convert it, for "
                    "example with iconv"
                ) from error


def find_files(paths: Sequence[str | Path], split: Split) -> Files:
    """Find the text files that paths mean.

    Args:
        paths: Files and folders. A WikiText folder means the file of `split`; any other folder,
            all text files in it (`TEXT_SUFFIXES`) and below it, in name order, but no hidden ones.
        split: Which file of a WikiText folder to read.

    Raises:
        UsageError: A path does not exist, or a folder holds no text.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_file():
            files.append(path)
        elif path.is_dir():
            files.extend(_files_of_folder(path, split))
        else:
            raise UsageError(f"there is no file or folder {path}: check the path of the text")
    different = {file.resolve(): file for file in reversed(files)}  # the first name of each stays
    if len(different) < len(files):
        log.warning(f"note: {len(files) - len(different)} files are named twice and read once")
    return Files(tuple(file for file in files if different.pop(file.resolve(), None)))


def _files_of_folder(folder: Path, split: Split) -> list[Path]:
    if path := wikitext.wikitext_file(folder, split):
        return [path]
    files = sorted(
        p
        for p in folder.rglob("*")
        if p.is_file()
        and p.suffix in TEXT_SUFFIXES
        and not any(part.startswith(".") for part in p.relative_to(folder).parts)
    )
    if not files:
        raise UsageError(
            f"{folder} holds no text files ({', '.join(sorted(TEXT_SUFFIXES))}): give another "
            "folder or name files"
        )
    return files


def _read(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8") as lines:
        if path.suffix == wikitext.SUFFIX:
            yield from wikitext.split_articles(path.name, lines)
        elif path.suffix == ".jsonl":
            yield from _json_lines(path, lines)
        else:
            yield from _pieces(path.name, lines)


def _json_lines(path: Path, lines: Iterable[str]) -> Iterator[Document]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = row["text"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, KeyError, TypeError) as error:
            raise KnnlmError(
                f'{path} line {number} is not a JSON object with a "text": fix that line'
            ) from error
        yield Document(str(row.get("name") or row.get("id") or f"{path.name}:{number}"), text)


def _pieces(name: str, file: TextIO) -> Iterator[Document]:
    """Cut a plain file at line ends; a line longer than a piece is cut too, to bound memory."""
    piece: list[str] = []
    size, number = 0, 0
    while line := file.readline(PIECE_CHARACTERS):
        if size + len(line) > PIECE_CHARACTERS and piece:
            yield Document(f"{name}#{number}", "".join(piece))
            piece, size, number = [], 0, number + 1
        piece.append(line)
        size += len(line)
    if piece:
        yield Document(f"{name}#{number}" if number else name, "".join(piece))


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
