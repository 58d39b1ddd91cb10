"""What titles and sentences rely on: results, their findings, and the same effects in every LM.

A title or a sentence that says what came out has a check here. Where the check fails, a title says
what is drawn instead (messages.py), and docs/write.py refuses to write the sentence."""

import itertools
from collections.abc import Sequence
from functools import cached_property

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.claims import Change, Finding, Findings, Verdict, all_findings
from knnlm_paper.claims.skeptic import other_index_claims
from knnlm_paper.report.regimes import Regime, all_regimes
from knnlm_paper.results import Results


class Evidence:
    """Results and what they say.

    Args:
        results: The results.
        findings: Theirs; decided here where they are not given.
    """

    def __init__(self, results: Results, findings: Findings | None = None) -> None:
        self.results = results
        self.findings = all_findings(results) if findings is None else findings

    @cached_property
    def regimes(self) -> list[Regime]:
        """Every LM and stage of training that was measured."""
        return all_regimes(self.results)

    @property
    def other_indexes(self) -> list[Finding]:
        """Each further index against exact search."""
        return [self.findings[claim.id] for claim in other_index_claims(self.results.scale)]

    def have(self, verdict: Verdict, *ids: str) -> bool:
        """Whether all of these claims have the verdict."""
        return all(self.findings[each].verdict == verdict for each in ids)

    def hold(self, *ids: str) -> bool:
        """Whether all of these claims hold."""
        return self.have("holds", *ids)

    def fail(self, *ids: str) -> bool:
        """Whether none of these claims holds."""
        return self.have("does not hold", *ids)

    def behind(self, claim_id: str) -> bool:
        """Whether a claim's effect is surely reversed: its change lies above zero."""
        return self.findings[claim_id].per_token.low > 0

    def level(self, claim_id: str) -> bool:
        """Whether nothing is surely ahead: the interval of a claim's effect includes zero."""
        change = self.findings[claim_id].per_token
        return change.low <= 0 <= change.high

    def alike(self, one: str, other: str) -> bool:
        """Whether the effects of two claims lie in each other's intervals."""
        a, b = self.findings[one].per_token, self.findings[other].per_token
        return _within(a.value, b) and _within(b.value, a)

    def lms_ahead(self, effect: str) -> list[Checkpoint]:
        """The LMs in which an effect surely lowers perplexity; `effect` is a field of `Regime`."""
        return [r.lm for r in self.regimes if getattr(r, effect).per_token.high < 0]

    def no_index_ahead(self) -> bool:
        """Whether neither the paper's kind of index, in any LM, nor a further one beats exact
        search."""
        measured = [f.per_token.high >= 0 for f in self.other_indexes]
        return bool(self.regimes) and not self.lms_ahead("by_index") and all(measured)

    def gain_falls_with_width(self) -> bool:
        """Whether neighbors gain less over the calibrated LM the wider it is."""
        return self._falls([Checkpoint(lm) for lm in self.results.scale.widths])

    def gain_falls_with_training(self) -> bool:
        """Whether neighbors gain less over the calibrated LM the longer it was trained, as long as
        its validation loss falls."""
        kept: dict[str, list[Checkpoint]] = {}
        for lm, step in sorted(self.results.scale.checkpoints):
            kept.setdefault(lm, []).append(Checkpoint(lm, step))
        best = {lm: [Checkpoint(lm)] if lm in self.results.scale.widths else [] for lm in kept}
        courses = [[*points, *best[lm]] for lm, points in kept.items()]
        return all(self._falls(course) for course in courses if len(course) > 1)

    def _falls(self, course: Sequence[Checkpoint]) -> bool:
        """Each gains less than the one before, and the last surely less than the first."""
        every = {regime.lm: regime.over_calibrated.per_token for regime in self.regimes}
        if any(point not in every for point in course):
            return False
        changes = [every[point] for point in course]
        in_order = all(a.value < b.value for a, b in itertools.pairwise(changes))
        return in_order and changes[0].high < changes[-1].low


def _within(value: float, interval: Change) -> bool:
    return interval.low <= value <= interval.high
