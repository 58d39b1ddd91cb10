"""The rooms of the code for README.md, which docs/write.py writes.

The rooms and their order are the layers declared in pyproject.toml; what a room does is the first
sentence of its docstring. Only the symbols are written here.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SYMBOLS = {
    "equation": "P",
    "models": "W_sm",
    "hidden_states": "h_sm, h_ds",
    "datastore": "W_ds",
    "similarity": "⊗",
    "search": "mask-to-k",
    "components": "M, /τ",
    "evaluation": "λ",
    "training": "Ŵ",
}


def rooms() -> list[str]:
    """Return the rooms of knnlm from top to bottom, as pyproject.toml declares them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [room for layer in layers for room in layer.split(" | ")]


def tree() -> str:
    """Return the rooms, one a line: name, symbol, what it holds. Single files that only help others
    are left out."""
    names = rooms()
    if missing := SYMBOLS.keys() - set(names):
        raise ValueError(f"symbols of rooms that pyproject.toml does not declare: {missing}")
    lines = []
    for name in names:
        file = _file(name)
        is_room = file.name == "__init__.py"
        if is_room or name in SYMBOLS:
            shown = f"{name}/" if is_room else file.name
            lines.append(f"{shown:15} {SYMBOLS.get(name, ''):10} {_first_sentence(file, name)}")
    return "\n".join(lines)


def _file(room: str) -> Path:
    package = ROOT / "src" / "knnlm" / room / "__init__.py"
    return package if package.exists() else package.parent.with_suffix(".py")


def _first_sentence(file: Path, room: str) -> str:
    """Return the first sentence of a module's docstring, without the symbols before its colon."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].removesuffix(".")
    if room in SYMBOLS and sentence.startswith(SYMBOLS[room]):
        sentence = sentence.partition(": ")[2]
    return sentence[:1].upper() + sentence[1:]
