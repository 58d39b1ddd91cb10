"""Every claim checked against the records of a scale, by where it comes from."""

from collections.abc import Sequence
from typing import NamedTuple

from knnlm_paper.beyond_claims import beyond_claims
from knnlm_paper.claims import claims
from knnlm_paper.doubts import audit, doubts
from knnlm_paper.findings import Finding, check
from knnlm_paper.learned_claims import learned_claims
from knnlm_paper.place_findings import place_findings, stolen_findings
from knnlm_paper.results import Results
from knnlm_paper.ruled_claims import ruled_claims
from knnlm_paper.word_findings import word_findings


class Findings(NamedTuple):
    """Of the paper's claims, a sceptic's doubts and the audit; of the paper's claims about
    substitutes, and ours; of the hypotheses that it ruled out."""

    paper: list[Finding]
    sceptic: list[Finding]
    audit: list[Finding]
    learned: list[Finding]
    beyond: list[Finding]
    ruled_out: list[Finding]

    def all(self) -> list[Finding]:
        """In order."""
        return [
            *self.paper,
            *self.sceptic,
            *self.audit,
            *self.learned,
            *self.beyond,
            *self.ruled_out,
        ]


def all_findings(results: Results) -> Findings:
    """Every claim checked."""
    paper, sceptic, audited, learned, beyond, ruled = (
        [check(c, results, results.scale.seeds) for c in make(results.scale)]
        for make in (claims, doubts, audit, learned_claims, beyond_claims, ruled_claims)
    )
    ruled += [*place_findings(results), *stolen_findings(results)]
    return Findings([*paper, *word_findings(results)], sceptic, audited, learned, beyond, ruled)


def measured(found: Sequence[Finding]) -> list[Finding]:
    """Those that have rows."""
    return [f for f in found if f.verdict != "not measured"]
