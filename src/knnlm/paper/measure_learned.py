"""Rows without a search → their records: a substitute mixed with the LM, or several of them at once.

Every substitute is measured at the τ it was learned at, which is 1 as in the paper (for clusters learned further it is
the best τ of those they began as), and at its own best τ; mixed with the LM and with the calibrated LM; λ fitted on
validation text each time, everything reported on test text.
"""

from collections.abc import Callable
from typing import Any

from knnlm.learning.learn import states_of
from knnlm.learning.temperature import AtTau, at_best_tau, at_tau
from knnlm.metrics import helping, perplexity
from knnlm.mixture import fit_shares, mix, mix_all, oracle
from knnlm.paper.apprentice import Apprentice
from knnlm.paper.numbers import Base, Logs, Sums, base_numbers, or_none
from knnlm.paper.rows import Arm, Combined, Learned


class LearnedBench:
    """Measures learned rows. `base` gives an LM's own log p, `votes` log p of an arm's neighbours, each at its best."""

    def __init__(
        self,
        apprentice: Apprentice,
        base: Callable[[str, int | None], Base],
        votes: Callable[[Arm], tuple[Logs, Logs]],
    ) -> None:
        self.apprentice, self.base, self.votes = apprentice, base, votes

    def alone(self, row: Learned) -> dict[str, Any]:
        """One substitute."""
        base, m = self.base(*row.lm), self.apprentice.workshop.plain(*row.lm)
        taught = self.apprentice.taught(row)
        component, sums = taught.component, Sums(m, base)
        states = states_of(m.valid, component.keys)
        one = at_tau(component, component.tau, base.valid, states, m.valid.targets)
        best = at_best_tau(component, base.valid, states, m.valid.targets)
        over = at_best_tau(component, base.calibrated_valid, states, m.valid.targets)
        record: dict[str, Any] = {
            "base": base_numbers(base, m),
            "learned": {
                "parameters": taught.parameters, "multiplications": component.multiplications, "rate": taught.rate,
                "widths": taught.parameters / (m.store.vocab_size * m.store.key("ffn").type.width),
            },
        }  # fmt: skip
        if taught.fitted is not None:
            record["learned"] |= {
                "steps": taught.fitted.steps, "best_step": taught.fitted.best_step,
                "rates": self.apprentice.pilots(row),
            }  # fmt: skip
        for name, point in (("tau_1", one), ("tuned", best)):
            test = self.apprentice.logprobs(row, point.component, "test")
            mixed = mix(base.test, test, point.lam)
            record[name] = {
                **_knobs(point), "alone_valid_ppl": or_none(perplexity(point.logprobs)),
                "alone_ppl": or_none(perplexity(test)), "ppl": perplexity(mixed),
                "oracle": perplexity(oracle(base.test, test)), "helping": helping(base.test, test),
            }  # fmt: skip
            sums.found[name] = sums.of(mixed)
            if or_none(float(test.sum())) is not None:
                sums.found[f"{name}_alone"] = sums.of(test)
        mixed = mix(base.calibrated_test, self.apprentice.logprobs(row, over.component, "test"), over.lam)
        record["on_calibrated"] = {**_knobs(over), "ppl": perplexity(mixed)}
        sums.found["on_calibrated"] = sums.of(mixed)
        return {**record, "documents": sums.found}

    def combined(self, row: Combined) -> dict[str, Any]:
        """Several at once: each at the τ that is best for it alone, all weights fitted together."""
        base, m = self.base(*row.lm), self.apprentice.workshop.plain(*row.lm)
        sums, valid, test = Sums(m, base), [], []
        parameters = multiplications = 0
        for part in row.parts:
            taught = self.apprentice.taught(part)
            states = states_of(m.valid, taught.component.keys)
            best = at_best_tau(taught.component, base.valid, states, m.valid.targets)
            valid.append(best.logprobs)
            test.append(self.apprentice.logprobs(part, best.component, "test"))
            parameters += taught.parameters
            multiplications += taught.component.multiplications
        if row.neighbours is not None:
            for logs, found in zip((valid, test), self.votes(row.neighbours), strict=True):
                logs.append(found)
        record: dict[str, Any] = {
            "base": base_numbers(base, m),
            "learned": {
                "parameters": parameters, "multiplications": multiplications,
                "widths": parameters / (m.store.vocab_size * m.store.key("ffn").type.width),
            },
        }  # fmt: skip
        for name, lm_valid, lm_test in (
            ("tuned", base.valid, base.test), ("on_calibrated", base.calibrated_valid, base.calibrated_test)
        ):  # fmt: skip
            shares = fit_shares([lm_valid, *valid])
            mixed = mix_all([lm_test, *test], shares)
            record[name] = {
                "shares": list(shares), "valid_ppl": perplexity(mix_all([lm_valid, *valid], shares)),
                "ppl": perplexity(mixed),
            }  # fmt: skip
            sums.found[name] = sums.of(mixed)
        return {**record, "documents": sums.found}


def _knobs(point: AtTau) -> dict[str, float]:
    return {"temperature": point.component.tau, "lambda": point.lam, "valid_ppl": point.ppl}
