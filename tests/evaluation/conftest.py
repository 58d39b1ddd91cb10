"""A datastore of the tiny model, and two evaluation texts of it."""

from pathlib import Path

import pytest

from knnlm.api import Datastore
from knnlm.datastore.entries import Entries
from knnlm.models.load import LanguageModel


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel, texts: dict[str, Path]
) -> Datastore:
    """Nobody may change its entries or its settings; caches and an index are written into it."""
    path = tmp_path_factory.mktemp("evaluation") / "store"
    return Datastore.build(lm, texts["train"], path)


@pytest.fixture(scope="session")
def store(built: Datastore) -> Entries:
    return built.entries


@pytest.fixture(scope="session")
def valid(built: Datastore, texts: dict[str, Path]) -> Entries:
    return built.queries(texts["valid"])


@pytest.fixture(scope="session")
def unseen(built: Datastore, texts: dict[str, Path]) -> Entries:
    return built.queries(texts["test"])
