"""Doors: what a room offers is in the stub beside its `__init__`, imported when it is used."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import knnlm

ROOT = Path(knnlm.__file__).parent
DOORS = sorted(ROOT.glob("**/__init__.pyi"))
HEAVY = ("torch", "transformers", "faiss", "scipy", "datasets", "matplotlib", "pandas")


def offered(stub: Path) -> list[tuple[str, str]]:
    """(module, name) of everything that a door offers."""
    imports = [
        node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)
    ]
    return [(str(node.module), alias.name) for node in imports for alias in node.names]


@pytest.mark.parametrize("stub", DOORS, ids=lambda stub: stub.parent.name)
def test_a_door_offers_what_its_stub_says(stub: Path) -> None:
    room = ".".join(["knnlm", *stub.parent.relative_to(ROOT).parts])
    package = importlib.import_module(room)
    names = [name for _, name in offered(stub)]
    assert sorted(package.__all__) == sorted(set(names))
    assert len(names) == len(set(names))
    for module, name in offered(stub):
        assert getattr(package, name) is getattr(importlib.import_module(f"{room}.{module}"), name)


@pytest.mark.parametrize("stub", DOORS, ids=lambda stub: stub.parent.name)
def test_nothing_offered_is_called_like_a_module(stub: Path) -> None:
    """Importing that module would put it in the way of the name."""
    modules = {file.stem for file in stub.parent.glob("*.py")}
    modules |= {folder.name for folder in stub.parent.iterdir() if folder.is_dir()}
    assert not modules & {name for _, name in offered(stub)}


def imported_by(*words: str) -> tuple[int, list[str], str]:
    """The exit code of a command, the heavy libraries that it imported, and its message."""
    code = (
        "import json, sys; from knnlm.cli.main import run; code = run(sys.argv[1:]); "
        f"print(json.dumps([code, [m for m in {HEAVY} if m in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    code, heavy = json.loads(done.stdout.splitlines()[-1])
    return code, heavy, done.stderr


@pytest.fixture(scope="module")
def store(
    tiny_model: Path, texts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A datastore with all that can be kept with one."""
    from knnlm import KNNLM, Datastore

    made = Datastore.build(tiny_model, texts["train"], tmp_path_factory.mktemp("door") / "store")
    made.build_index(factory="IVF16,Flat", nprobe=4, recall=0)
    model = KNNLM(made).tune(texts["valid"], k=16)
    model.evaluate(texts["test"])
    made.distill(kind="clusters", size=8)
    return made.path


@pytest.mark.parametrize("verb", ["info", "verify"])
def test_a_datastore_is_looked_at_without_model_libraries(store: Path, verb: str) -> None:
    assert imported_by(verb, str(store)) == (0, [], "")


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        ("--help", 0, ""),
        ("eval --help", 0, ""),
        ("evil", 2, "No such command 'evil'"),
        ("evil --k 3", 2, "(see knnlm --help)"),
        ("tune", 2, "Missing argument"),
        ("eval STORE --lambda much", 2, "--lambda"),
        ("eval nowhere", 1, "there is no datastore nowhere"),
        ("tune STORE --key attt", 2, "att, ffn"),
        ("eval STORE --index nothing", 2, "unknown index"),
        ("eval STORE --exact --score index", 2, "exact search has exact scores"),
        ("generate STORE word --metric ip", 1, "is not tuned for"),
        ("eval STORE --lambda 1.5", 2, "lambda 1.5 is out of range"),
        ("generate STORE word --tau 0", 2, "temperature 0.0 is out of range"),
        ("eval STORE --k 0", 2, "k = 0 is out of range"),
        ("tune STORE --k 16,5000", 2, "k = 5000 is out of range"),
        ("tune STORE --taus 1,-2", 2, "temperature -2.0 is out of range"),
        ("tune STORE --text nowhere.txt", 2, "there is no file or folder nowhere.txt"),
        ("eval STORE --text nowhere.txt", 2, "there is no file or folder nowhere.txt"),
        ("distill STORE --text nowhere.txt", 2, "there is no file or folder nowhere.txt"),
        ("build model --text nowhere.txt --out store", 2, "there is no file or folder"),
        ("build model --embedded --keys foo --out store", 2, "att, ffn"),
        ("build model --embedded --dtype int8 --out store", 2, "float16"),
        ("build model --embedded --precision half --out store", 2, "bfloat16"),
        ("build model --embedded --window 0 --out store", 2, "is impossible"),
        ("index STORE --metric nope", 2, "l2"),
        ("distill STORE --kind nope", 2, "clusters"),
        ("eval STORE --component nope", 2, "clusters"),
        ("build model --text docs --split 90,5 --out store", 2, "split"),
        ("build model --out store", 2, "name one text"),
    ],
)
def test_a_mistake_is_told_without_model_libraries(
    store: Path, words: str, exit_code: int, message: str
) -> None:
    code, heavy, sentence = imported_by(*words.replace("STORE", str(store)).split())
    assert (code, heavy) == (exit_code, [])
    assert message in sentence
