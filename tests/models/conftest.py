"""A tiny Llama with a tokenizer, and texts to train on."""

from pathlib import Path
from typing import Any

import pytest
import torch

from knnlm.text import train_tokenizer
from tests.conftest import prose as sentences
from tests.hidden_states import models
from tests.training.conftest import prose as prose


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer([sentences(0, 400)], models.VOCABULARY)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
    """A folder with a tiny Llama."""
    folder = tmp_path_factory.mktemp("llama")
    models.make("Llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def ids(tokenizer: Any) -> torch.Tensor:
    tokens: torch.Tensor = tokenizer("the cat sat on a mat.\n", return_tensors="pt").input_ids
    return tokens
