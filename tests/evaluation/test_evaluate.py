"""From states to numbers: alignment, intervals, and the promise that λ = 0 is the plain LM."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from knnlm.api import KNNLM, Datastore
from knnlm.components import KNN, Component, Mixture
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.evaluation.evaluation import Evaluation, evaluate
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import mix, oracle
from knnlm.evaluation.settings import TunedSettings
from knnlm.evaluation.tuning import tune
from knnlm.models.load import LanguageModel
from knnlm.models.presets import SMOKE, new_model
from knnlm.search.index_building import build_index
from knnlm.search.retrieval import Retrieval
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import encode_documents, train_tokenizer
from knnlm.text.windows import cut_windows
from tests.components.examples import random_head


@pytest.fixture(scope="module")
def token_reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose state at a position is the embedding of the token there, and nothing else."""
    folder = tmp_path_factory.mktemp("reader")
    tokenizer = train_tokenizer(["abcdefghij"], 257)  # bytes only
    torch.manual_seed(0)
    model = new_model(dataclasses.replace(SMOKE, width=16, layers=1), len(tokenizer), 0)
    with torch.no_grad():
        decoder = model.model.decoder
        decoder.embed_positions.weight.zero_()
        for linear in (decoder.layers[0].self_attn.out_proj, decoder.layers[0].fc2):
            linear.weight.zero_()
        decoder.layers[0].self_attn.out_proj.bias.copy_(torch.randn(16))
        decoder.embed_tokens.weight.normal_()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("key", ["att", "ffn"])
def test_a_state_that_knows_the_next_token_retrieves_exactly_it(
    token_reader: Path, tmp_path: Path, key: str
) -> None:
    """In a cycle each letter decides the next. Were states and targets off by one, every vote would
    be wrong."""
    (tmp_path / "train.txt").write_text("abcdefghij" * 30)
    (tmp_path / "test.txt").write_text("fghij" + "abcdefghij" * 9 + "abcde")
    store = Datastore.build(token_reader, tmp_path / "train.txt", tmp_path / "store", keys=[key])
    model = KNNLM(store, key=key, exact=True, k=8, lam=0.9, tau=0.01)
    result = model.evaluate(tmp_path / "test.txt", allow_overlap=True)
    # only the first letter, after the beginning of the document, has another predecessor there
    votes = 99 / 100
    assert result.tokens == 100
    assert result.coverage == pytest.approx(votes)
    assert result.helping == pytest.approx(votes)


def at(lam: float, temperature: float = 1.0, k: int = 4) -> TunedSettings:
    return TunedSettings(retrieval=Retrieval(k=k), lam=lam, tau=temperature)


def test_lambda_0_is_the_plain_language_model(
    store: Entries, valid: Entries, lm: LanguageModel, texts: dict[str, Path]
) -> None:
    """Equal to Hugging Face's own loss on the same windows."""
    total, count = 0.0, 0
    document = next(iter(encode_documents(lm.tokenizer, Files((texts["valid"],)))))
    for w in cut_windows(len(document.tokens), store.meta["window"], store.meta["stride"]):
        ids = torch.from_numpy(document.tokens[w.start : w.stop + 1].astype(np.int64))[None]
        labels = ids[:, :-1].clone()
        labels[0, : w.first - w.start] = -100
        # Hugging Face shifts labels itself and so leaves out the last target, which lies one beyond
        # the window's inputs
        output = lm.model(input_ids=ids[:, :-1], labels=labels, use_cache=False)
        inside = int((labels[0, 1:] != -100).sum())
        last = torch.nn.functional.cross_entropy(output.logits[0, -1:], ids[0, -1:]).item()
        total += (output.loss.item() * inside if inside else 0.0) + last
        count += w.scored
    result = evaluate(KNN(store, Retrieval(k=4)), valid, at(0.0))
    assert count == result.tokens
    assert_allclose(np.log(result.interp_ppl), total / count, atol=1e-5)
    assert result.interp_ppl == result.base_ppl
    assert result.ratio_ci95 == (1.0, 1.0)


def test_word_perplexity_counts_words_not_tokens(
    store: Entries, valid: Entries, texts: dict[str, Path]
) -> None:
    result = evaluate(KNN(store, Retrieval(k=4)), valid, at(0.1))
    assert result.words == len(texts["valid"].read_text().split())
    for per_word, per_token in (
        (result.base_word_ppl, result.base_ppl),
        (result.interp_word_ppl, result.interp_ppl),
        (result.oracle_word_ppl, result.oracle_ppl),
    ):
        assert_allclose(
            np.log(per_word) * result.words, np.log(per_token) * result.tokens, rtol=1e-9
        )


def check_numbers(component: Component, queries: Entries, settings: TunedSettings) -> Evaluation:
    """Every number against its definition."""
    result = evaluate(component, queries, settings)
    lm = queries.lm_logprob.astype(np.float64)
    other = component.target_scores(queries).logprobs(settings.tau)
    assert result.tokens == queries.count
    assert result.base_ppl == perplexity(lm)
    assert result.component_ppl == perplexity(other)
    assert result.interp_ppl == perplexity(mix(lm, other, settings.lam))
    assert result.oracle_ppl == perplexity(oracle(lm, other)) <= result.interp_ppl
    assert result.coverage == np.isfinite(other).mean()
    assert result.helping == helping(lm, other)
    assert result.ratio == result.interp_ppl / result.base_ppl
    assert result.ratio_ci95 is not None
    assert result.ratio_ci95[0] <= result.ratio <= result.ratio_ci95[1]
    assert (result.lam, result.tau) == (settings.lam, settings.tau)
    return result


def test_neighbors_tuned_on_one_text_are_evaluated_on_another(
    store: Entries, valid: Entries, unseen: Entries
) -> None:
    knn, settings = tune(KNN(store, Retrieval(k=32)), valid, name="knn")
    result = check_numbers(knn, unseen, settings)
    assert result.interp_ppl < result.base_ppl
    assert (result.k, result.recall) == (32, 1.0)
    assert result.tau_units == settings.tau_units
    unit = knn.target_scores(unseen).unit
    untuned = check_numbers(knn, unseen, at(0.3, 5.0, k=32))
    assert untuned.tau_units == 5.0 / unit  # of this very text


def test_an_index_says_its_recall(store: Entries, valid: Entries) -> None:
    index = build_index(store, "att", "l2", factory="IVF32,Flat", nprobe=4, recall=0)
    retrieval = Retrieval(index=index.name, k=32)
    knn, settings = tune(KNN(store, retrieval), valid, name="knn")
    result = check_numbers(knn, valid, settings)
    assert result.recall is not None
    assert 0.1 < result.recall < 1


def test_other_components_are_evaluated_by_the_same_code(
    store: Entries, valid: Entries, unseen: Entries
) -> None:
    head = random_head(store.vocab_size, store.key("att").type.width, "ip", 1.0)
    mixture = Mixture((KNN(store, Retrieval(k=8), 3.0), head), (0.5, 0.5))
    for component in (head, mixture):
        tuned = tune(component, valid, name="one")
        result = check_numbers(tuned.component, unseen, tuned.settings)
        assert (result.k, result.recall, result.tau_units) == (None, None, None)
        assert result.coverage == 1.0


@pytest.mark.parametrize("lam", [-0.1, 1.5, math.nan])
def test_a_weight_out_of_range_is_refused(store: Entries, valid: Entries, lam: float) -> None:
    with pytest.raises(UsageError, match="lambda .* out of range"):
        evaluate(KNN(store, Retrieval(k=4)), valid, at(lam))


@pytest.mark.parametrize("lam", [0.2, 1.0])
def test_json_there_and_back(store: Entries, valid: Entries, lam: float) -> None:
    """Also where neighbors miss a token: their perplexity, and at λ = 1 that of all, is ∞."""
    result = evaluate(KNN(store, Retrieval(k=1)), valid, at(lam, k=1))
    assert result.component_ppl == math.inf
    written = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert (written["lambda"], written["component_ppl"]) == (lam, None)
    assert Evaluation.from_json(written) == result


def test_a_text_without_words_comes_back_without_a_perplexity_per_word(
    store: Entries, valid: Entries
) -> None:
    result = evaluate(KNN(store, Retrieval(k=4)), valid, at(0.2))
    wordless = dataclasses.replace(
        result, words=0, base_word_ppl=math.nan, interp_word_ppl=math.nan, oracle_word_ppl=math.nan
    )
    again = Evaluation.from_json(json.loads(json.dumps(wordless.as_json(), allow_nan=False)))
    assert math.isnan(again.base_word_ppl)
    assert math.isnan(again.oracle_word_ppl)
    assert again.component_ppl == result.component_ppl
