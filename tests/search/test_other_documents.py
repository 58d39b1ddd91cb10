"""Neighbors from other documents: the true ones among all entries but the document's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import knnlm.search.other_documents as module
from knnlm.datastore.entries import Entries
from knnlm.search.exact import exact_search
from knnlm.search.other_documents import neighbors_in_other_documents, without
from knnlm.similarity import METRICS, Metric
from tests.arrays import column


@given(st.integers(1, 30), st.integers(1, 4), st.data())
def test_rows_are_left_out_whatever_the_parts(rows: int, parts: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, rows))
    stop = data.draw(st.integers(start, rows))
    values = np.arange(rows, dtype=np.float32)[:, None]
    left = without(column(values, parts), start, stop)
    assert left.all()[:, 0].tolist() == [*range(start), *range(stop, rows)]


@pytest.mark.parametrize("queries", [7, 1000])
# every document alone, some together, all together
@pytest.mark.parametrize("short", [1, 60, 1000])
@pytest.mark.parametrize("metric", METRICS)
def test_every_entry_finds_the_nearest_of_other_documents(
    many: Entries, metric: Metric, short: int, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUERIES", queries)
    monkeypatch.setattr(module, "_SHORT", short)
    states = many.key("att").all()
    documents = many.table.columns["document"].all()
    assert len(np.unique(documents)) == 5
    seen = 0
    for first, near in neighbors_in_other_documents(many, "att", 6, metric):
        assert first == seen
        for row, ids, scores in zip(
            range(first, first + len(near.ids)), near.ids, near.scores, strict=True
        ):
            assert (documents[ids] != documents[row]).all()
            others = np.flatnonzero(documents != documents[row])
            truth = exact_search(states[row : row + 1], column(states[others]), 6, metric)
            assert np.array_equal(ids, others[truth.ids[0]])
            assert np.array_equal(scores, truth.scores[0])
        seen += len(near.ids)
    assert seen == many.count


def test_a_search_resumes_at_any_entry(many: Entries) -> None:
    whole = np.concatenate(
        [near.ids for _, near in neighbors_in_other_documents(many, "att", 3, "l2")]
    )
    for start in (1, 50, many.count - 1):
        rest = np.concatenate(
            [near.ids for _, near in neighbors_in_other_documents(many, "att", 3, "l2", start)]
        )
        assert np.array_equal(rest, whole[start:])


def test_more_neighbors_than_other_entries_are_missing(many: Entries) -> None:
    for _, near in neighbors_in_other_documents(many, "att", many.count, "l2"):
        assert ((near.ids < 0) == np.isneginf(near.scores)).all()
        assert (near.ids[:, -1] == -1).all()


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, lm: object) -> Entries:
    """A datastore of five short documents."""
    from knnlm.datastore.build import build_entries
    from knnlm.text.local_files import Files
    from tests.conftest import prose

    folder = tmp_path_factory.mktemp("many")
    paths = []
    for i in range(5):
        (folder / f"{i}.txt").write_text(prose(i, 2 + i))
        paths.append(folder / f"{i}.txt")
    return build_entries(lm, Files(tuple(paths)), folder / "store", part_rows=40)  # type: ignore[arg-type]
