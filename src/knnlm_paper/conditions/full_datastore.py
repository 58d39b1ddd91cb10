"""All rows of a store vote: the record of an Unmasked row.

τ is found on validation text, for the LM and for the calibrated one; everything is reported on test
text."""

from typing import Any

import numpy as np

from knnlm.components.full_datastore import FullDatastore
from knnlm.evaluation.metrics import helping, perplexity
from knnlm.evaluation.mixing import mix, oracle
from knnlm.evaluation.tuning import RememberedScores, best_temperature
from knnlm.experiments.workspace import SearchData
from knnlm_paper.numbers import Base, Sums, base_numbers, or_none
from knnlm_paper.rows import Unmasked

_PRECISION = 1.1
"""Of τ: steps of a quarter octave, since every further one is a pass over all rows."""


def unmasked(row: Unmasked, m: SearchData, base: Base) -> dict[str, Any]:
    """τ, λ and perplexities over both LMs."""
    component = FullDatastore(m.store, row.state, row.metric)
    lms = {
        "tuned": (base.valid, base.test),
        "on_calibrated": (base.calibrated_valid, base.calibrated_test),
    }
    scores = RememberedScores(component.target_scores(m.valid))
    points = {
        name: best_temperature(valid, scores, precision=_PRECISION)
        for name, (valid, _) in lms.items()
    }
    taus = [point.tau for point in points.values()]
    test = component.target_scores(m.test).several(taus)
    sums = Sums(m, base)
    record: dict[str, Any] = {"base": base_numbers(base, m), "rows": m.store.count}
    for (name, point), votes in zip(points.items(), test, strict=True):
        test_lm = lms[name][1]
        mixed = mix(test_lm, votes, point.lam)
        record[name] = {
            "temperature": point.tau,
            "lambda": point.lam,
            "valid_ppl": point.ppl,
            "ppl": or_none(perplexity(mixed)),
            "alone_ppl": or_none(perplexity(votes)),
            "oracle": perplexity(oracle(test_lm, votes)),
            "helping": helping(test_lm, votes),
            "coverage": float(np.isfinite(votes).mean()),
        }
        sums.add(name, mixed)
    return {**record, "documents": sums.found}
