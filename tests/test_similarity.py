"""⊗ is decided in few places, and a metric that one of them does not know is an error there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from knnlm import equation, similarity
from knnlm.components import row_scores
from knnlm.datastore import Column, ColumnType
from knnlm.search import exact_search
from knnlm.search.faiss_index import faiss_metric
from knnlm.search.scores import score_row
from knnlm.similarity import Metric
from knnlm.training import ComponentSpec, initial_module

STATES = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
QUERIES = STATES[:3]
TYPE = ColumnType("<f4", 4)
PLACES: dict[str, Callable[[Metric], Any]] = {
    "equation": lambda m: equation.similarity(STATES.astype(float), QUERIES.astype(float), m),
    "scores": lambda m: score_row(m, QUERIES[0], np.arange(5), Column([STATES], TYPE)),
    "from_distance": lambda m: similarity.from_distance(m, QUERIES),
    "faiss": faiss_metric,
    "exact search": lambda m: exact_search(QUERIES, Column([STATES], TYPE), 2, m),
    "head": lambda m: row_scores(torch.from_numpy(STATES), torch.from_numpy(QUERIES), m, 1.0),
    "start of a head": lambda m: initial_module(ComponentSpec(metric=m), torch.from_numpy(STATES)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_metric_that_a_place_does_not_know_is_an_error(place: str) -> None:
    """Otherwise cosine, added to METRICS alone, would silently be searched as inner product."""
    with pytest.raises(AssertionError, match="cosine"):
        PLACES[place](cast(Metric, "cosine"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("metric", similarity.METRICS)
def test_every_place_knows_every_metric(place: str, metric: Metric) -> None:
    PLACES[place](metric)


def test_no_other_place_compares_a_metric() -> None:
    """An `if metric == …` has a silent else; `match` with assert_never has none."""
    root = Path(similarity.__file__).parent
    offenders = [
        f"{file.relative_to(root)}: {line.strip()}"
        for file in sorted(root.rglob("*.py"))
        for line in file.read_text().splitlines()
        if re.search(r'metric [!=]= ["\']', line) and "present" not in file.parts
    ]
    assert offenders == []
