"""A datastore that tests of the objects share."""

from pathlib import Path

import pytest

from knnlm import KNNLM, Datastore


@pytest.fixture
def store(tuned_store: Path) -> Datastore:
    """A tuned datastore; nobody may change it."""
    return Datastore.open(tuned_store)


@pytest.fixture
def model(store: Datastore) -> KNNLM:
    return KNNLM(store)
