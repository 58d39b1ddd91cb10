"""Several output embeddings per vocabulary entry: the sum of their probabilities, in a model that
opens like any other."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
import transformers

from knnlm.datastore.build import build_entries
from knnlm.models.load import load_model
from knnlm.models.summed_embeddings import SummedEmbeddings
from knnlm.text.tokenizer import joined_tokens
from knnlm.training.language_model import next_token_loss
from tests.training.training import TINY, Texts

pytestmark = pytest.mark.usefixtures("one_thread")
TWO = dataclasses.replace(TINY, embeddings=2)


def test_the_probability_of_an_entry_is_the_sum_over_its_embeddings() -> None:
    torch.manual_seed(0)
    head, states = SummedEmbeddings(5, 7, 3).double(), torch.randn(4, 5, dtype=torch.float64)
    dense = (states @ head.weight.T).softmax(1).reshape(4, 7, 3).sum(2)
    assert torch.allclose(head(states).softmax(1), dense)


def test_equal_embeddings_act_as_one() -> None:
    torch.manual_seed(0)
    head, one = SummedEmbeddings(5, 7, 3), torch.randn(7, 5)
    with torch.no_grad():
        head.weight.copy_(one.repeat_interleave(3, 0))
    states = torch.randn(4, 5)
    assert torch.allclose(head(states).log_softmax(1), (states @ one.T).log_softmax(1), atol=1e-6)


def test_a_model_trained_with_two_opens_like_any_other(tmp_path: Path, prose: Texts) -> None:
    trained = prose.into(tmp_path / "m", TWO)
    lm = load_model(tmp_path / "m")
    assert lm.vocab_size == len(lm.tokenizer)
    assert (
        trained.parameters == prose.into(tmp_path / "one").parameters + lm.vocab_size * TINY.width
    )
    ids = torch.from_numpy(
        joined_tokens(lm.tokenizer, prose.valid)[None, : TINY.context + 1].astype("int64")
    )
    logits = lm.model(input_ids=ids[:, :-1]).logits
    assert logits.shape[-1] == lm.vocab_size
    assert next_token_loss(lm.model, ids).item() == pytest.approx(
        math.log(trained.valid_ppl), rel=0.2
    )
    states = build_entries(lm, prose.valid, tmp_path / "states", logprobs=True)
    expected = logits[0].log_softmax(1).gather(1, ids[0, 1:, None])[:, 0]
    assert states.lm_logprob[: TINY.context] == pytest.approx(expected.numpy(), abs=1e-4)


def test_stock_transformers_does_not_open_it_as_another_model(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "m", TWO)
    with pytest.raises((RuntimeError, ValueError)):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "m")


def test_one_embedding_leaves_no_trace_in_the_settings_of_a_run() -> None:
    assert "embeddings" not in TINY.settings()
    assert TWO.settings()["embeddings"] == 2
