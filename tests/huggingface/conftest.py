"""A text and a tokenizer for tiny models of any family, and the kNN-LM of one of them."""

from pathlib import Path
from typing import Any

import pytest

from knnlm.text.tokenizer import train_tokenizer
from tests.conftest import prose
from tests.hidden_states import models
from tests.huggingface.making import Made, knn_lm


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "train.txt"
    file.write_text(prose(0, 40))
    return file


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return train_tokenizer([prose(0, 400)], models.VOCABULARY)


@pytest.fixture(scope="session")
def made(text: Path, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The kNN-LM of a tiny Llama; nobody may change it."""
    return knn_lm(models.make("Llama"), tokenizer, text, tmp_path_factory.mktemp("llama") / "store")
