"""Writes the table of rooms into README.md: `make readme` runs it, a test checks it.

The rooms and their order are the layers declared in pyproject.toml; what a room does is the first
sentence of its docstring. Only the symbols are written here.
"""

import ast
import re
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
_MARKED = re.compile(r"(<!-- tree: [^>]*-->\n).*?(<!-- end of tree -->)", re.DOTALL)


def rooms() -> list[str]:
    """Return the rooms of knnlm from top to bottom, as pyproject.toml declares them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [room for layer in layers for room in layer.split(" | ")]


def tree() -> str:
    """Return the table of rooms in Markdown."""
    names = rooms()
    if missing := SYMBOLS.keys() - set(names):
        raise ValueError(f"symbols of rooms that pyproject.toml does not declare: {missing}")
    lines = ["| symbol | room | content |", "|---|---|---|"]
    for name in names:
        file = _file(name)
        shown = f"{name}/" if file.name == "__init__.py" else file.name
        lines.append(f"| {SYMBOLS.get(name, '')} | `{shown}` | {_first_sentence(file, name)} |")
    return "\n".join(lines)


def with_tree(text: str) -> str:
    """Return a README's text with the table of rooms as it is now."""
    updated, count = _MARKED.subn(lambda marks: f"{marks[1]}\n{tree()}\n\n{marks[2]}", text)
    if count != 1:
        raise ValueError(f"the README has {count} places for the tree: mark one by two comments")
    return updated


def _file(room: str) -> Path:
    package = ROOT / "src" / "knnlm" / room / "__init__.py"
    return package if package.exists() else package.parent.with_suffix(".py")


def _first_sentence(file: Path, room: str) -> str:
    """Return the first sentence of a module's docstring, without the symbols before its colon."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].removesuffix(".")
    if room in SYMBOLS and sentence.startswith(SYMBOLS[room]):
        sentence = sentence.partition(": ")[2]
    return sentence[:1].upper() + sentence[1:].replace("|", r"\|")


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(with_tree(readme.read_text(encoding="utf-8")), encoding="utf-8")
