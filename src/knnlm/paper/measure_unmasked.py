"""All rows of a store vote: the record of an Unmasked row.

τ is looked for on some of the validation text first, over a wide range in units of how much scores
differ, and then closely on all of it. Reported on test text, mixed with the LM and with the
calibrated one."""

from typing import Any

import numpy as np
import torch

from knnlm.components.full_datastore import full_datastore_logprobs
from knnlm.components.head import row_scores
from knnlm.datastore.entries import Entries
from knnlm.evaluation.metrics import evenly_spaced, helping, perplexity
from knnlm.evaluation.mixing import fit_lambda, mix, oracle
from knnlm.experiments.workspace import SearchData
from knnlm.paper.numbers import Base, Logs, Sums, base_numbers, or_none
from knnlm.paper.rows import Unmasked

_FACTORS = tuple(4.0**e for e in range(-6, 3))
_NEAR = tuple(2.0 ** (e / 4) for e in range(-4, 5))
_SOME = 512
_WIDENED = 3
"""Times that the range grows where the best τ is at an end of it: far out all are alike."""


def unmasked(
    row: Unmasked,
    m: SearchData,
    base: Base,
) -> dict[str, Any]:
    """τ, λ and perplexities over both LMs."""
    keys, tokens = m.store.key(row.state), m.store.targets

    def logs(queries: Entries, some: Any, taus: list[float]) -> Logs:
        states, targets = queries.key(row.state).all()[some], queries.targets[some]
        return full_datastore_logprobs(keys, tokens, states, targets, row.metric, taus)

    some = evenly_spaced(m.valid.count, _SOME)
    unit = _unit(
        keys.gather(evenly_spaced(m.store.count, _SOME)), m.valid.key(row.state).gather(some), row
    )
    coarse = [unit * factor for factor in _FACTORS]
    first = logs(m.valid, some, coarse)
    lms = {
        "tuned": (base.valid, base.test),
        "on_calibrated": (base.calibrated_valid, base.calibrated_test),
    }
    centres = {coarse[_best(valid[some], first)] for valid, _ in lms.values()}
    taus = sorted({centre * near for centre in centres for near in _NEAR})
    found = logs(m.valid, slice(None), taus)
    chosen = {name: _best(valid, found) for name, (valid, _) in lms.items()}
    for _ in range(_WIDENED):
        further = [
            taus[place] * (near if place else 1 / near)
            for place in {0, len(taus) - 1} & set(chosen.values())
            for near in _NEAR
            if near > 1
        ]
        if not further:
            break
        found = np.concatenate([found, logs(m.valid, slice(None), further)])
        taus = [*taus, *further]
        order = np.argsort(taus)
        taus, found = [taus[place] for place in order], found[order]
        chosen = {name: _best(valid, found) for name, (valid, _) in lms.items()}
    test = logs(m.test, slice(None), [taus[place] for place in chosen.values()])
    sums = Sums(m, base)
    record: dict[str, Any] = {"base": base_numbers(base, m), "rows": m.store.count}
    for (name, place), votes in zip(chosen.items(), test, strict=True):
        valid_lm, test_lm = lms[name]
        lam = fit_lambda(valid_lm, found[place])
        mixed = mix(test_lm, votes, lam)
        record[name] = {
            "temperature": taus[place],
            "lambda": lam,
            "valid_ppl": perplexity(mix(valid_lm, found[place], lam)),
            "ppl": or_none(perplexity(mixed)),
            "alone_ppl": or_none(perplexity(votes)),
            "oracle": perplexity(oracle(test_lm, votes)),
            "helping": helping(test_lm, votes),
            "coverage": float(np.isfinite(votes).mean()),
        }
        sums.add(name, mixed)
    return {**record, "documents": sums.found}


def _best(lm: Logs, votes: Logs) -> int:
    """Which of several τ mixes best with an LM."""
    return int(np.argmin([perplexity(mix(lm, v, fit_lambda(lm, v))) for v in votes]))


def _unit(stored: Any, asked: Any, row: Unmasked) -> float:
    """How much the scores of one query differ, as a standard deviation."""
    rows, queries = (torch.from_numpy(x.astype(np.float32)) for x in (stored, asked))
    found = float(row_scores(rows, queries, row.metric, 1.0).std(1, correction=0).mean())
    return found if found > 0 else 1.0
