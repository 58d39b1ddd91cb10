"""Nothing is believed that was not checked: bytes, models, texts and settings that are not what
they were."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knnlm.cli.main import run
from knnlm.datastore.table import MANIFEST

pytestmark = pytest.mark.pipeline

Ask = Callable[..., dict[str, Any]]
Complain = Callable[..., str]


@pytest.fixture(scope="module")
def tuned(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    """A folder with a model and a datastore that was tuned and evaluated, so that every cache is
    filled."""
    where = tmp_path_factory.mktemp("trust")
    shutil.copytree(tiny_model, where / "model")
    for line in (
        f"build {where / 'model'} --text {texts['train']} --out {where / 'store'}",
        f"tune {where / 'store'} --text {texts['valid']} --exact --k 32",
        f"eval {where / 'store'} --text {texts['test']}",
    ):
        assert run(line.split()) == 0
    return where


@pytest.fixture
def folder(tuned: Path, tmp_path: Path) -> Path:
    shutil.copytree(tuned, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*arguments: object) -> dict[str, Any]:
        capsys.readouterr()
        code = run([*map(str, arguments), "--json"])
        output = capsys.readouterr()
        assert code == 0, output.err
        fields: dict[str, Any] = json.loads(output.out)
        return fields

    return asked


@pytest.fixture
def complain(capsys: pytest.CaptureFixture[str]) -> Complain:
    def complained(code: int, *arguments: object) -> str:
        capsys.readouterr()
        assert run([str(a) for a in arguments]) == code
        (line,) = (
            line for line in capsys.readouterr().err.splitlines() if line.startswith("knnlm: ")
        )
        return line

    return complained


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_changed_target_is_found_before_it_votes(
    folder: Path, texts: dict[str, Path], complain: Complain
) -> None:
    damage(folder / "store" / "parts" / "000000" / "target.npy")
    rest = ("--model", folder / "model", "--text", texts["test"])
    assert "target.npy is damaged" in complain(1, "eval", folder / "store", *rest)


@pytest.mark.parametrize("kind", ["neighbors", "states"])
def test_a_damaged_cache_is_found_and_made_again(
    folder: Path, texts: dict[str, Path], ask: Ask, complain: Complain, kind: str
) -> None:
    command = ("eval", folder / "store", "--model", folder / "model", "--text", texts["test"])
    before = ask(*command)
    for file in (folder / "store" / "cache" / kind).rglob("*.npy"):
        damage(file)
    assert "is damaged" in complain(1, "verify", folder / "store")
    assert ask(*command) == before


def test_a_model_with_another_configuration_is_another_model(
    folder: Path, texts: dict[str, Path], complain: Complain
) -> None:
    config = folder / "model" / "config.json"
    config.write_text(config.read_text().replace('"relu"', '"gelu"'))
    line = complain(
        1, "eval", folder / "store", "--model", folder / "model", "--text", texts["test"]
    )
    assert "was built with another model" in line


def test_a_model_that_moved_is_named_and_found(
    tiny_model: Path, tmp_path: Path, texts: dict[str, Path], ask: Ask, complain: Complain
) -> None:
    shutil.copytree(tiny_model, tmp_path / "here")
    store = tmp_path / "store"
    ask("build", tmp_path / "here", "--text", texts["train"], "--out", store)
    first = ask("tune", store, "--text", texts["valid"], "--exact", "--k", 8)
    (tmp_path / "here").rename(tmp_path / "there")
    line = complain(1, "tune", store, "--text", texts["valid"], "--exact", "--k", 8)
    assert "is not where it was: say where with --model" in line
    again = ask(
        "tune", store, "--text", texts["valid"], "--exact", "--k", 8, "--model", tmp_path / "there"
    )
    assert again == first
    built = ask(
        "build", tmp_path / "there", "--text", texts["train"], "--out", store
    )  # the same datastore, still
    assert built["entries"] == json.loads((store / MANIFEST).read_text())["rows"]


def test_the_datastores_own_text_is_refused(
    folder: Path, texts: dict[str, Path], complain: Complain
) -> None:
    for verb in (("tune", "--exact"), ("eval",)):
        line = complain(
            2,
            verb[0],
            folder / "store",
            "--model",
            folder / "model",
            "--text",
            texts["train"],
            *verb[1:],
        )
        assert "train.txt is in the datastore, where every token retrieves itself (100%" in line


def test_a_part_of_the_datastores_own_text_is_refused_too(
    tiny_model: Path, tmp_path: Path, texts: dict[str, Path], ask: Ask, complain: Complain
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("train", "test"):
        shutil.copy(texts[name], folder)
    ask("build", tiny_model, "--text", folder, "--out", tmp_path / "store")
    line = complain(2, "tune", tmp_path / "store", "--text", folder / "test.txt", "--exact")
    assert "test.txt is in the datastore, where every token retrieves itself" in line


def test_evaluating_on_the_tuning_text_is_said(
    folder: Path, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    store, model = str(folder / "store"), str(folder / "model")
    assert run(["eval", store, "--model", model, "--text", str(texts["valid"])]) == 0
    assert "tuned on this very text" in capsys.readouterr().err
    assert run(["eval", store, "--model", model, "--text", str(texts["test"])]) == 0
    assert "tuned on this very text" not in capsys.readouterr().err


def test_given_settings_need_no_tuning(
    folder: Path, texts: dict[str, Path], ask: Ask, complain: Complain
) -> None:
    command = (
        "eval",
        folder / "store",
        "--model",
        folder / "model",
        "--text",
        texts["test"],
        "--key",
        "ffn",
    )
    assert "tune" in complain(1, *command)
    assert "for --key ffn, --metric ip, --exact: run 'knnlm tune " in complain(
        1, *command, "--metric", "ip", "--exact"
    )
    found = ask(*command, "--lambda", 0.3, "--tau", 2, "--k", 8)
    assert (found["key"], found["lambda"], found["temperature"], found["k"]) == ("ffn", 0.3, 2, 8)


def test_lambda_1_and_tiny_texts_have_no_interval(
    folder: Path, tmp_path: Path, texts: dict[str, Path], ask: Ask
) -> None:
    command = ("eval", folder / "store", "--model", folder / "model", "--text")
    assert ask(*command, texts["test"], "--lambda", 1, "--k", 1)["ratio_ci95"] is None
    (tmp_path / "tiny.txt").write_text("the cat sat")
    assert ask(*command, tmp_path / "tiny.txt")["ratio_ci95"] is None
    (tmp_path / "white.txt").write_text("  \n ")
    assert ask(*command, tmp_path / "white.txt")["base_word_ppl"] is None


def test_a_float32_datastore_is_tuned_in_float32(
    tiny_model: Path, tmp_path: Path, texts: dict[str, Path], ask: Ask
) -> None:
    store = tmp_path / "store"
    ask("build", tiny_model, "--text", texts["train"], "--out", store, "--dtype", "float32")
    ask("tune", store, "--text", texts["valid"], "--exact", "--k", 8)
    (manifest,) = (store / "cache" / "states").glob("*/manifest.json")
    assert json.loads(manifest.read_text())["columns"]["att"]["dtype"] == "<f4"


def test_several_k_are_one_search(folder: Path, texts: dict[str, Path], ask: Ask) -> None:
    shutil.rmtree(folder / "store" / "cache" / "neighbors")
    ask(
        "tune",
        folder / "store",
        "--model",
        folder / "model",
        "--text",
        texts["valid"],
        "--exact",
        "--k",
        "4,16,8",
    )
    (found,) = (folder / "store" / "cache" / "neighbors").iterdir()
    assert found.name.endswith("-k16")


@pytest.mark.parametrize(
    ("code", "line", "words"),
    [
        (2, "tune STORE --text VALID --exact --k nan", "not a list of whole numbers"),
        (2, "train --text VALID --preset smoke --out NEW --seed -1", "seed -1 is out of range"),
        (2, "build MODEL --text VALID --out NEW --keys ,", "no key given"),
        (
            1,
            "build MODEL --text VALID --out MODEL",
            "is a model folder: choose another --out for the datastore",
        ),
        (
            1,
            "train --text VALID --preset smoke --out STORE",
            "is a datastore: choose another --out for the model",
        ),
        (1, "index STORE --factory IDMap,Flat", "FAISS cannot build"),
        (1, "index STORE --factory PCA64,Flat", "FAISS cannot build"),
        (1, f"build MODEL --text VALID --out {'x' * 300}", "File name too long"),
    ],
)
def test_odd_requests_get_a_sentence(
    folder: Path, texts: dict[str, Path], complain: Complain, code: int, line: str, words: str
) -> None:
    places = {
        "STORE": folder / "store",
        "MODEL": folder / "model",
        "NEW": folder / "new",
        "VALID": texts["valid"],
    }
    assert words in complain(code, *(places.get(word, word) for word in line.split()))


def test_a_model_without_a_tokenizer_is_said_to_be_without(
    folder: Path, texts: dict[str, Path], complain: Complain
) -> None:
    for file in (folder / "model").glob("tokenizer*"):
        file.unlink()
    line = complain(1, "build", folder / "model", "--text", texts["valid"], "--out", folder / "new")
    assert "tokenizer" in line
