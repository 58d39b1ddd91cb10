"""The shape of the code: rooms in the order of the equation, small files that say what they are, no
pickle."""

import ast
from pathlib import Path

import pytest

import knnlm

ROOT = Path(knnlm.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# A room imports only itself and rooms before it.
ROOMS = [
    ("version", "errors"),
    ("files",),
    ("progress",),
    ("formula",),
    ("lm",),
    ("taps",),
    ("states",),
    ("similarity",),
    ("search",),
    ("components",),
    ("mixture",),
    ("metrics",),
    ("learning",),
    ("evaluation",),
    ("distillation",),
    ("settings",),
    ("resolve",),
    ("hf",),
    ("api",),
    ("report",),
    ("view",),
    ("generation",),
    ("harness",),
    ("walkthrough",),
    ("paper",),
    ("cli",),
    ("__main__",),
]
LEVEL = {name: level for level, names in enumerate(ROOMS) for name in names}


def room(module: str) -> str:
    return module.removeprefix("knnlm.").split(".")[0]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{name.name}" for name in node.names if node.module == "knnlm"}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


@pytest.mark.parametrize("path", [p for p in FILES if p != ROOT / "__init__.py"], ids=str)
def test_imports_only_point_to_rooms_before(path: Path) -> None:
    own = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for module in imports(path):
        if module.startswith("knnlm."):
            assert LEVEL[room(module)] <= LEVEL[own], f"{path.name} imports {module}"


@pytest.mark.parametrize("path", [*FILES, *Path(__file__).parent.rglob("*.py")], ids=str)
def test_files_are_small(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=str)
def test_modules_say_what_they_are(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_fit_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 60, node.name


@pytest.mark.parametrize("path", FILES, ids=str)
def test_nothing_is_unpickled(path: Path) -> None:
    text = path.read_text()
    assert not {"pickle", "dill", "joblib", "shelve"} & imports(path)
    assert "torch.load(" not in text
    assert "allow_pickle=True" not in text
