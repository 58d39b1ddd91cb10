"""The steps of a generation: one search for all rows, kept for the explanation, reused if asked."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knnlm import KNNLM, Datastore, Sampling, UsageError
from knnlm.huggingface import KNNLMForCausalLM
from tests.huggingface.making import GREEDY, NEW, PROMPTS, Made, alone, left_padded

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def model(tuned_store: Path) -> KNNLM:
    return KNNLM(tuned_store)


@contextmanager
def counted(model: KNNLMForCausalLM) -> Iterator[tuple[list[int], list[int]]]:
    """How many hidden states each search got, and how many tokens each run of the base LM read."""
    searches = list[int]()
    component = model.component
    search = component.search  # type: ignore[attr-defined]

    def counting(states: Any, k: Any = None) -> Any:
        searches.append(len(states))
        return search(states, k)

    component.__dict__["search"] = counting
    try:
        with counted_runs(model) as runs:
            yield searches, runs
    finally:
        component.__dict__["search"] = search


@contextmanager
def counted_runs(model: KNNLMForCausalLM) -> Iterator[list[int]]:
    """How many tokens each run of the base LM read."""
    runs = list[int]()
    hook = model.base.get_input_embeddings().register_forward_pre_hook(
        lambda _, inputs: runs.append(inputs[0].numel())
    )
    try:
        yield runs
    finally:
        hook.remove()


def test_a_batch_shares_one_search_a_step(made: Made) -> None:
    with counted(made.model) as (searches, _):
        made.model.generate(**left_padded(PROMPTS), **GREEDY)
    assert searches == [len(PROMPTS)] * NEW


def test_beams_share_one_search_a_step(made: Made) -> None:
    with counted(made.model) as (searches, _):
        made.model.generate(**alone(PROMPTS[0]), num_beams=3, **GREEDY)
    assert searches == [3] * NEW


def numbers(explanation: Any) -> np.ndarray:
    return np.array(
        [(t.lm_logprob, t.component_logprob, t.mixed_logprob) for t in explanation.tokens]
    )


@pytest.mark.parametrize(
    "sampling", [Sampling(max_new_tokens=12), Sampling(max_new_tokens=12, temperature=2.0, seed=3)]
)
@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_an_explanation_runs_nothing_again_and_says_the_same(
    model: KNNLM, sampling: Sampling, lam: float
) -> None:
    model = KNNLM(model.store, lam=lam)
    out = model.generate("the cat", sampling=sampling)
    with counted(model.to_transformers()) as (searches, runs):
        kept = out.explain()
        assert not searches
        assert not runs
    again = out.explainer(out.generated._replace(scores=None))
    np.testing.assert_allclose(numbers(kept), [tuple(t[1:4]) for t in again], rtol=1e-4, atol=1e-4)
    assert len(kept) == len(out.tokens) == 12
    for one, other in zip(kept.tokens, again, strict=True):
        assert one.text == other.text
        assert [n.before + n.token for n in one.neighbors] == [
            n.before + n.token for n in other.neighbors
        ]
        np.testing.assert_allclose(
            [n.weight for n in one.neighbors], [n.weight for n in other.neighbors], rtol=1e-3
        )


def test_a_beam_search_is_explained_by_another_run(model: KNNLM) -> None:
    out = model.generate("the cat", sampling=Sampling(max_new_tokens=5, beams=2))
    assert out.generated.scores is None
    with counted(model.to_transformers()) as (searches, runs):
        assert len(out.explain()) == 5
    assert searches
    assert runs


def test_a_component_that_searches_nothing_is_explained_too(
    tuned_store: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    store = Datastore.open(shutil.copytree(tuned_store, tmp_path / "store"))
    store.distill(texts["valid"], kind="clusters", size=8)
    clusters = KNNLM(store, component="clusters")
    out = clusters.generate("the cat", max_new_tokens=5)
    with counted_runs(clusters.to_transformers()) as runs:
        kept = out.explain()
    assert not runs
    again = out.explainer(out.generated._replace(scores=None))
    np.testing.assert_allclose(numbers(kept), [tuple(t[1:4]) for t in again], atol=1e-4)
    with pytest.raises(UsageError, match="`reuse` belongs to a search: leave it out"):
        clusters.generate("the cat", reuse=2)


def test_reuse_saves_searches_and_too_much_of_it_is_the_plain_result(model: KNNLM) -> None:
    plain = model.generate("the cat", max_new_tokens=20)
    none = model.generate("the cat", max_new_tokens=20, reuse=10_000)
    assert none.tokens == plain.tokens
    np.testing.assert_array_equal(numbers(none.explain()), numbers(plain.explain()))
    assert none.generated.searches == plain.generated.searches == 20
    with counted(model.to_transformers()) as (searches, runs):
        some = model.generate("the cat", max_new_tokens=20, reuse=1)
    assert len(runs) == 20
    assert len(searches) == some.generated.searches
    assert 0 < len(searches) < 20
    assert searches[:1] == [1]  # another prompt begins with a search


def test_reuse_follows_one_sequence(model: KNNLM) -> None:
    with pytest.raises(UsageError, match="`reuse` follows one sequence: leave it out"):
        model.generate("the cat", sampling=Sampling(beams=2), reuse=4)


def test_a_step_leaves_nothing_with_the_model(model: KNNLM) -> None:
    model.generate("the cat", max_new_tokens=2)
    ids = torch.tensor([[1, 2, 3]])
    with counted(model.to_transformers()) as (searches, _):
        model.to_transformers()(input_ids=ids)
    assert searches == [3]
