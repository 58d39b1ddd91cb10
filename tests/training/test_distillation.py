"""Components made from a datastore and kept with it: used, resumed, checked, refused."""

import re
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import knnlm
import knnlm.training.loop as loop_module
from knnlm.api import KNNLM, Datastore
from knnlm.cli.main import run
from knnlm.components.records import list_components
from knnlm.components.stored import load_stored
from knnlm.datastore.entries import Entries, open_entries
from knnlm.errors import KnnlmError
from knnlm.files import read_json, write_json
from knnlm.huggingface.model import KNNLMForCausalLM
from knnlm.models.load import LanguageModel
from knnlm.training.distillation import load_distilled
from tests.conftest import prose
from tests.search.conftest import built as built
from tests.search.conftest import store as store
from tests.training.distilling import HEAD, QUICK, files_in, first_tokens

pytestmark = pytest.mark.pipeline


@pytest.mark.parametrize(
    ("kind", "size", "keys"),
    [
        ("head", 2, ("att",)),
        ("mixture-of-softmaxes", 2, ("att",)),
        ("mlp", 8, ("att", "ffn")),
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
    opened = Datastore(store, lm)
    made = opened.distill(
        texts["valid"], kind=kind, name="small", size=size, metric=metric, **QUICK
    )
    assert made.component.keys == keys
    assert made.record["kind"] == kind
    assert list_components(store) == opened.components == ["small"]
    folder = store.path / "components" / "small"
    assert set(files_in(folder)) == {"component.json", f"{made.record['xxh3']}.safetensors"}
    model = KNNLM(opened, component="small")
    result = model.evaluate(texts["valid"])
    assert result.interp_ppl == pytest.approx(made.settings.interp_ppl, rel=1e-6)
    assert result.interp_ppl <= result.base_ppl
    assert (result.k, result.recall) == (None, None)
    tokens, queries = first_tokens(opened.queries(texts["valid"]), keys)
    scored = model.to_transformers().score_tokens(tokens)
    assert np.allclose(scored.component, made.component.target_logprobs(queries), atol=2e-2)
    logits = model.to_transformers()(input_ids=tokens[None, :-1]).logits[0].double()
    assert torch.allclose(
        logits.exp().sum(1), torch.ones(len(logits), dtype=torch.float64), atol=1e-4
    )
    mixed = logits[np.arange(len(logits)), tokens[1:]].numpy()
    assert np.allclose(mixed, scored.mixed, atol=1e-4)


def test_a_saved_model_finds_its_component_again(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], tmp_path: Path
) -> None:
    opened = Datastore(store, lm)
    opened.distill(texts["valid"], **HEAD)
    model = KNNLM(opened, component="head", lam=0.5).to_transformers()
    model.save_pretrained(tmp_path / "saved")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    tokens = torch.tensor([[1, 5, 9, 2]])
    assert torch.allclose(again(input_ids=tokens).logits, model(input_ids=tokens).logits, atol=1e-5)
    KNNLM(opened, component="head").tune(texts["test"])  # a saved model has λ and τ of its own
    tuned = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    assert torch.allclose(tuned(input_ids=tokens).logits, model(input_ids=tokens).logits, atol=1e-5)
    opened.distill(texts["valid"], seed=1, size=2, **HEAD)
    changed = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    with pytest.raises(KnnlmError, match="component head of .* has changed since"):
        changed(input_ids=tokens)


def test_what_flatters_or_says_little_is_said(
    store: Entries,
    lm: LanguageModel,
    tmp_path: Path,
    texts: dict[str, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    few = tmp_path / "few.txt"
    few.write_text(texts["valid"].read_text()[:200])
    opened = Datastore(store, lm)
    opened.distill(few, **HEAD)
    assert re.search(r"note: fitted on only \d+ tokens", _messages(caplog))
    KNNLM(opened, component="head").evaluate(few)
    assert "tuned on this very text" in _messages(caplog)
    KNNLM(opened, component="head").evaluate(texts["test"])
    assert "tuned on this very text" not in _messages(caplog)


def _messages(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged since the last look."""
    text = caplog.text
    caplog.clear()
    return text


def test_neighbors_can_teach(lm: LanguageModel, texts: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.txt").write_text(prose(i, 6))
    opened = Datastore.build(lm, folder, tmp_path / "store")
    sentence = "neighbors teach at the tuned temperature: run `KNNLM.tune` first"
    with pytest.raises(KnnlmError, match=sentence):
        opened.distill(texts["valid"], kind="head", soft_targets=0.5)
    KNNLM(opened, exact=True).tune(texts["valid"], k=8)
    made = opened.distill(texts["valid"], soft_targets=0.5, **HEAD)
    assert made.record["teacher"]["k"] == 8
    assert made.settings.interp_ppl <= made.settings.base_ppl


def test_an_interrupted_distillation_resumes_and_another_request_starts_again(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, validations = loop_module._validate, 0

    def dies(*given: object) -> object:
        nonlocal validations
        validations += 1
        if validations == 3:
            raise KeyboardInterrupt
        return real(*given)  # type: ignore[arg-type]

    opened, valid = Datastore(store, lm), texts["valid"]
    whole = opened.distill(valid, kind="head", name="whole", **QUICK)
    monkeypatch.setattr(loop_module, "_validate", dies)
    with pytest.raises(KeyboardInterrupt):
        opened.distill(valid, kind="head", name="cut", **QUICK)
    assert list_components(store) == ["whole"]
    other = opened.distill(valid, kind="head", name="cut", size=2, **QUICK)
    assert other.record["spec"]["size"] == 2
    work = store.path / "components/cut/learning"
    assert list(work.iterdir())  # what was interrupted is not lost
    again = opened.distill(valid, kind="head", name="cut", **QUICK)
    assert again.record["xxh3"] == whole.record["xxh3"]
    assert (again.settings.lam, again.settings.tau) == (
        whole.settings.lam,
        whole.settings.tau,
    )
    assert not work.exists()


def test_damage_is_seen_and_said(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    made = Datastore(store, lm).distill(texts["valid"], **HEAD)
    assert run(["verify", str(store.path)]) == 0
    assert "0 indexes and 1 component are whole" in capsys.readouterr().out
    file = store.path / "components" / "head" / made.record["file"]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    for verb in (
        ["verify"],
        ["eval", "--text", str(texts["test"]), "--component", "head"],
        ["tune", "--text", str(texts["test"]), "--component", "head"],
    ):
        assert run([verb[0], str(store.path), *verb[1:]]) == 1
        message = capsys.readouterr().err
        assert "is damaged or missing: make it again with" in message
    assert run(["info", str(store.path)]) == 0
    hint = re.search(r"made with 'knnlm (.*)'", capsys.readouterr().out)
    assert hint is not None
    # the same again, not the default kind
    assert run([*hint[1].split(), "--text", str(texts["valid"])]) == 0
    assert load_distilled(store, "head").record["xxh3"] == made.record["xxh3"]
    assert run(["info", str(store.path)]) == 0


def test_every_public_name_is_what_it_says() -> None:
    assert isinstance(knnlm.KNNLM, type)
    for name in knnlm.__all__:
        assert not isinstance(getattr(knnlm, name), types.ModuleType), name


def test_a_component_of_another_model_is_refused(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], tmp_path: Path
) -> None:
    Datastore(store, lm).distill(texts["valid"], **HEAD)
    with pytest.raises(KnnlmError, match="unknown component 'heads'"):
        load_distilled(store, "heads")
    other = tmp_path / "other"
    shutil.copytree(store.path, other)
    manifest = read_json(other / "manifest.json")
    manifest["meta"]["model"]["fingerprint"] = "0" * 32
    write_json(other / "manifest.json", manifest)
    for load in (load_distilled, load_stored):
        with pytest.raises(KnnlmError, match="learned from another model's states"):
            load(open_entries(other), "head")


def test_a_component_of_an_earlier_format_is_replaced(
    store: Entries, lm: LanguageModel, texts: dict[str, Path]
) -> None:
    opened = Datastore(store, lm)
    made = opened.distill(texts["valid"], **HEAD)
    file = store.path / "components/head/component.json"
    write_json(file, {**read_json(file), "format": 1})
    with pytest.raises(KnnlmError, match="earlier knnlm: distill it again under the name head"):
        KNNLM(opened, component="head").evaluate(texts["test"])
    again = opened.distill(texts["valid"], **HEAD)
    assert (again.record, again.settings) == (made.record, made.settings)
