"""From states to numbers: alignment, tuning, and the promise that λ = 0 is the plain LM."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from knnlm import api
from knnlm.components.knn import TargetVotes
from knnlm.datastore.entries import Entries
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.evaluation.tuning import TunedSettings, evaluate, tau_sweep, tune
from knnlm.models.load import LanguageModel, load_model
from knnlm.models.presets import SMOKE, new_model
from knnlm.search.neighbors import Neighbors
from knnlm.search.retrieval import Retrieval
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import train_tokenizer
from tests.arrays import InMemory


@pytest.fixture(scope="module")
def lm(tiny_model: Path) -> LanguageModel:
    return load_model(tiny_model)


@pytest.fixture(scope="module")
def store(
    tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel, texts: dict[str, Path]
) -> Entries:
    return api.build(lm, tmp_path_factory.mktemp("evaluate") / "store", texts["train"])


@pytest.fixture(scope="module")
def valid(store: Entries, lm: LanguageModel, texts: dict[str, Path]) -> Entries:
    return api.queries(store, Files((texts["valid"],)), lm)


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
    """In a cycle each letter decides the next. Were rows and targets off by one, every vote would
    be wrong."""
    (tmp_path / "train.txt").write_text("abcdefghij" * 30)
    (tmp_path / "test.txt").write_text("fghij" + "abcdefghij" * 9 + "abcde")
    store = api.build(token_reader, tmp_path / "store", tmp_path / "train.txt", keys=[key])
    _, found = api.evaluate(
        store, tmp_path / "test.txt", key=key, mask="exact", k=8, lam=0.9, temperature=0.01
    )
    votes = (
        99 / 100
    )  # only the first letter, after the beginning of the document, has another predecessor there
    assert found.tokens == 100
    assert found.coverage == pytest.approx(votes)
    assert found.helping == pytest.approx(votes)


def test_lambda_0_is_the_plain_language_model(
    store: Entries, valid: Entries, lm: LanguageModel
) -> None:
    """Equal to Hugging Face's own loss on the same windows."""
    from knnlm.text.tokenizer import encode_documents
    from knnlm.text.windows import cut_windows

    total, count = 0.0, 0
    document = next(iter(encode_documents(lm.tokenizer, Files((_file_of(valid),)))))
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
    tuned = TunedSettings(Retrieval(k=4), 0.0, 1.0, 1.0, 0.0, 0.0, 0)
    found = evaluate(store, valid, tuned)
    assert count == found.tokens
    assert_allclose(np.log(found.interp_ppl), total / count, atol=1e-5)
    assert found.interp_ppl == found.base_ppl
    assert found.ratio_ci95 == (1.0, 1.0)


def _file_of(valid: Entries) -> Path:
    from tests.conftest import prose

    file = valid.path / "text-for-hf.txt"
    file.write_text(prose(1, 60))
    return file


def test_word_perplexity_counts_words_not_tokens(
    store: Entries, valid: Entries, texts: dict[str, Path]
) -> None:
    tuned = TunedSettings(Retrieval(k=4), 0.1, 1.0, 1.0, 0.0, 0.0, 0)
    found = evaluate(store, valid, tuned)
    assert found.words == len(texts["valid"].read_text().split())
    assert_allclose(
        np.log(found.base_word_ppl) * found.words, np.log(found.base_ppl) * found.tokens, rtol=1e-9
    )


def test_tuning_finds_at_least_what_a_fine_grid_finds(store: Entries, valid: Entries) -> None:
    what = Retrieval(key="ffn", k=50)
    found = tune(store, valid, what)
    votes = TargetVotes(api_neighbors(store, valid, what), store.targets, valid.targets)
    lm = valid.lm_logprob.astype(np.float64)
    grid = np.geomspace(votes.spread() / 1000, votes.spread() * 1000, 120)
    best = min(
        perplexity(mix(lm, votes.logprobs(t), fit_lambda(lm, votes.logprobs(t)))) for t in grid
    )
    assert found.interp_ppl <= best * (1 + 1e-4)
    assert_allclose(found.temperature, found.temperature_units * votes.spread())


def api_neighbors(store: Entries, valid: Entries, what: Retrieval) -> InMemory:
    from knnlm.search.cache import cached_neighbors

    cached = cached_neighbors(store, valid, what)
    return InMemory(cached.read(0, len(cached)))


def test_the_range_of_temperatures_widens_until_the_optimum_is_inside() -> None:
    """Votes that are right only when all count alike: the best τ is far above the spread."""
    rng = np.random.default_rng(0)
    scores = -np.sort(rng.uniform(0, 1, (400, 8)).astype(np.float32), axis=1)
    tokens = np.zeros(8, np.int32)
    near = Neighbors(np.tile(np.arange(8), (400, 1)), scores)
    tokens[4:] = 1  # the farther half is right
    votes = TargetVotes(InMemory(near), tokens, np.ones(400, np.int32))
    points = tau_sweep(np.log(np.full(400, 0.4)), votes)
    assert min(points, key=lambda p: p.ppl).units > 2**8


def test_temperature_in_units_does_not_depend_on_the_scale_of_the_scores() -> None:
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 50, (300, 16))
    scores = -np.sort(rng.exponential(size=(300, 16)).astype(np.float32), axis=1)
    tokens, targets = (
        rng.integers(0, 3, 50).astype(np.int32),
        rng.integers(0, 3, 300).astype(np.int32),
    )
    lm = np.log(rng.uniform(0.05, 0.9, 300))
    found = []
    for scale in (1.0, 1000.0):
        votes = TargetVotes(InMemory(Neighbors(ids, scores * np.float32(scale))), tokens, targets)
        found.append(min(tau_sweep(lm, votes), key=lambda p: p.ppl))
    assert_allclose(found[0].units, found[1].units, rtol=1e-3)
    assert_allclose(found[0].temperature * 1000, found[1].temperature, rtol=1e-3)


def test_several_k_are_compared(store: Entries, valid: Entries) -> None:
    found = tune(store, valid, Retrieval(k=64), ks=[1, 64])
    alone = [tune(store, valid, Retrieval(k=k)).interp_ppl for k in (1, 64)]
    assert found.interp_ppl == min(alone)
