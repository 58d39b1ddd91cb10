"""Text → documents, one at a time, whatever its size.

A source says what it is (`describe`, kept in manifests so that a rerun can tell whether the text
changed) and yields documents in a fixed order. It knows nothing of tokens.

Word counts: a word is a run of characters without white space. WikiText's published counts also
count each line end as a word; documents from its files say so (`line_ends`), so that word-level
perplexities compare."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TextIO

from knnlm.errors import KnnlmError, UsageError
from knnlm.files import checksum_file

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
TEXT_SUFFIXES = frozenset(
    {".txt", ".md", ".rst", ".tokens", ".jsonl", ".tex", ".py", ".org", ".log"}
)
PIECE_CHARACTERS = 1 << 20
_HEADING = re.compile(r"^ = [^=](.*[^=])? = $")


class Document(NamedTuple):
    """A text that stands on its own: contexts never reach across documents."""

    name: str
    text: str
    line_ends: bool = False


class Source(Protocol):
    """Where documents come from."""

    def describe(self) -> dict[str, Any]:
        """What identifies the text; equal descriptions mean equal documents."""
        ...

    def __iter__(self) -> Iterator[Document]: ...


def count_words(text: str, line_ends: bool) -> int:
    """Words of `text`, with its line ends where they count as words."""
    return len(text.split()) + (text.count("\n") if line_ends else 0)


@dataclass(frozen=True)
class Files:
    """Local files. A plain file is a document; a WikiText file holds articles; a .jsonl file one
    text a line.

    Plain files above `PIECE_CHARACTERS` are read in pieces that end at a line end, each a document,
    so that memory stays bounded."""

    paths: tuple[Path, ...]

    def describe(self) -> dict[str, Any]:
        """Names, sizes and checksums of the files."""
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


@dataclass(frozen=True)
class HubDataset:
    """A Hugging Face data set, streamed: nothing is downloaded before it is read."""

    name: str
    config: str | None
    split: Split
    column: str = "text"

    def describe(self) -> dict[str, Any]:
        """The data set's name, configuration, split and text column."""
        return {
            "kind": "dataset",
            "name": self.name,
            "config": self.config,
            "split": self.split,
            "column": self.column,
        }

    def __iter__(self) -> Iterator[Document]:
        import datasets

        split = "validation" if self.split == "valid" else self.split
        try:
            rows = datasets.load_dataset(self.name, self.config, split=split, streaming=True)
            for i, row in enumerate(rows):
                if self.column not in row:
                    raise UsageError(
                        f"data set {self.name} has no column '{self.column}': choose one of "
                        f"{', '.join(row)}"
                    )
                if not isinstance(row[self.column], str):
                    raise UsageError(
                        f"row {i} of data set {self.name} has no text in column '{self.column}'"
                    )
                yield Document(f"{self.name}/{split}/{i}", row[self.column])
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise KnnlmError(
                f"cannot read data set {self.name} ({_first_line(error)}): check the name and the "
                "network, or give "
                "a local folder (--text; of reproduce, --data)"
            ) from error


def local_text(paths: Sequence[str | Path], split: Split) -> Files:
    """Files for `--text PATH…`. A folder gives its text files in name order; a WikiText folder, the
    file of `split`."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            found.extend(_folder(path, split))
        else:
            raise UsageError(f"there is no file or folder {path}: check the path given to --text")
    return Files(tuple(found))


def hub_dataset(spec: str, split: Split, column: str = "text") -> HubDataset:
    """The data set of `--dataset NAME[:CONFIG]`."""
    name, _, config = spec.partition(":")
    if not name:
        raise UsageError(f"'{spec}' names no data set: write --dataset NAME or NAME:CONFIG")
    return HubDataset(name, config or None, split, column)


def _folder(folder: Path, split: Split) -> list[Path]:
    wikitext = folder / f"wiki.{split}.tokens"
    if wikitext.is_file():
        return [wikitext]
    if others := sorted(p.name for p in folder.glob("wiki.*.tokens")):
        raise UsageError(
            f"{folder} has no wiki.{split}.tokens, only {', '.join(others)}: name the file you mean"
        )
    found = sorted(
        p
        for p in folder.rglob("*")
        if p.is_file()
        and p.suffix in TEXT_SUFFIXES
        and not any(part.startswith(".") for part in p.relative_to(folder).parts)
    )
    if not found:
        raise UsageError(
            f"{folder} holds no text files ({', '.join(sorted(TEXT_SUFFIXES))}): give another "
            "folder or name files"
        )
    return found


def _read(path: Path) -> Iterator[Document]:
    with path.open(encoding="utf-8") as lines:
        if path.suffix == ".tokens":
            yield from articles(path.name, lines)
        elif path.suffix == ".jsonl":
            yield from _json_lines(path, lines)
        else:
            yield from _pieces(path.name, lines)


def articles(name: str, lines: Iterable[str]) -> Iterator[Document]:
    """WikiText's articles: each begins at a top-level heading, ` = Title = `, that stands between
    blank lines.

    Equations and table keys look like headings but follow on text or have text right below them.
    """
    numbers = itertools.count()
    gathered: list[str] = []
    title = name
    padded = itertools.chain([""], lines, [""])
    for (before, line), (_, after) in itertools.pairwise(itertools.pairwise(padded)):
        if _HEADING.match(line.rstrip("\n")) and not before.strip() and not after.strip():
            if any(g.strip() for g in gathered):
                yield Document(f"{next(numbers)}: {title}", "".join(gathered), line_ends=True)
                gathered = []
            title = line.strip(" =\n")
        gathered.append(line)
    if any(g.strip() for g in gathered):
        yield Document(f"{next(numbers)}: {title}", "".join(gathered), line_ends=True)


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
                f'{path} line {number} is not a JSON object with a "text": mend that line'
            ) from error
        yield Document(str(row.get("name") or row.get("id") or f"{path.name}:{number}"), text)


def _pieces(name: str, file: TextIO) -> Iterator[Document]:
    gathered: list[str] = []
    size, piece = 0, 0
    while line := file.readline(
        PIECE_CHARACTERS
    ):  # a longer line is cut: memory matters more than it does
        if size + len(line) > PIECE_CHARACTERS and gathered:
            yield Document(f"{name}#{piece}", "".join(gathered))
            gathered, size, piece = [], 0, piece + 1
        gathered.append(line)
        size += len(line)
    if gathered:
        yield Document(f"{name}#{piece}" if piece else name, "".join(gathered))


def _first_bad_byte(path: Path) -> int:
    """Its place in the file; a decoder that reads in blocks only knows the place in its block."""
    place = 0
    with path.open("rb") as lines:
        for line in lines:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return place + error.start
            place += len(line)
    return place


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
