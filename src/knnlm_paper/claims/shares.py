"""How much of the neighbors' gain something else has, with its interval.

    share = Σ (log P_other - log p_base) / Σ (log P_kNN - log p_base)          over the test text

Documents are drawn with replacement, the same draws above and below. Knows records only.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm_paper.conditions import KNN, PaperCondition
from knnlm_paper.results import Results


class Effect(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


NOT_MEASURED = Effect(math.nan, math.nan, math.nan)


def share_of_gain(
    results: Results,
    conditions: Sequence[PaperCondition[Any]],
    knn: KNN,
    field: str = "own_tau",
    base: str = "base",
    whole: str | None = None,
) -> Effect:
    """Of several seeds of one thing, averaged document by document; `field` and `base` as in the
    records' sums, `whole` the neighbors' field where it is another. No number where the neighbors
    may have gained nothing."""
    have = [c for c in conditions if results.log_likelihoods(c, field) is not None]
    if not have or knn not in results:
        return NOT_MEASURED
    tokens = np.asarray(results.document_tokens(knn), np.float64)
    gain = np.mean([_gained(results, c, field, base) for c in have], axis=0)
    all_of_it = _gained(results, knn, whole or field, base)
    below = bootstrap_means(all_of_it, tokens)
    if below.min() <= 0:
        return NOT_MEASURED
    interval = interval_95(bootstrap_means(gain, tokens) / below)
    return Effect(float(gain.sum() / all_of_it.sum()), *interval)


def _gained(results: Results, condition: PaperCondition[Any], field: str, base: str) -> Any:
    mixed, alone = (results.log_likelihoods(condition, point) for point in (field, base))
    return np.subtract(mixed or (), alone or ())


def share_of_calibration(results: Results, knn: KNN) -> Effect:
    """What the LM's own temperature and a unigram share gain, without anything retrieved or
    learned."""
    return share_of_gain(results, [knn], knn, "calibrated", "base", "own_tau")
