"""The shape of the code: small files with a docstring, short functions, no pickle.

Which room may import which is declared in pyproject.toml and checked by `make lint`.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import knnlm
import knnlm_paper

ROOT = Path(knnlm.__file__).parent
PAPER = Path(knnlm_paper.__file__).parent
FILES = [*sorted(ROOT.rglob("*.py")), *sorted(PAPER.rglob("*.py"))]


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
    return names


@pytest.mark.parametrize("path", [*FILES, *Path(__file__).parent.rglob("*.py")], ids=str)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=str)
def test_modules_have_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_fit_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # a signature is a list of options, one a line since the formatter decides
            assert (node.end_lineno or 0) - node.body[0].lineno <= 60, node.name


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_is_unpickled(path: Path) -> None:
    text = path.read_text()
    assert not {"pickle", "dill", "joblib", "shelve"} & imports(path)
    assert "torch.load(" not in text
    assert "allow_pickle=True" not in text


ROOMS = {folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").is_file()}
# of the report and the integrations each module is offered
OPEN = {"report", "integrations"}
WITHIN = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] in ROOMS]


@pytest.mark.parametrize("path", WITHIN, ids=str)
def test_rooms_are_entered_by_their_doors(path: Path) -> None:
    """Another room's modules are private: what it offers is exported by its `__init__`."""
    others = ROOMS - OPEN - {path.relative_to(ROOT).parts[0]}
    for module in imports(path):
        package, _, inside = module.partition(".")
        room, _, private = inside.partition(".")
        if package == "knnlm" and room in others:
            assert not private, f"{path.name} imports {module}: import it from knnlm.{room}"


def test_defaults_are_light_to_import() -> None:
    code = (
        "import sys; from knnlm import defaults; "
        "print(defaults.K, [m for m in ('faiss', 'numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["1024", "[]\n"]
