"""The library measures conditions and knows nothing of the paper, whose reproduction is one user of
it."""

import ast
from pathlib import Path

import pytest

import knnlm.experiments

FILES = sorted(Path(knnlm.experiments.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_experiments_import_nothing_of_the_paper(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        assert not any(name.startswith(("knnlm.paper", "knnlm.cli")) for name in names)
