"""A datastore of a tiny model, and queries to it."""

import shutil
from pathlib import Path

import pytest

from knnlm.api import Datastore
from knnlm.datastore.entries import Entries, open_entries
from knnlm.models.load import LanguageModel


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel, texts: dict[str, Path]
) -> Path:
    out = tmp_path_factory.mktemp("search") / "store"
    Datastore.build(lm, texts["train"], out)
    return out


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Entries:
    """A copy of its own for every test: indexes and caches are written into it."""
    shutil.copytree(built, tmp_path / "store")
    return open_entries(tmp_path / "store")


@pytest.fixture
def queries(store: Entries, lm: LanguageModel, texts: dict[str, Path]) -> Entries:
    return Datastore(store, lm).queries(texts["valid"])
