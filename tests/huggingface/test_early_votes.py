"""While the LM still runs, the search of a step has begun: the same votes, and the same errors."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm import KNNLM, Datastore, Sampling
from knnlm.errors import KnnlmError
from knnlm.hidden_states import StateReader
from knnlm.huggingface import KNNLMForCausalLM
from tests.hidden_states import models

pytestmark = pytest.mark.pipeline
TOKENS = torch.tensor([[1, 5, 9, 5]])


@pytest.fixture(scope="module", params=["att", "ffn"])
def knn_lm(
    request: pytest.FixtureRequest, tuned_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> KNNLM:
    """With an index that visits every list."""
    path = tmp_path_factory.mktemp("early") / "store"
    store = Datastore.open(shutil.copytree(tuned_store, path))
    index = store.build_index(key=request.param, factory="IVF8,Flat", nprobe=8)
    return KNNLM(store, key=request.param, index=index.name, lam=0.4, tau=1.0, k=16)


def threads_of_searches(model: KNNLMForCausalLM, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thread of each search."""
    names: list[str] = []
    component = model.component
    search = component.search  # type: ignore[attr-defined]

    def noting(states: Any, k: Any = None) -> Any:
        names.append(threading.current_thread().name)
        return search(states, k)

    monkeypatch.setitem(component.__dict__, "search", noting)
    return names


def test_one_state_is_searched_beside_the_lm_and_gives_the_same(
    knn_lm: KNNLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = knn_lm.to_transformers()
    names = threads_of_searches(model, monkeypatch)
    with torch.inference_mode():
        last = model(TOKENS, logits_to_keep=1).logits[0, -1]
        every = model(TOKENS).logits[0, -1]
    assert names[0].startswith("knnlm-core")
    assert names[1:] == [threading.current_thread().name]
    torch.testing.assert_close(last, every, rtol=1e-5, atol=1e-5)


def test_generation_is_that_of_searches_after_the_lm(
    knn_lm: KNNLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(max_new_tokens=12, temperature=1.5, seed=2)
    early = knn_lm.generate("the cat", sampling=sampling)
    monkeypatch.setattr(type(knn_lm.to_transformers().component), "begin_votes", lambda *_: None)
    assert knn_lm.generate("the cat", sampling=sampling).tokens == early.tokens


def test_nothing_is_searched_where_neighbors_have_no_weight(
    knn_lm: KNNLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = knn_lm.to_transformers()
    names = threads_of_searches(model, monkeypatch)
    with torch.inference_mode():
        model.with_lambda(0.0)(TOKENS, logits_to_keep=1)
    assert not names


def test_an_error_of_the_search_is_raised_and_the_next_step_is_whole(
    knn_lm: KNNLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = knn_lm.to_transformers()
    with torch.inference_mode():
        before = model(TOKENS, logits_to_keep=1).logits
    with monkeypatch.context() as patch:

        def failing(states: Any, k: Any = None) -> Any:
            raise KnnlmError("the index is gone")

        patch.setitem(model.component.__dict__, "search", failing)
        with torch.inference_mode(), pytest.raises(KnnlmError, match="the index is gone"):
            model(TOKENS, logits_to_keep=1)
    with torch.inference_mode():
        torch.testing.assert_close(model(TOKENS, logits_to_keep=1).logits, before)


@pytest.mark.parametrize("name", sorted(models.VARIANTS))
@torch.inference_mode()
def test_a_key_that_comes_early_is_the_one_that_is_read_afterwards(name: str) -> None:
    model = models.VARIANTS[name]()
    ids, early = models.some_tokens(), dict[str, torch.Tensor]()
    reader = StateReader(model)

    def then(captured: Any, key: str) -> None:
        early[key] = (captured.att(len(ids)) if key == "att" else captured.ffn).clone()

    with reader.capture(then) as captured:
        model(input_ids=ids, use_cache=False)
    torch.testing.assert_close(early["ffn"], captured.ffn)
    location = reader.att_location
    assert location is not None
    assert ("att" in early) is not location.parallel
    if "att" in early:
        assert list(early) == ["att", "ffn"]
        torch.testing.assert_close(early["att"], captured.att(len(ids)))
