"""Several LMs mixed, with and without neighbours: the record of an Ensemble row.

Mixed as they are, and with every LM calibrated on its own. Neighbours have the τ that is best beside the LMs' own
mixture; then all weights are fitted together. Tuned on validation text, reported on test text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from knnlm.errors import KnnlmError
from knnlm.metrics import helping, perplexity
from knnlm.mixture import fit_lambda, fit_shares, mix, mix_all, oracle
from knnlm.paper import taus
from knnlm.paper.numbers import Base, Logs, Sums, base_numbers, base_of, or_none
from knnlm.paper.rows import Arm, Ensemble
from knnlm.paper.workshop import Workshop


class EnsembleBench:
    """Measures ensembles; `base` gives the log p of a base LM. What was computed for another LM is kept."""

    def __init__(self, workshop: Workshop, base: Callable[[str, int | None], Base]) -> None:
        self.workshop, self.base = workshop, base
        self._others: dict[tuple[str, int | None], Base] = {}

    def measure(self, row: Ensemble) -> dict[str, Any]:
        """Weights and perplexities, and what is known of every other LM."""
        base, m = self.base(*row.lm), self.workshop.plain(*row.lm)
        others = [self._other(*lm) for lm in row.others]
        sums = Sums(m, base)
        record: dict[str, Any] = {
            "base": base_numbers(base, m),
            "others": [self._about(lm, base, other) for lm, other in zip(row.others, others, strict=True)],
        }
        for name in ("tuned", "on_calibrated"):
            lms = [_logs(b, name) for b in (base, *others)]
            valid, test = [v for v, _ in lms], [t for _, t in lms]
            for arm in row.neighbours:
                found = self._votes(arm, valid)
                valid, test = [*valid, found[0]], [*test, found[1]]
            shares = fit_shares(valid)
            mixed = mix_all(test, shares)
            record[name] = {
                "shares": list(shares), "valid_ppl": perplexity(mix_all(valid, shares)),
                "ppl": or_none(perplexity(mixed)),
            }  # fmt: skip
            sums.add(name, mixed)
        return {**record, "documents": sums.found}

    def _votes(self, arm: Arm, valid: Sequence[Logs]) -> tuple[Logs, Logs]:
        """log p of an arm's neighbours for both splits."""
        votes, test = self.workshop.votes(arm, "valid"), self.workshop.votes(arm, "test")
        tau = taus.best(mix_all(valid, fit_shares(valid)), votes).temperature
        return votes.logprobs(tau), test.logprobs(tau)

    def _other(self, lm: str, step: int | None) -> Base:
        """Another LM of the same tokenizer: its store is not needed, only the tokens of the text."""
        if (lm, step) not in self._others:
            main = self.workshop.plain("main", None)
            for mine, theirs in zip((main.valid, main.test), self.workshop.queries(lm, step), strict=True):
                if not np.array_equal(mine.targets, theirs.targets):
                    raise KnnlmError(f"{lm} reads the text as other tokens than main: only LMs of one tokenizer mix")
            self._others[lm, step] = base_of(self.workshop, lm, step, main.store.targets)
        return self._others[lm, step]

    def _about(self, lm: tuple[str, int | None], base: Base, other: Base) -> dict[str, Any]:
        lam = fit_lambda(base.valid, other.valid)
        return {
            "name": lm[0], "step": lm[1], **self.workshop.about(*lm),
            "ppl": perplexity(other.test), "calibrated_ppl": perplexity(other.calibrated_test), "lambda": lam,
            "mixed_ppl": perplexity(mix(base.test, other.test, lam)),
            "oracle": perplexity(oracle(base.test, other.test)), "helping": helping(base.test, other.test),
        }  # fmt: skip


def _logs(base: Base, name: str) -> tuple[Logs, Logs]:
    """An LM's log p of both splits, as it is or calibrated."""
    return (base.valid, base.test) if name == "tuned" else (base.calibrated_valid, base.calibrated_test)
