"""generate() in all its ways gives the tokens of the dense equation, for every family."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from knnlm.datastore.build import build_entries
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import encode_documents
from knnlm.text.windows import cut_windows
from tests.hidden_states import models
from tests.huggingface.making import (
    GREEDY,
    NEW,
    PROMPTS,
    Made,
    alone,
    beams_by_hand,
    greedy_by_hand,
    knn_lm,
    left_padded,
)

pytestmark = pytest.mark.pipeline

# transformers itself batches these wrongly or not at all: they do not take their attention from its
# interface
NOT_BATCHED_CONTINUOUSLY = {
    "gptj",
    "falcon",
    "falcon sequential",
    "falcon two norms",
    "falcon new, one norm",
}


@pytest.fixture(params=sorted(models.VARIANTS), scope="module")
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def made(family: str, text: Path, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return knn_lm(
        models.VARIANTS[family](), tokenizer, text, tmp_path_factory.mktemp("family") / "store"
    )


@pytest.fixture(scope="module")
def wanted(made: Made) -> list[list[int]]:
    return [greedy_by_hand(made, prompt) for prompt in PROMPTS]


def test_neighbours_matter(made: Made, wanted: list[list[int]]) -> None:
    base = made.lm.model.generate(**alone(PROMPTS[0]), **GREEDY)[0].tolist()
    assert base != wanted[0]


@pytest.mark.parametrize("cache", [True, False])
def test_greedy(made: Made, wanted: list[list[int]], cache: bool) -> None:
    for prompt, ids in zip(PROMPTS, wanted, strict=True):
        assert made.model.generate(**alone(prompt), use_cache=cache, **GREEDY)[0].tolist() == ids


def test_a_left_padded_batch(made: Made, wanted: list[list[int]]) -> None:
    found = made.model.generate(**left_padded(PROMPTS), **GREEDY)
    for prompt, ids, row in zip(PROMPTS, wanted, found.tolist(), strict=True):
        assert row[-len(prompt) - NEW :] == ids


def test_beams(made: Made) -> None:
    found = made.model.generate(**alone(PROMPTS[0]), num_beams=3, **GREEDY)[0].tolist()
    assert found == beams_by_hand(made, PROMPTS[0], 3)


def test_assisted(made: Made, wanted: list[list[int]]) -> None:
    found = made.model.generate(**alone(PROMPTS[0]), assistant_model=made.lm.model, **GREEDY)[
        0
    ].tolist()
    assert found == wanted[0]


def test_continuous_batching(made: Made, wanted: list[list[int]], family: str) -> None:
    if family in NOT_BATCHED_CONTINUOUSLY:
        pytest.skip("transformers does not support it")
    found = made.model.generate_batch(
        PROMPTS,
        generation_config=transformers.GenerationConfig(**GREEDY, eos_token_id=-1),
        continuous_batching_config=transformers.ContinuousBatchingConfig(
            num_blocks=32, max_batch_tokens=64
        ),
        progress_bar=False,
    )
    assert [o.prompt_ids + o.generated_tokens for o in found.values()] == wanted


@torch.inference_mode()
def test_without_retrieval_the_loss_is_that_of_hugging_face(
    made: Made, text: Path, family: str
) -> None:
    model, store = made.lm.model, made.store
    rows = torch.from_numpy(store.targets[:24].astype("int64"))
    ids = torch.cat([torch.tensor([store.documents[0].first_token]), rows])[None]
    wanted = model(input_ids=ids, labels=ids).loss.item()
    without = knn_free(made)
    assert without(input_ids=ids, labels=ids).loss.item() == pytest.approx(wanted, abs=1e-5)


@torch.inference_mode()
def test_stored_logprobs_are_those_of_hugging_face(made: Made, text: Path, tmp_path: Path) -> None:
    lm = made.lm
    queries = build_entries(lm, Files((text,)), tmp_path / "queries", window=24, logprobs=True)
    (tokens,) = (e.tokens for e in encode_documents(lm.tokenizer, Files((text,))))
    losses, counts = [], []
    for w in cut_windows(len(tokens), 24, 12):
        ids = torch.from_numpy(tokens[w.start : w.stop + 1].astype("int64"))[None]
        labels = ids.clone()
        labels[:, : w.first - w.start] = -100
        losses.append(lm.model(input_ids=ids, labels=labels).loss.item())
        counts.append(w.scored)
    assert sum(counts) == queries.count
    assert -queries.lm_logprob.mean() == pytest.approx(np.average(losses, weights=counts), abs=1e-5)


def knn_free(made: Made) -> Any:
    """The same model with λ = 0."""
    return type(made.model).from_parts(made.lm, made.store, made.tuned._replace(lam=0.0))
