"""The embedded text: what every Python installation already carries.

Docstrings of the standard library's modules, read from their source without importing anything, and
the language reference that `help()` shows (`pydoc_data.topics`): about 2 MB of real technical
English, no download, no licence question. It is split into train, validation and test by top-level
module, so no module is in two splits; a pure-Python twin (`_pydecimal`, `_py_abc`) goes with its
module, and the reference stays whole, because its topics quote each other at length. Another Python
version has other text: its fingerprint is in every manifest."""

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

SKIPPED = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "__phello__"}
)
VALID_PERCENT, TEST_PERCENT = 5, 7


@dataclass(frozen=True)
class PythonDocs:
    """One split of the embedded text; a document is a module, or a topic of the language
    reference."""

    split: Split

    def describe(self) -> dict[str, Any]:
        """The Python version and a fingerprint of the whole text."""
        text = fingerprint([[d.name, xxhash.xxh3_64_hexdigest(d.text.encode())] for d in self])
        return {
            "kind": "embedded",
            "split": self.split,
            "python": platform.python_version(),
            "text": text,
        }

    def __iter__(self) -> Iterator[Document]:
        found = False
        for document in _documents():
            if split_of(document.name) == self.split:
                found = True
                yield document
        if not found:
            raise KnnlmError(
                "this Python installation carries no standard-library sources to read: give a text "
                "with --text"
            )


def split_of(name: str) -> Split:
    """The split of a document, decided by its top-level module's name alone."""
    family = name.split(".")[0].lstrip("_").removeprefix("py").lstrip("_")
    bucket = xxhash.xxh3_64_intdigest(family.encode()) % 100
    if bucket < VALID_PERCENT:
        return "valid"
    return "test" if bucket < VALID_PERCENT + TEST_PERCENT else "train"


@cache
def _documents() -> tuple[Document, ...]:
    """All of it; kept, because reading a thousand files takes seconds and the answer cannot
    change."""
    return (*_modules(), *_topics())


def _modules() -> Iterator[Document]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library)
        if (
            SKIPPED.isdisjoint(inside.parts)
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
    parts = [text for node in _defining(tree) if (text := ast.get_docstring(node))]
    return "\n\n".join(parts) + "\n" if parts else ""


def _defining(
    tree: ast.Module,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        # an expression, which is most of the tree, defines nothing that has a docstring
        pending.extend(
            reversed([n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)])
        )
