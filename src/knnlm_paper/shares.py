"""How much of the neighbours' gain something else has, with its interval.

    share = Σ (log P_other - log p_base) / Σ (log P_kNN - log p_base)          over the test text

Documents are drawn with replacement, the same draws above and below. Knows records only.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from knnlm.evaluation.bootstrap import bootstrap_means, interval_95
from knnlm_paper.findings import Records


class Effect(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


NOT_MEASURED = Effect(math.nan, math.nan, math.nan)


def share_of_gain(
    records: Records,
    names: Sequence[str],
    knn: str,
    field: str = "tuned",
    base: str = "base",
    whole: str | None = None,
) -> Effect:
    """Of several seeds of one thing, averaged document by document; `field` and `base` as in the
    records' sums, `whole` the neighbours' field where it is another. No number where the neighbours
    may have gained nothing."""
    have = [
        name for name in names if name in records and field in records[name]["results"]["documents"]
    ]
    if not have or knn not in records:
        return NOT_MEASURED
    reference = records[knn]["results"]["documents"]
    tokens = np.asarray(reference["tokens"], np.float64)
    each = [records[name]["results"]["documents"] for name in have]
    gain = np.mean([np.subtract(d[field], d[base]) for d in each], axis=0)
    all_of_it = np.subtract(reference[whole or field], reference[base])
    below = bootstrap_means(all_of_it, tokens)
    if below.min() <= 0:
        return NOT_MEASURED
    interval = interval_95(bootstrap_means(gain, tokens) / below)
    return Effect(float(gain.sum() / all_of_it.sum()), *interval)


def share_of_calibration(records: Records, knn: str) -> Effect:
    """What the LM's own temperature and a unigram share gain, without anything retrieved or
    learned."""
    return share_of_gain(records, [knn], knn, "calibrated", "base", "tuned")
