"""`knnlm distill`: a component beside the store, used by eval and generate in the place of the
search."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import knnlm.training.loop as loop_module
from knnlm import api
from knnlm.cli.main import run
from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import KnnlmError
from knnlm.files import read_json, write_json
from knnlm.huggingface.model import KNNLMForCausalLM
from knnlm.models.load import LanguageModel
from knnlm.training.distillation import list_distilled, load_distilled
from tests.search.conftest import built as built
from tests.search.conftest import lm as lm
from tests.search.conftest import store as store

pytestmark = pytest.mark.pipeline

QUICK = {"lr": 1e-2, "epochs": 2}
HEAD = {"kind": "embeddings", "name": "head", **QUICK}
HEAD_WORDS = ["--kind", "embeddings", "--name", "head", "--lr", "0.01", "--epochs", "1"]


def object_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("kind", "size", "keys"),
    [
        ("embeddings", 2, ("att",)),
        ("softmaxes", 2, ("att",)),
        ("network", 8, ("att", "ffn")),
        ("clusters", 9, ("att",)),
    ],
)
def test_what_is_distilled_is_evaluated_and_generates(
    store: Entries,
    lm: LanguageModel,
    texts: dict[str, Path],
    kind: str,
    size: int,
    keys: tuple[str, ...],
) -> None:
    metric = "l2" if kind == "clusters" else "ip"
    made = api.distill(
        store,
        texts["valid"],
        model=lm,
        kind=kind,
        name="head",
        size=size,
        metric=metric,
        **QUICK,  # type: ignore[arg-type]
    )
    assert made.component.keys == keys
    assert list_distilled(store) == ["head"]
    kept = sorted(
        p.name for p in (store.path / "components" / "head").iterdir() if p.name != ".lock"
    )
    assert kept == sorted(["component.json", f"{made.about['xxh3']}.safetensors"])
    _, found = api.evaluate_component(store, "head", texts["valid"], model=lm)
    assert found.interp_ppl == pytest.approx(made.about["interp_ppl"], rel=1e-6)
    assert found.interp_ppl <= found.base_ppl
    assert (found.k, found.recall) == (None, None)
    model, _ = api.load(store, model=lm, component="head")
    text = api.queries(store, api.source(texts["valid"]), lm)
    rows = np.flatnonzero(text.table.columns["document"].all() == 0)[:12]
    tokens = torch.from_numpy(
        np.concatenate([[text.documents[0].first_token], text.targets[rows]]).astype(np.int64)
    )
    look = model.look(tokens)
    states = np.concatenate([text.key(key).gather(rows) for key in keys], axis=1)
    wanted = made.component.target_logprobs(states, text.targets[rows])
    assert np.allclose(look.knn, wanted, atol=2e-2)
    logits = model(input_ids=tokens[None, :-1]).logits[0].double()
    assert torch.allclose(
        logits.exp().sum(1), torch.ones(len(rows), dtype=torch.float64), atol=1e-4
    )
    assert np.allclose(logits[np.arange(len(rows)), tokens[1:]].numpy(), look.mixed, atol=1e-4)


def test_a_saved_model_finds_its_component_again(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], tmp_path: Path
) -> None:
    api.distill(store, texts["valid"], model=lm, **HEAD)  # type: ignore[arg-type]
    model, _ = api.load(store, model=lm, component="head", lam=0.5)
    model.save_pretrained(tmp_path / "saved")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    tokens = torch.tensor([[1, 5, 9, 2]])
    assert torch.allclose(again(input_ids=tokens).logits, model(input_ids=tokens).logits, atol=1e-5)
    api.distill(store, texts["valid"], model=lm, seed=1, size=2, **HEAD)  # type: ignore[arg-type]
    changed = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    with pytest.raises(KnnlmError, match="component head of .* has changed since"):
        changed(input_ids=tokens)


def test_the_commands(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid, test = str(store.path), str(texts["valid"]), str(texts["test"])
    assert run(["tune", at, "--text", valid, "--exact", "--k", "8"]) == 0
    capsys.readouterr()
    assert run(["distill", at, *HEAD_WORDS, "--json"]) == 0  # on the text it was tuned on
    made = object_of(capsys)
    assert made["name"] == "head"
    assert run(["distill", at, *HEAD_WORDS]) == 0
    told = capsys.readouterr()
    assert "is there already" in told.err
    assert re.search(
        r"→ \d+\.\d\d on [\d,]+ tokens, without a search \(with the search: \d+\.\d\d\)", told.out
    )
    assert run(["eval", at, "--text", test, "--component", "head", "--json"]) == 0
    found = object_of(capsys)
    assert found["component"] == "head"
    assert found["lambda"] == made["lambda"]
    assert found["k"] is None
    assert run(["eval", at, "--text", test, "--component", "head"]) == 0
    assert "with component" in capsys.readouterr().out
    assert (
        run(
            [
                "generate",
                at,
                "the",
                "--max-new-tokens",
                "4",
                "--component",
                "head",
                "--explain",
                "--json",
            ]
        )
        == 0
    )
    assert object_of(capsys)["component"] == "head"
    assert (
        run(
            [
                "generate",
                at,
                "the",
                "--max-new-tokens",
                "4",
                "--component",
                "head",
                "--explain",
                "--compare",
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "p_head" in said
    assert "kNN" not in said
    assert run(["info", at]) == 0
    assert "component head: embeddings on att" in capsys.readouterr().out


def test_without_a_wish_the_store_is_pressed_to_clusters(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid = str(store.path), str(texts["valid"])
    assert run(["distill", at, "--text", valid, "--json"]) == 0
    made = object_of(capsys)
    assert (made["name"], made["steps"], made["how"]) == ("clusters", 0, None)
    assert made["what"]["size"] == min(2 * store.vocab_size, store.count // 32, 8192)  # type: ignore[index]
    assert run(["distill", at, "--text", valid]) == 0
    assert "component clusters of" in capsys.readouterr().err  # is there already
    assert run(["distill", at, "--text", valid, "--epochs", "1", "--lr", "0.01", "--json"]) == 0
    assert object_of(capsys)["steps"] != 0
    assert run(["distill", at, "--text", valid, "--key", "ffn"]) == 0
    assert list_distilled(store) == ["clusters", "clusters-ffn"]


def test_what_flatters_or_says_little_is_said(
    store: Entries,
    lm: LanguageModel,
    tmp_path: Path,
    texts: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    few = tmp_path / "few.txt"
    few.write_text(texts["valid"].read_text()[:200])
    api.distill(store, few, model=lm, **HEAD)  # type: ignore[arg-type]
    assert re.search(r"note: fitted on only \d+ tokens", _messages(caplog))
    api.evaluate_component(store, "head", few, model=lm)
    assert "tuned on this very text" in _messages(caplog)
    api.evaluate_component(store, "head", texts["test"], model=lm)
    assert "tuned on this very text" not in _messages(caplog)


def _messages(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged since the last look."""
    text = caplog.text
    caplog.clear()
    return text


def test_components_are_mixed_into_one(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid, test = str(store.path), str(texts["valid"]), str(texts["test"])
    parts = []
    for words in (["--key", "ffn"], HEAD_WORDS):
        assert run(["distill", at, "--text", valid, *words, "--json"]) == 0
        parts.append(object_of(capsys))
    assert run(["distill", at, "--text", valid, "--of", "clusters-ffn,head", "--json"]) == 0
    made = object_of(capsys)
    assert made["name"] == "together"
    assert made["interp_ppl"] <= min(p["interp_ppl"] for p in parts) + 1e-6  # type: ignore[operator, type-var]
    assert run(["eval", at, "--text", test, "--component", "together", "--json"]) == 0
    assert object_of(capsys)["keys"] == ["ffn", "att"]
    assert (
        run(["generate", at, "the", "--max-new-tokens", "4", "--component", "together", "--json"])
        == 0
    )
    capsys.readouterr()
    model, _ = api.load(store, component="together")
    text = api.queries(store, api.source(texts["valid"]))
    rows = np.flatnonzero(text.table.columns["document"].all() == 0)[:12]
    tokens = torch.from_numpy(
        np.concatenate([[text.documents[0].first_token], text.targets[rows]]).astype(np.int64)
    )
    wanted = load_distilled(store, "together").component.target_logprobs(
        text.states(("ffn", "att"))[rows], text.targets[rows]
    )
    assert np.allclose(model.look(tokens).knn, wanted, atol=2e-2)
    assert run(["info", at]) == 0
    assert "component together: together on ffn and att" in capsys.readouterr().out
    assert run(["verify", at]) == 0
    for words, sentence in (
        (["--of", "head"], "one component is not a mixture"),
        (["--of", "head,heads"], "unknown component 'heads'"),
        (["--of", "head,clusters-ffn", "--name", "head"], "choose another --name"),
        (
            ["--of", "head,clusters-ffn", "--size", "3"],
            "--size belongs to a new component: leave it out with --of",
        ),
        (["--of", "head,clusters-ffn", "--kind", "network"], "--kind belongs to a new component"),
        (["--of", "head,clusters-ffn", "--seed", "0"], "--seed belongs to a new component"),
    ):
        capsys.readouterr()
        assert run(["distill", at, "--text", valid, *words]) in (1, 2)
        assert sentence in capsys.readouterr().err


def test_neighbours_can_teach(lm: LanguageModel, texts: dict[str, Path], tmp_path: Path) -> None:
    from tests.conftest import prose

    folder = tmp_path / "documents"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text(prose(i, 6))
    store = api.build(lm, tmp_path / "store", folder)
    with pytest.raises(KnnlmError, match="neighbours teach at the tuned τ: run 'knnlm tune' first"):
        api.distill(store, texts["valid"], model=lm, kind="embeddings", taught=0.5)
    api.tune(store, texts["valid"], model=lm, k=8, mask="exact")
    made = api.distill(store, texts["valid"], model=lm, taught=0.5, **HEAD)  # type: ignore[arg-type]
    assert made.about["teacher"]["k"] == 8
    assert made.about["interp_ppl"] <= made.about["base_ppl"]


def test_an_interrupted_distillation_goes_on_and_another_request_begins_anew(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, validations = loop_module._validate, 0

    def dies(*given: object) -> object:
        nonlocal validations
        validations += 1
        if validations == 3:
            raise KeyboardInterrupt
        return real(*given)  # type: ignore[arg-type]

    whole = api.distill(store, texts["valid"], model=lm, kind="embeddings", name="whole", **QUICK)  # type: ignore[arg-type]
    monkeypatch.setattr(loop_module, "_validate", dies)
    with pytest.raises(KeyboardInterrupt):
        api.distill(store, texts["valid"], model=lm, kind="embeddings", name="cut", **QUICK)  # type: ignore[arg-type]
    assert list_distilled(store) == ["whole"]
    other = api.distill(
        store,
        texts["valid"],
        model=lm,
        kind="embeddings",
        name="cut",
        size=2,
        **QUICK,  # type: ignore[arg-type]
    )
    assert other.about["what"]["size"] == 2
    assert list(
        (store.path / "components/cut/learning").iterdir()
    )  # what was interrupted is not lost
    again = api.distill(store, texts["valid"], model=lm, kind="embeddings", name="cut", **QUICK)  # type: ignore[arg-type]
    assert again.about["xxh3"] == whole.about["xxh3"]
    assert not (store.path / "components/cut/learning").exists()


def test_damage_is_seen_and_said(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made = api.distill(store, texts["valid"], model=lm, **HEAD)  # type: ignore[arg-type]
    assert run(["verify", str(store.path)]) == 0
    assert "1 components are whole" in capsys.readouterr().out
    file = store.path / "components" / "head" / made.about["file"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    for verb in (["verify"], ["eval", "--text", str(texts["test"]), "--component", "head"]):
        assert run([verb[0], str(store.path), *verb[1:]]) == 1
        said = capsys.readouterr().err
        assert "is damaged or missing: run 'knnlm distill" in said
    hint = re.search(r"run 'knnlm (.*)' again", said)
    assert hint is not None
    assert (
        run([*hint[1].split(), "--text", str(texts["valid"])]) == 0
    )  # the same again, not the usual kind
    assert load_distilled(store, "head").about["xxh3"] == made.about["xxh3"]
    assert run(["info", str(store.path)]) == 0


def test_every_public_name_is_what_it_says() -> None:
    import types

    import knnlm

    knnlm.load  # noqa: B018
    for name in knnlm.__all__:
        assert not isinstance(getattr(knnlm, name), types.ModuleType), name


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--size", "0"], "size 0 of clusters is out of range"),
        (
            ["--kind", "embeddings", "--size", "0"],
            "size 0 of embeddings is out of range: choose 1 to 64",
        ),
        (["--kind", "embeddings", "--size", "65"], "choose 1 to 64"),
        (["--kind", "softmaxes", "--size", "17"], "choose 1 to 16"),
        (["--kind", "networks"], "did you mean 'network'"),
        (["--name", "../up"], "is not a name for a component"),
        (["--kind", "embeddings", "--taught", "1.5"], "choose 0 to 1"),
        (["--epochs", "1", "--lr", "0"], "learning rate 0.0 is out of range"),
        (["--lr", "0.1"], "only if --epochs is given: give it too, or leave out --lr"),
        (["--name", ""], "is not a name for a component"),
        (["--epochs", "0"], "0 epochs are out of range"),
        (["--key", "fnn"], "did you mean 'ffn'"),
        (["--seed", "-1"], "seed -1 is out of range"),
        (["--kind", "network", "--key", "att"], "leave out --key"),
        (["--kind", "softmaxes", "--metric", "l2"], "leave out --metric"),
        (["--taught", "0.5"], "leave out --taught"),
        ([], "was not tuned, so it knows no validation text: give one with --text VALID"),
    ],
)
def test_bad_input(
    store: Entries,
    texts: dict[str, Path],
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [*words, "--text", str(texts["valid"])] if words else []
    if "--taught" in words and "--kind" in words:
        assert (
            run(["tune", str(store.path), "--text", str(texts["valid"]), "--exact", "--k", "4"])
            == 0
        )
    assert run(["distill", str(store.path), *given]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert sentence in said


def test_a_store_without_ffn_and_a_component_of_another_model(
    store: Entries,
    lm: LanguageModel,
    texts: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    thin = api.build(lm, tmp_path / "thin", texts["train"], keys=["att"])
    for words, advice in (
        (["--key", "ffn"], "build it with --keys ffn"),
        (["--kind", "network"], "build it with --keys att,ffn"),
    ):
        assert run(["distill", str(thin.path), "--text", str(texts["valid"]), *words]) == 1
        assert capsys.readouterr().err.strip().endswith(advice)
    assert run(["eval", str(thin.path), "--text", str(texts["test"]), "--component", "head"]) == 1
    assert "has no component: run 'knnlm distill" in capsys.readouterr().err
    api.distill(store, texts["valid"], model=lm, **HEAD)  # type: ignore[arg-type]
    with pytest.raises(KnnlmError, match="unknown component 'heads'"):
        load_distilled(store, "heads")
    other = tmp_path / "other"
    shutil.copytree(store.path, other)
    manifest = read_json(other / "manifest.json")
    manifest["meta"]["model"]["fingerprint"] = "0" * 32
    write_json(other / "manifest.json", manifest)
    with pytest.raises(KnnlmError, match="learned from another model's states"):
        load_distilled(open_entries(other), "head")


def test_a_component_takes_no_options_of_a_search(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(
            [
                "eval",
                str(store.path),
                "--text",
                str(texts["test"]),
                "--component",
                "head",
                "--k",
                "4",
            ]
        )
        == 2
    )
    assert "--k belongs to a search: leave it out with --component" in capsys.readouterr().err
    assert (
        run(
            [
                "eval",
                str(store.path),
                "--text",
                str(texts["test"]),
                "--component",
                "h",
                "--temperature",
                "4",
            ]
        )
        == 2
    )
    assert "--temperature belongs to a search" in capsys.readouterr().err
