"""Every verb from a text to numbers, as a person would type it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knnlm.cli.main import run, spread_texts

pytestmark = pytest.mark.pipeline


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a verb with --json; stdout must be one JSON object and nothing else."""
    code = run([*map(str, arguments), "--json"])
    output = capsys.readouterr()
    assert code == 0, output.err
    found = json.loads(output.out)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, texts: dict[str, Path]
) -> Path:
    """A datastore with an index, tuned on both kinds of search."""
    where = tmp_path_factory.mktemp("verbs")
    for line in (
        f"build {tiny_model} --text {texts['train']} --out {where / 'store'}",
        f"index {where / 'store'} --factory IVF16,Flat --nprobe 4 --recall 0",
        f"tune {where / 'store'} --text {texts['valid']} --k 16,64",
        f"tune {where / 'store'} --text {texts['valid']} --k 64 --exact --taus 0.1,1,10",
    ):
        assert run(line.split()) == 0
    return where


def test_train_makes_a_model_that_transformers_opens(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, texts: dict[str, Path]
) -> None:
    import transformers

    found = ask(
        capsys, "train", "--text", texts["train"], "--preset", "smoke", "--out", tmp_path / "model"
    )
    assert found["valid_ppl"] < 60
    assert found["best_step"] > 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert sum(p.numel() for p in model.parameters()) == found["parameters"]


def test_eval_has_every_field_that_was_agreed(
    capsys: pytest.CaptureFixture[str], folder: Path, texts: dict[str, Path]
) -> None:
    found = ask(capsys, "eval", folder / "store", "--text", texts["test"])
    agreed = (
        "tokens words base_ppl interp_ppl oracle_ppl base_word_ppl interp_word_ppl lambda "
        "temperature k coverage"
        " helping ratio_ci95 key metric mask score recall"
    )
    assert set(agreed.split()) <= set(found)
    assert found["oracle_ppl"] <= found["interp_ppl"]
    assert (
        found["ratio_ci95"][0] <= found["interp_ppl"] / found["base_ppl"] <= found["ratio_ci95"][1]
    )
    assert found["component_ppl"] is None or found["coverage"] == 1  # ∞ is not JSON


def test_eval_exact_uses_the_settings_tuned_for_it(
    capsys: pytest.CaptureFixture[str], folder: Path, texts: dict[str, Path]
) -> None:
    found = ask(capsys, "eval", folder / "store", "--text", texts["test"], "--exact")
    assert (found["mask"], found["score"], found["recall"], found["k"]) == (
        "exact",
        "exact",
        1.0,
        64,
    )
    assert found["temperature"] in (0.1, 1, 10)
    other = ask(capsys, "eval", folder / "store", "--text", texts["test"], "--exact", "--lambda", 0)
    assert other["interp_ppl"] == other["base_ppl"] == found["base_ppl"]


def test_info_and_verify_know_the_datastore(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    info = ask(capsys, "info", folder / "store")
    assert info["entries"] > 1000
    assert len(info["tuned"]) == 2
    assert next(iter(info["indexes"].values()))["factory"] == "IVF16,Flat"
    verified = ask(capsys, "verify", folder / "store")
    assert verified["ok"]
    assert verified["bytes"] > info["bytes"]  # the index too


def test_plain_output_goes_to_stdout_and_progress_to_stderr(
    capsys: pytest.CaptureFixture[str], folder: Path, texts: dict[str, Path]
) -> None:
    assert run(["eval", str(folder / "store"), "--text", str(texts["test"])]) == 0
    output = capsys.readouterr()
    assert "base LM with kNN" in output.out
    assert "95 % intervals in brackets" in output.out
    assert "queries" not in output.out


def test_help_is_fast_because_it_imports_nothing_heavy() -> None:
    code = (
        "import sys; from knnlm.cli.main import run; run(['eval', '--help']); "
        "print([m for m in ('torch', 'faiss', 'transformers', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_version_is_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "knnlm", "--version"], capture_output=True, text=True, check=True
    )
    import knnlm

    assert done.stdout.strip() == knnlm.__version__


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("build model --text a b c --out d", "build model --text a --text b --text c --out d"),
        ("train --text a b --preset smoke", "train --text a --text b --preset smoke"),
        ("eval store --exact --text a b", "eval store --exact --text a --text b"),
        ("eval --json store --text a b", "eval --json store --text a --text b"),
        ("eval store --text=a b", "eval store --text=a --text b"),
        (
            "train --preset smoke --text a --valid b c",
            "train --preset smoke --text a --valid b --valid c",
        ),
        ("tune --text a store", "tune --text a store"),  # STORE may come last
        ("", ""),
    ],
)
def test_several_texts_may_follow_one_flag(typed: str, understood: str) -> None:
    assert spread_texts(typed.split()) == understood.split()


@pytest.mark.parametrize("verb", ["serve", "explore"])
def test_a_server_says_what_it_opens_before_it_does(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tuned_store: Path,
    tiny_model: Path,
    verb: str,
) -> None:
    import knnlm.api

    def opened(*_: object, **__: object) -> None:
        assert capsys.readouterr() == ("", f"opening {tuned_store} with {tiny_model} …\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(knnlm.api, "KNNLM", opened)
    assert run([verb, str(tuned_store), "--json"]) == 1
    assert "interrupted" in capsys.readouterr().err
