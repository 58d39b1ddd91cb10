"""The whole of `knnlm reproduce all --scale smoke`, run once for all tests, with its searches
counted."""

import fcntl
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import knnlm.search.cache as cache
import knnlm.search.open as opening
from knnlm.cli.main import run
from knnlm.datastore.entries import Entries
from knnlm.search.open import Search
from knnlm.search.retrieval import Retrieval
from knnlm_paper.results import Results
from knnlm_paper.scales import SMOKE_SCALE, Scale
from tests.search.conftest import built as built
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store


class Smoke(NamedTuple):
    """The results folder, its results, and how often each search was run."""

    folder: Path
    scale: Scale
    results: Results
    searches: list[tuple[list[Any], int]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever looks at the smoke run waits for all of it."""
    for item in items:
        if "smoke" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.pipeline)


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """Nobody may change it. Several workers share one run: the second waits for the first."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    shared = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    folder, counted = shared / "reproduce-smoke", shared / "reproduce-searches.json"
    with (shared / "reproduce.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not counted.is_file():
            counted.write_text(json.dumps(_run(folder)))
    searches = [(what, times) for what, times in json.loads(counted.read_text())]
    return Smoke(folder, SMOKE_SCALE, Results.open(folder, SMOKE_SCALE), searches)


def _run(folder: Path) -> list[tuple[list[Any], int]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    real = opening.open_search

    def counting(store: Entries, what: Retrieval) -> Search:
        counts[str(store.path), what.key, what.metric, what.search_name] += 1
        return real(store, what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "open_search", counting)
        assert run(["reproduce", "all", "--scale", "smoke", "--out", str(folder), "--json"]) == 0
    return [(list(what), times) for what, times in counts.items()]
