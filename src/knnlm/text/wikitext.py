"""WikiText: a folder with one file for each split, and files that hold many articles."""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from knnlm.errors import UsageError
from knnlm.text.documents import Document, Split

SUFFIX = ".tokens"
_HEADING = re.compile(r"^ = [^=](.*[^=])? = $")


def wikitext_file(folder: Path, split: Split) -> Path | None:
    """Find the file of a split in a WikiText folder.

    Returns:
        The path of `wiki.SPLIT.tokens`, or None if the folder is not a WikiText folder.

    Raises:
        UsageError: The folder holds other splits of WikiText but not this one.
    """
    path = folder / f"wiki.{split}{SUFFIX}"
    if path.is_file():
        return path
    if others := sorted(p.name for p in folder.glob(f"wiki.*{SUFFIX}")):
        raise UsageError(
            f"{folder} has no {path.name}, only {', '.join(others)}: name the file you mean"
        )
    return None


def is_wikitext(folder: Path) -> bool:
    """Whether a path is a WikiText folder."""
    return folder.is_dir() and any(folder.glob(f"wiki.*{SUFFIX}"))


def split_articles(name: str, lines: Iterable[str]) -> Iterator[Document]:
    """Split the lines of a WikiText file into its articles.

    An article begins at a top-level heading, ` = Title = `, between blank lines. Equations and
    table keys look like headings, but have text right above or below them.

    Args:
        name: The name of an article without a heading, such as the file's.
        lines: The lines of the file, with their line ends.
    """
    numbers = itertools.count()
    article: list[str] = []
    title = name
    padded = itertools.chain([""], lines, [""])
    for (before, line), (_, after) in itertools.pairwise(itertools.pairwise(padded)):
        if _HEADING.match(line.rstrip("\n")) and not before.strip() and not after.strip():
            if any(part.strip() for part in article):
                yield Document(f"{next(numbers)}: {title}", "".join(article), line_ends=True)
                article = []
            title = line.strip(" =\n")
        article.append(line)
    if any(part.strip() for part in article):
        yield Document(f"{next(numbers)}: {title}", "".join(article), line_ends=True)
