"""The datastore of a tiny model that tests of the search use, and the parts of an experiment."""

from pathlib import Path

import pytest

from knnlm.experiments import ExistingLM, Texts
from tests.experiments.coverage import texts_of
from tests.search.conftest import built as built
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store


@pytest.fixture(scope="session")
def prose(texts: dict[str, Path]) -> Texts:
    """The texts of every small experiment."""
    return texts_of(texts["train"].parent)


@pytest.fixture
def main_lm(tiny_model: Path) -> list[ExistingLM]:
    """The tiny model as the main LM of an experiment."""
    return [ExistingLM("main", str(tiny_model))]
