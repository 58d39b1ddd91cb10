"""Columns and lines of the CSV files that no record has alone: shares of the neighbors' gain,
tokens on which two settings agree, means over seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.typed_json import to_json
from knnlm_paper.claims.claim import PLAIN_AND_CALIBRATED
from knnlm_paper.claims.shares import share_of_gain
from knnlm_paper.conditions import KNN, PaperCondition
from knnlm_paper.measurement import VotesPoint
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval

Row = dict[str, Any]


def shares(results: Results, seeds: Sequence[PaperCondition[Any]]) -> Row:
    """The share that seeds of one condition have, on the mean, of what neighbors by att (exact
    search) gain for the same LM; no columns where that is not known."""
    knn = KNN(exactly(paper_retrieval(results.scale, *seeds[0].lm)))
    columns: Row = {}
    for at in PLAIN_AND_CALIBRATED:
        share = share_of_gain(results, seeds, knn, at.point, at.base)
        if not math.isnan(share.value):
            name = f"{at.point}.share_of_gain"
            columns[name], columns[f"{name}_low"], columns[f"{name}_high"] = share
    return columns


def overlaps(results: Results, condition: PaperCondition[Any]) -> Row:
    """At each τ the share of tokens on which it and the paper's setting (att, L2, index, at its
    best τ) agree whether neighbors or the LM give more probability; the paper's overlap."""
    paper = results.find(KNN(paper_retrieval(results.scale, *condition.lm)))
    if paper is None:
        return {}
    measured = vars(results.measurement(condition))
    points = {name: p for name, p in measured.items() if isinstance(p, VotesPoint)}
    tokens = paper.base.tokens
    theirs = _helped(paper.one_tau, tokens)
    return {
        f"{name}.overlap": float(np.mean(_helped(point, tokens) == theirs))
        for name, point in points.items()
    }


def _helped(point: VotesPoint, tokens: int) -> NDArray[np.uint8]:
    packed = np.frombuffer(bytes.fromhex(point.helped), np.uint8)
    return np.unpackbits(packed, count=tokens)


def mean_measurement(results: Results, seeds: Sequence[PaperCondition[Any]]) -> dict[str, Any]:
    """The measurement of several seeds as JSON, every number their mean; null where one is null."""
    mean: dict[str, Any] = _mean([to_json(results.measurement(seed)) for seed in seeds])
    return mean


def _mean(values: Sequence[Any]) -> Any:
    first = values[0]
    if all(value == first for value in values):
        return first
    if any(value is None for value in values):
        return None
    if isinstance(first, Mapping):
        return {name: _mean([value.get(name) for value in values]) for name in first}
    if isinstance(first, list):
        same = all(len(value) == len(first) for value in values)
        return [_mean(each) for each in zip(*values, strict=True)] if same else None
    return sum(values) / len(values) if isinstance(first, int | float) else None


def spread(results: Results, seeds: Sequence[PaperCondition[Any]]) -> Row:
    """The lowest and the highest perplexity of several seeds at each point."""
    columns: Row = {}
    for at in PLAIN_AND_CALIBRATED:
        ppls = [results.ppl(seed, at.point) for seed in seeds]
        columns |= {f"{at.point}.lowest_ppl": min(ppls), f"{at.point}.highest_ppl": max(ppls)}
    return columns
