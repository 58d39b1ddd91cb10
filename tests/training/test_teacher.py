"""Starting with the weights of another model, and learning from a teacher instead of the next
token."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from knnlm.errors import KnnlmError
from knnlm.models.load import load_model
from knnlm.text.tokenizer import joined_tokens
from knnlm.training.language_model import train
from tests.training.training import TINY, Texts, interrupt_after

pytestmark = [pytest.mark.pipeline, pytest.mark.usefixtures("one_thread")]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


class NextToken:
    """A teacher that says what the text says."""

    def __init__(self, tokens: NDArray[np.int32]) -> None:
        self.tokens = tokens

    def describe(self) -> dict[str, Any]:
        return {"tokens": len(self.tokens)}

    def loss(self, logits: torch.Tensor, positions: NDArray[np.int64]) -> torch.Tensor:
        targets = torch.from_numpy(self.tokens[positions].astype(np.int64))
        return cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_a_teacher_that_says_the_next_token_teaches_the_same(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "plain")
    teacher = NextToken(joined_tokens(load_model(tmp_path / "plain").tokenizer, prose.train))
    train(prose.train, prose.valid, TINY, tmp_path / "taught", teacher=teacher)
    assert weights(tmp_path / "taught") == weights(tmp_path / "plain")


def test_training_starts_with_the_weights_it_is_given(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "first")
    first = load_model(tmp_path / "first")
    still = dataclasses.replace(TINY, lr=0.0)
    train(prose.train, prose.valid, still, tmp_path / "second", initial_model=first)
    second = load_model(tmp_path / "second").model.state_dict()
    assert all(torch.equal(value, second[name]) for name, value in first.model.state_dict().items())


def test_an_interrupted_run_with_a_teacher_resumes_and_ends_the_same(
    tmp_path: Path, prose: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    prose.into(tmp_path / "first")
    first = load_model(tmp_path / "first")
    teacher = NextToken(joined_tokens(first.tokenizer, prose.train))
    train(prose.train, prose.valid, TINY, tmp_path / "whole", initial_model=first, teacher=teacher)
    with monkeypatch.context() as patch:
        interrupt_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            train(
                prose.train,
                prose.valid,
                TINY,
                tmp_path / "cut",
                initial_model=first,
                teacher=teacher,
            )
    train(prose.train, prose.valid, TINY, tmp_path / "cut", initial_model=first, teacher=teacher)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_an_initial_model_that_does_not_fit_is_refused_in_a_sentence(
    tmp_path: Path, prose: Texts
) -> None:
    prose.into(tmp_path / "first")
    first = load_model(tmp_path / "first")
    wider = dataclasses.replace(TINY, width=2 * TINY.width)
    with pytest.raises(KnnlmError, match="first has another shape than preset"):
        train(prose.train, prose.valid, wider, tmp_path / "wider", initial_model=first)
    fewer = dataclasses.replace(TINY, vocab_size=TINY.vocab_size - 20)
    with pytest.raises(KnnlmError, match="first reads text as other tokens: begin with a model"):
        train(prose.train, prose.valid, fewer, tmp_path / "fewer", initial_model=first)


def test_another_initial_model_is_another_run(tmp_path: Path, prose: Texts) -> None:
    prose.into(tmp_path / "first")
    with pytest.raises(KnnlmError, match="another"):
        train(
            prose.train,
            prose.valid,
            TINY,
            tmp_path / "first",
            initial_model=load_model(tmp_path / "first"),
        )
