"""What a text is, once it is opened: a source of documents.

A source describes itself (`describe`, kept in manifests, so that a rerun can tell whether the text
changed) and yields its documents in a fixed order, one at a time, whatever the size of the text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
Item = TypeVar("Item")
Meta = str | int | float | bool
"""What the metadata of a document may hold."""


class Document(NamedTuple):
    """A text that stands on its own: contexts never reach across documents.

    Attributes:
        name: What to call it in messages and manifests.
        text: All of it.
        line_ends: Whether each line end counts as a word (see `count_words`).
        continues: Whether it continues the one before it: a long document comes in pieces.
        meta: What is known of it besides: strings, numbers and truth values by name.
    """

    name: str
    text: str
    line_ends: bool = False
    continues: bool = False
    meta: Mapping[str, Any] = MappingProxyType({})


@runtime_checkable
class Source(Protocol):
    """Where documents come from.

    Example:
        >>> class Greeting:
        ...     def describe(self):
        ...         return {"kind": "greeting"}
        ...     def __iter__(self):
        ...         yield Document("hello", "Hello, world.")
    """

    def describe(self) -> dict[str, Any]:
        """What identifies the text, as JSON; equal descriptions mean equal documents."""
        ...

    def __iter__(self) -> Iterator[Document]: ...


def count_words(text: str, line_ends: bool) -> int:
    """Count the words of a text: runs of characters without white space.

    Args:
        text: The text to count in.
        line_ends: Count each line end as a word too. The published word counts of WikiText do, so
            its perplexities per word compare only if ours do.
    """
    return len(text.split()) + (text.count("\n") if line_ends else 0)


def group_by_size(
    items: Iterable[Item], size_of: Callable[[Item], int], limit: int
) -> Iterator[list[Item]]:
    """Consecutive items in groups that end as soon as their sizes reach `limit` in sum."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += size_of(item)
        if size >= limit:
            yield group
            group, size = [], 0
    if group:
        yield group
