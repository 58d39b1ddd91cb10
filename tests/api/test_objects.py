"""The objects as the README shows them, and each method against what it should give."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from knnlm import (
    KNNLM,
    Datastore,
    DatastoreInfo,
    EvaluationResult,
    Explanation,
    Generation,
    KnnlmError,
    Neighbors,
    UsageError,
    VerifyResult,
)
from knnlm.models.load import load_model
from tests.huggingface.making import Made, dense


def test_the_readmes_example(
    tiny_model: Path,
    texts: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Datastore.build(str(tiny_model), text=str(texts["train"]), path="store")
    store.build_index()
    model = KNNLM(store).tune(str(texts["valid"]))
    result = model.evaluate(str(texts["test"]))
    print(result)
    out = model.generate("the cat", max_new_tokens=20)
    print(out.text)
    explanation = out.explain()
    print(explanation)

    shown = capsys.readouterr().out
    assert isinstance(result, EvaluationResult)
    assert f"{result.interp_ppl:.2f}" in shown
    assert isinstance(out, Generation)
    assert len(out.tokens) == 20
    assert out.text in shown
    assert str(out) == "the cat" + out.text
    assert isinstance(explanation, Explanation)
    assert len(explanation) == 20
    assert "(train.txt)" in shown
    assert (tmp_path / "store").is_dir()
    assert result.settings == model.settings
    assert model.settings.retrieval is not None
    assert model.settings.retrieval.index == store.indexes[0]
    assert result.interp_ppl < result.base_ppl


def brute_force(
    states: NDArray[np.float64], entries: NDArray[np.float64], k: int, metric: str
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Ids and scores of the nearest entries, by comparing all of them."""
    if metric == "ip":
        scores = states @ entries.T
    else:
        scores = -((states[:, None] - entries[None]) ** 2).sum(-1)
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(scores, ids, axis=1)


@pytest.mark.parametrize("key", ["att", "ffn"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_an_exact_search_is_a_brute_force_search(store: Datastore, key: str, metric: str) -> None:
    entries = store.entries.key(key).all().astype(np.float64)
    queries = np.random.default_rng(0).standard_normal((7, entries.shape[1])).astype(np.float32)
    near = store.search(queries, k=9, key=key, metric=metric, exact=True)
    ids, scores = brute_force(queries.astype(np.float64), entries, 9, metric)
    assert isinstance(near, Neighbors)
    assert np.array_equal(near.ids, ids)
    np.testing.assert_allclose(near.scores, scores, rtol=1e-5)


def test_one_query_may_be_a_vector_or_a_list(store: Datastore) -> None:
    query = store.entries.key("att").read(5, 6)[0].astype(np.float32)
    near = store.search(query, k=3)
    assert near.ids.shape == (1, 3)
    assert np.array_equal(store.search([query.tolist()], k=3).ids, near.ids)  # type: ignore[arg-type]
    assert 0.0 in near.scores  # the entry itself, or one like it


@pytest.mark.parametrize("shape", [(2, 15), (17,), (2, 2, 16), (0,)])
def test_queries_of_a_wrong_width_are_refused(store: Datastore, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        UsageError, match=r"do not fit att states of width 16: give an array of shape \(queries, 16"
    ):
        store.search(np.zeros(shape, np.float32), k=2)


def test_a_search_uses_an_index_only_if_it_fits(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    store = Datastore.build(tiny_model, texts["valid"], tmp_path / "store")
    queries = store.entries.key("att").read(0, 4)
    exact = store.search(queries, k=5)
    assert np.array_equal(store.search(queries, k=5, exact=False).ids, exact.ids)  # none to use
    index = store.build_index(factory="Flat")
    assert store.indexes == [index.name]
    for near in (
        store.search(queries, k=5, exact=False),
        store.search(queries, k=5, index=index.name),
    ):
        np.testing.assert_allclose(near.scores, exact.scores, atol=1e-3)
    with pytest.raises(UsageError, match="is for att states and metric l2, not att and ip"):
        store.search(queries, k=5, metric="ip", index=index.name)
    with pytest.raises(UsageError, match="is for att states and metric l2, not ffn and l2"):
        store.search(queries, k=5, key="ffn", index=index.name)


def test_a_datastore_says_what_it_holds(store: Datastore, tuned_store: Path) -> None:
    assert len(store) == store.entries.count
    assert repr(store) == f"Datastore({str(tuned_store)!r}, {len(store):,} entries, keys att, ffn)"
    assert (store.path, store.keys, store.components) == (tuned_store, ("att", "ffn"), [])
    info = store.info()
    assert isinstance(info, DatastoreInfo)
    assert info.entries == len(store)
    assert [settings.component for settings in info.settings] == ["knn"]
    assert str(info).startswith(f"{tuned_store}: {len(store):,} entries from 1 document, ")
    verified = store.verify()
    assert isinstance(verified, VerifyResult)
    assert verified.as_json()["ok"]
    assert "are whole" in str(verified)
    assert verified.bytes > info.bytes  # the caches too


@torch.inference_mode()
@pytest.mark.parametrize("key", ["att", "ffn"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_logits_are_log_p_of_the_equation(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path, key: str, metric: str
) -> None:
    lm = load_model(tiny_model)
    store = Datastore.build(lm, texts["valid"], tmp_path / "store", dtype="float32")
    spread = float(np.var(store.entries.key(key).all().astype(np.float64)) * 8)
    model = KNNLM(store, key=key, metric=metric, exact=True, k=40, lam=0.4, tau=spread)
    made = Made(lm, store.entries, model.settings, model.to_transformers())
    ids = [0, 45, 67, 89, 120, 31, 88]
    logits = model.to_transformers()(input_ids=torch.tensor([ids])).logits[0]
    np.testing.assert_allclose(
        logits.double().exp().numpy(), dense(made, ids), rtol=1e-3, atol=1e-7
    )
    assert model.to_transformers() is made.model  # opened once


def test_other_settings_are_another_hugging_face_model(store: Datastore, model: KNNLM) -> None:
    assert model.to_transformers() is model.to_transformers()
    other = KNNLM(store, lam=0.9).to_transformers()
    assert other is not model.to_transformers()
    assert other.config.tuned.lam == 0.9


def test_a_text_is_explained_token_by_token(model: KNNLM) -> None:
    text = "the cat sat on a mat."
    explanation = model.explain(text)
    lam = model.settings.lam
    assert "".join(token.text for token in explanation.tokens) == text
    for token in explanation.tokens:
        mixed = (1 - lam) * np.exp(token.lm_logprob) + lam * np.exp(token.component_logprob)
        assert np.exp(token.mixed_logprob) == pytest.approx(mixed, rel=1e-5)
        assert token.neighbors
    assert str(explanation).count("(train.txt)") >= len(explanation)
    assert len(explanation.as_json()) == len(explanation)
    with pytest.raises(UsageError, match="nothing to explain: give a text of two tokens or more"):
        model.explain("")


def test_evaluation_is_that_of_the_settings(
    store: Datastore, model: KNNLM, texts: dict[str, Path]
) -> None:
    tuned = model.evaluate(texts["test"])
    other = KNNLM(store, lam=0.0).evaluate(texts["test"])
    assert other.interp_ppl == other.base_ppl == tuned.base_ppl
    assert tuned.interp_ppl < tuned.base_ppl
    assert "settings" not in tuned.as_json()


def test_what_is_not_tuned_is_said_with_what_to_give(
    tiny_model: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    store = Datastore.build(tiny_model, texts["valid"], tmp_path / "store")
    with pytest.raises(KnnlmError, match="or give `lam` and `tau`"):
        KNNLM(store).evaluate(texts["test"])
    with pytest.raises(UsageError, match="`index` and `exact` exclude each other"):
        KNNLM(store, index="some", exact=True)
    with pytest.raises(UsageError, match="`k` belongs to a search: leave it out with `component`"):
        KNNLM(store, component="head", k=3)


def test_hidden_states_of_a_text_are_those_of_an_entry(store: Datastore) -> None:
    """The state that the datastore holds for a token is found again from the text before it."""
    lm = store.model
    entry = 9  # of the first document, whose tokens all fit one window
    before = [store.entries.documents[0].first_token, *store.entries.context(entry, 99).tolist()]
    text = lm.tokenizer.decode(before[1:])
    states = store.hidden_states(text, key="ffn")
    stored = store.entries.key("ffn").read(entry, entry + 1)
    np.testing.assert_allclose(states[-1], stored[0], atol=2e-2)
    assert store.search(states[-1:], k=1, key="ffn").ids[0, 0] == entry
    assert states.dtype == stored.dtype
    with pytest.raises(UsageError, match="tokens but the model reads at most 24: shorten it"):
        store.hidden_states("the cat sat on a mat " * 20)


def test_an_open_datastore_does_not_depend_on_the_working_folder(
    tuned_store: Path,
    texts: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(tuned_store, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    store = Datastore.open("store")
    assert repr(store).startswith("Datastore('store', ")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    store.build_index(factory="Flat")
    assert KNNLM(store).evaluate(texts["test"]).tokens > 0
    assert store.verify().indexes == store.indexes == Datastore.open("../store").indexes
    assert "cache" in str(store.info())
    assert store.info().cache_bytes > 0


def test_a_handful_of_tokens_does_not_replace_settings(
    store: Datastore, texts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "few.txt").write_text("the cat sat")
    before = KNNLM(store).settings
    with pytest.raises(UsageError, match="has only .* tokens, on which nothing can be tuned: give"):
        KNNLM(store).tune(tmp_path / "few.txt")
    assert KNNLM(store).settings == before
