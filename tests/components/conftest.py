"""A small datastore of the tiny model with an index, and an evaluation text of it."""

import pytest

from knnlm.api import Datastore
from knnlm.datastore.entries import Entries
from knnlm.models.load import LanguageModel
from tests.conftest import prose


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory, lm: LanguageModel) -> Datastore:
    """A few hundred entries; nobody may change them, caches apart."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "train.txt").write_text(prose(7, 50))
    store = Datastore.build(lm, folder / "train.txt", folder / "store")
    store.build_index(key="att", factory="IVF8,Flat", nprobe=4)
    return store


@pytest.fixture(scope="session")
def store(small: Datastore) -> Entries:
    return small.entries


@pytest.fixture(scope="session")
def index(small: Datastore) -> str:
    return small.indexes[0]


@pytest.fixture(scope="session")
def valid(small: Datastore, tmp_path_factory: pytest.TempPathFactory) -> Entries:
    file = tmp_path_factory.mktemp("valid") / "valid.txt"
    file.write_text(prose(8, 12))
    return small.queries(file)
