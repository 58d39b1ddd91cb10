"""The built-in text: the documentation that every Python installation carries.

It is the docstrings of the standard library, read from its source without importing anything, and
the language reference that `help()` shows (`pydoc_data.topics`): about 2 MB of real technical
English, with no download and no license question. It is split into train, valid and test by
top-level module, so no module is in two splits. A pure-Python twin (`_pydecimal`, `_py_abc`) goes
with its module, and the reference stays whole, because its topics quote each other at length.
Another Python version has another text: its fingerprint is in every manifest.
"""

import ast
import platform
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import xxhash

from knnlm.errors import KnnlmError
from knnlm.files import fingerprint
from knnlm.text.documents import Document, Split

VALID_PERCENT, TEST_PERCENT = 5, 7
"""Of the top-level modules; the rest is "train"."""

_SKIPPED = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "__phello__"}
)


@dataclass(frozen=True)
class PythonDocs:
    """The documentation of this Python. Which split is read depends on what it is read for.

    Example:
        >>> PythonDocs().open("train").describe()["kind"]
        'embedded'
    """

    def open(self, split: Split) -> "PythonDocsSplit":
        """One split of the documentation.

        Args:
            split: "train", "valid" or "test".

        Returns:
            The documents of the split, one for each module or topic.
        """
        return PythonDocsSplit(split)


@dataclass(frozen=True)
class PythonDocsSplit:
    """The documents of one split: a module's docstrings, or a topic of the language reference."""

    split: Split

    def describe(self) -> dict[str, Any]:
        """The Python version and a fingerprint of the documents."""
        text = fingerprint([[d.name, xxhash.xxh3_64_hexdigest(d.text.encode())] for d in self])
        return {
            "kind": "embedded",
            "split": self.split,
            "python": platform.python_version(),
            "text": text,
        }

    def __iter__(self) -> Iterator[Document]:
        documents = [d for d in _documents() if split_of(d.name) == self.split]
        if not documents:
            raise KnnlmError(
                "this Python installation carries no standard-library sources to read: give "
                "another text"
            )
        yield from documents


def split_of(name: str) -> Split:
    """The split of a document, decided by the name of its top-level module alone."""
    family = name.split(".")[0].lstrip("_").removeprefix("py").lstrip("_")
    bucket = xxhash.xxh3_64_intdigest(family.encode()) % 100
    if bucket < VALID_PERCENT:
        return "valid"
    return "test" if bucket < VALID_PERCENT + TEST_PERCENT else "train"


@cache
def _documents() -> tuple[Document, ...]:
    """All splits; cached, because parsing a thousand files takes seconds."""
    return (*_modules(), *_topics())


def _modules() -> Iterator[Document]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library)
        if (
            _SKIPPED.isdisjoint(inside.parts)
            and inside.parts[0].removesuffix(".py") in sys.stdlib_module_names
        ):
            module = ".".join(inside.with_suffix("").parts).removesuffix(".__init__")
            if text := _docstrings(path):
                yield Document(module, text)


def _topics() -> Iterator[Document]:
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield Document(f"topic.{name}", topics[name].strip() + "\n")


def _docstrings(path: Path) -> str:
    """The docstrings of a module, its classes and functions, in the order of the source."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""  # a few library files are deliberately not valid source
    parts = [text for node in _definitions(tree) if (text := ast.get_docstring(node))]
    return "\n\n".join(parts) + "\n" if parts else ""


def _definitions(
    tree: ast.Module,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """The module, its classes and functions; expressions, most of the tree, are not searched."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        pending.extend(
            reversed([n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)])
        )
