"""Components mixed into one, the neighbors among them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.api import KNNLM, Datastore
from knnlm.cli.main import run
from knnlm.components.knn import KNN
from knnlm.components.mixture import Mixture
from knnlm.components.stored import load_stored
from knnlm.datastore.entries import Entries
from knnlm.evaluation.mixing import fit_weights
from knnlm.huggingface.model import KNNLMForCausalLM
from knnlm.models.load import LanguageModel
from knnlm.training.distillation import load_distilled
from tests.search.conftest import built as built
from tests.search.conftest import store as store
from tests.training.distilling import HEAD, HEAD_WORDS, error_of, first_tokens, json_of

pytestmark = pytest.mark.pipeline

SHORT = ("--max-new-tokens", "4")


def test_components_are_mixed_into_one(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid, test = store.path, texts["valid"], texts["test"]
    parts = [
        json_of(capsys, "distill", at, "--text", valid, *words)
        for words in (["--key", "ffn"], HEAD_WORDS)
    ]
    made = json_of(capsys, "distill", at, "--text", valid, "--mix", "clusters-ffn,head")
    assert (made["name"], made["kind"]) == ("mixture", "mixture")
    assert made["mixed"] == ["clusters-ffn", "head"]
    assert sum(made["weights"]) == pytest.approx(1)
    assert made["interp_ppl"] <= min(p["interp_ppl"] for p in parts) + 1e-6
    result = json_of(capsys, "eval", at, "--text", test, "--component", "mixture")
    assert result["keys"] == ["ffn", "att"]
    json_of(capsys, "generate", at, "the", *SHORT, "--component", "mixture")
    opened = Datastore(store)
    tokens, queries = first_tokens(opened.queries(valid), ("ffn", "att"))
    mixture = load_distilled(store, "mixture").component
    assert isinstance(mixture, Mixture)
    logs = mixture.logprobs(torch.from_numpy(queries.read)).double().numpy()
    wanted = logs[np.arange(len(logs)), queries.targets]
    model = KNNLM(opened, component="mixture").to_transformers()
    assert np.allclose(model.score_tokens(tokens).component, wanted, atol=2e-2)
    text = opened.queries(valid)
    rows = np.flatnonzero(text.table.columns["document"].all() == 0)[: len(wanted)]
    assert np.allclose(mixture.target_logprobs(text)[rows], wanted, atol=1e-4)
    assert run(["info", str(at)]) == 0
    assert "component mixture: mixture on ffn and att" in capsys.readouterr().out
    assert run(["verify", str(at)]) == 0
    again = json_of(capsys, "tune", at, "--text", test, "--component", "mixture")
    assert again["temperature"] == 1
    for words, sentence in (
        (["--mix", "head"], "one component is not a mixture"),
        (["--mix", "head,heads"], "unknown component 'heads'"),
        (["--mix", "head,clusters-ffn", "--name", "head"], "choose another name"),
        (["--mix", "head,clusters-ffn", "--name", "knn"], "choose another name"),
        (
            ["--mix", "head,clusters-ffn", "--size", "3"],
            "--size belongs to a new component: leave it out with --mix",
        ),
        (["--mix", "head,clusters-ffn", "--kind", "mlp"], "--kind belongs to a new component"),
        (["--mix", "head,clusters-ffn", "--seed", "0"], "--seed belongs to a new component"),
        (["--mix", "head,knn"], f"is not tuned: run 'knnlm tune {at} --text VALID' first"),
    ):
        assert sentence in error_of(capsys, "distill", at, "--text", valid, *words)
    hotter = ("eval", at, "--text", test, "--component", "mixture", "--tau", "4")
    assert "has no temperature: each part has its own" in error_of(capsys, *hotter)


def test_neighbors_are_mixed_with_clusters(
    store: Entries, texts: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    at, valid, test = store.path, texts["valid"], texts["test"]
    mix = ("distill", at, "--mix", "knn,clusters")
    clusters = json_of(capsys, "distill", at, "--text", valid)
    # neighbors are not made but tuned
    assert "is not tuned: run 'knnlm tune" in error_of(capsys, *mix, "--text", valid)
    tuned = json_of(capsys, "tune", at, "--text", valid, "--exact", "--k", "8")
    made = json_of(capsys, *mix)  # on the text that it was tuned on
    assert made["interp_ppl"] <= min(tuned["interp_ppl"], clusters["interp_ppl"]) + 1e-6
    assert made["keys"] == ["att"]
    assert run([*map(str, mix), "--name", "both"]) == 0
    printed = capsys.readouterr().out
    assert "without a search" not in printed
    assert f"(with the search: {tuned['interp_ppl']:.2f})" in printed
    result = json_of(capsys, "eval", at, "--text", test, "--component", "mixture")
    assert (result["component"], result["lambda"]) == ("mixture", made["lambda"])
    assert result["interp_ppl"] < result["base_ppl"]
    assert result["oracle_ppl"] <= result["interp_ppl"]
    new = json_of(capsys, "generate", at, "the", *SHORT, "--component", "mixture", "--explain")
    assert (new["new_tokens"], new["component"]) == (4, "mixture")
    assert all(token["neighbors"] == [] for token in new["explained"])
    # settings of the neighbors and of the clusters stay theirs
    assert KNNLM(at).settings.lam == tuned["lambda"]
    assert KNNLM(at, component="clusters").settings.lam == clusters["lambda"]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_mixture_with_neighbors_is_what_its_parts_are(
    store: Entries, lm: LanguageModel, texts: dict[str, Path], tmp_path: Path, indexed: bool
) -> None:
    opened = Datastore(store, lm)
    if indexed:
        opened.build_index(key="att", factory="Flat")
    knn = KNNLM(opened, exact=not indexed).tune(texts["valid"], k=8)
    opened.distill(texts["valid"])
    made = opened.combine(["knn", "clusters"])
    parts = knn.component, load_distilled(store, "clusters").component
    queries = opened.queries(texts["valid"], "valid")
    logs = [
        queries.lm_logprob.astype("float64"),
        *(part.target_logprobs(queries) for part in parts),
    ]
    weights = fit_weights(logs)
    assert made.settings.lam == pytest.approx(1 - weights[0], abs=1e-6)
    mixture = load_stored(store, "mixture")
    assert isinstance(mixture, Mixture)
    assert np.allclose(mixture.weights, np.array(weights[1:]) / (1 - weights[0]))
    neighbors, clusters = mixture.parts
    assert isinstance(neighbors, KNN)
    assert (neighbors.retrieval, neighbors.tau) == (
        knn.settings.retrieval,
        knn.settings.tau,
    )
    assert neighbors.retrieval.exact != indexed
    assert clusters.tau == parts[1].tau
    assert mixture.multiplications is None if indexed else mixture.multiplications
    model = KNNLM(opened, component="mixture")
    tokens, _ = first_tokens(queries, ("att",))
    scored = model.to_transformers().score_tokens(tokens)
    wanted = mixture.target_logprobs(queries)[: len(scored.component)]
    assert np.allclose(scored.component, wanted, atol=2e-2)
    model.to_transformers().save_pretrained(tmp_path / "saved")
    again = KNNLMForCausalLM.from_pretrained(tmp_path / "saved")
    assert np.allclose(again.score_tokens(tokens).mixed, scored.mixed, atol=1e-5)


def test_a_mixture_of_a_mixture_has_its_parts(
    store: Entries, lm: LanguageModel, texts: dict[str, Path]
) -> None:
    opened = Datastore(store, lm)
    KNNLM(opened, exact=True).tune(texts["valid"], k=8)
    opened.distill(key="ffn")
    opened.distill(**HEAD)
    two = opened.combine(["knn", "clusters-ffn"])
    three = opened.combine(["mixture", "head", "head"], name="all")
    assert isinstance(three.component, Mixture)
    assert [type(part).__name__ for part in three.component.parts] == ["KNN", "Clusters", "Head"]
    assert three.component.keys == ("att", "ffn")
    assert three.record["mixed"] == ["mixture", "head"]
    assert three.settings.interp_ppl <= two.settings.interp_ppl + 1e-6
    assert opened.verify().components == ["all", "clusters-ffn", "head", "mixture"]
