"""The neighbor cache: searched once, reused where it may be, never where it may not."""

import numpy as np
import pytest

import knnlm.search.cache as cache
import knnlm.search.open as opening
from knnlm.datastore.entries import Entries
from knnlm.errors import UsageError
from knnlm.files import fingerprint
from knnlm.search.cache import cached_neighbors
from knnlm.search.exact import exact_search
from knnlm.search.index import open_index
from knnlm.search.index_building import build_index
from knnlm.search.retrieval import Retrieval


class Counter:
    """Counts calls of the exact search."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        real = exact_search

        def counted(*args: object) -> object:
            self.calls += 1
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(opening, "exact_search", counted)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    return Counter(monkeypatch)


def test_neighbors_are_those_of_the_search(store: Entries, queries: Entries) -> None:
    cached = cached_neighbors(store, queries, Retrieval(key="ffn", metric="ip", k=30)).read(
        0, queries.count
    )
    truth = exact_search(queries.key("ffn").all(), store.key("ffn"), 30, "ip")
    assert np.array_equal(cached.ids, truth.ids)
    assert np.array_equal(cached.scores, truth.scores)


def test_the_same_search_is_not_run_twice(
    store: Entries, queries: Entries, counter: Counter
) -> None:
    for k in (40, 40, 7, 1):
        assert cached_neighbors(store, queries, Retrieval(k=k)).read(0, 3).ids.shape == (3, k)
    assert counter.calls == 1


def test_exact_scores_of_an_index_use_its_search_again(
    store: Entries, queries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index(store, "att", "l2", factory="IVF8,PQ4x4np", nprobe=3, recall=0)
    calls = []

    def opened(of: Entries, name: str) -> object:
        calls.append(name)
        return open_index(of, name)

    monkeypatch.setattr(opening, "open_index", opened)
    by_index = cached_neighbors(
        store, queries, Retrieval(index=index.name, score="index", k=12)
    ).read(0, queries.count)
    rescored = cached_neighbors(
        store, queries, Retrieval(index=index.name, score="exact", k=12)
    ).read(0, queries.count)
    assert len(calls) == 1
    assert np.array_equal(np.sort(by_index.ids, axis=1), np.sort(rescored.ids, axis=1))
    direct = opening.open_search(store, Retrieval(index=index.name, score="exact", k=12))(
        queries.key("att").all()
    )
    assert np.array_equal(rescored.ids, direct.ids)
    assert np.array_equal(rescored.scores, direct.scores)


def test_another_key_metric_or_larger_k_is_another_search(
    store: Entries, queries: Entries, counter: Counter
) -> None:
    for other in (
        Retrieval(k=9),
        Retrieval(k=9, key="ffn"),
        Retrieval(k=9, metric="ip"),
        Retrieval(k=10),
    ):
        cached_neighbors(store, queries, other)
    assert counter.calls == 4


def test_caches_of_earlier_versions_are_still_used(store: Entries, queries: Entries) -> None:
    """Their names were made when exact search was a "mask" with "real" scores."""
    index = build_index(store, "att", "l2", factory="Flat")
    seen = {"store": store.fingerprint, "queries": queries.fingerprint}
    seen |= {"key": "att", "metric": "l2"}
    exact = {"mask": "exact", "nprobe": None}
    approximate = {"mask": index.manifest["xxh3"], "nprobe": index.manifest["nprobe"]}
    for wanted, spelled in (
        (Retrieval(k=3), exact | {"score": "real"}),
        (Retrieval(index=index.name, score="index", k=3), approximate | {"score": "search"}),
        (Retrieval(index=index.name, score="exact", k=3), approximate | {"score": "real"}),
    ):
        cached_neighbors(store, queries, wanted)
        name = f"{fingerprint(seen | spelled)}-k3"
        assert (store.path / "cache" / "neighbors" / name / "manifest.json").is_file()


def test_an_interrupted_search_resumes(
    store: Entries, queries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_QUERIES_PER_COMMIT", 100)
    whole = exact_search(queries.key("att").all(), store.key("att"), 5, "l2")
    real, calls = exact_search, []

    def stops_at_the_third(*args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "exact_search", stops_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        cached_neighbors(store, queries, Retrieval(k=5))
    resumed = cached_neighbors(store, queries, Retrieval(k=5)).read(0, queries.count)
    assert len(calls) == 1 + -(-queries.count // 100)
    assert np.array_equal(resumed.ids, whole.ids)


def test_exact_scores_keep_the_neighbors_and_change_the_scores(
    store: Entries, queries: Entries
) -> None:
    index = build_index(store, "att", "l2", factory="IVF16,PQ4x4np", nprobe=4, recall=0)
    by_index = cached_neighbors(
        store, queries, Retrieval(index=index.name, score="index", k=20)
    ).read(0, 50)
    rescored = cached_neighbors(
        store, queries, Retrieval(index=index.name, score="exact", k=20)
    ).read(0, 50)
    assert np.array_equal(np.sort(rescored.ids), np.sort(by_index.ids))
    states, rows = (
        queries.key("att").read(0, 50).astype(np.float64),
        store.key("att").all().astype(np.float64),
    )
    truth = -((states[:, None] - rows[rescored.ids]) ** 2).sum(-1)
    np.testing.assert_allclose(rescored.scores, truth, rtol=1e-4, atol=1e-4)
    assert not np.allclose(rescored.scores, by_index.scores, atol=1e-3)


def test_exact_scores_of_fewer_neighbors_are_not_the_head_of_those_of_more(
    store: Entries, queries: Entries
) -> None:
    """mask-to-k comes before the score: the best 5 of 50 by exact score are not the 5 that the
    index would keep."""
    index = build_index(store, "att", "l2", factory="IVF16,PQ4x4np", nprobe=4, recall=0)
    cached_neighbors(store, queries, Retrieval(index=index.name, score="exact", k=50))
    small = cached_neighbors(store, queries, Retrieval(index=index.name, score="exact", k=5)).read(
        0, 50
    )
    by_index = index.search(queries.key("att").read(0, 50), 5)
    assert np.array_equal(np.sort(small.ids), np.sort(by_index.ids))


def test_an_index_of_another_metric_or_key_is_refused(store: Entries, queries: Entries) -> None:
    index = build_index(store, "att", "l2", factory="Flat")
    with pytest.raises(UsageError, match="is for att states and metric l2, not att and ip"):
        cached_neighbors(store, queries, Retrieval(metric="ip", index=index.name, k=5))
    with pytest.raises(UsageError, match="is for att states and metric l2, not ffn and l2"):
        cached_neighbors(store, queries, Retrieval(key="ffn", index=index.name, k=5))
