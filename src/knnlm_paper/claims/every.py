"""Every claim and every finding, in order and by id."""

from collections.abc import Iterator, Mapping
from typing import Literal

from knnlm.errors import unknown
from knnlm_paper.claims.approximation import approximation_claims, temperature_claims
from knnlm_paper.claims.audit import audit_claims
from knnlm_paper.claims.beyond import beyond_claims
from knnlm_paper.claims.claim import Claim
from knnlm_paper.claims.deciding import Finding, decide
from knnlm_paper.claims.other_findings import (
    place_findings,
    reachable_findings,
    word_findings,
)
from knnlm_paper.claims.retrieval import model_claims, size_claims, state_claims
from knnlm_paper.claims.ruled_out import ruled_out_claims
from knnlm_paper.claims.skeptic import skeptic_claims
from knnlm_paper.claims.substitutes import substitute_claims
from knnlm_paper.results import Results
from knnlm_paper.scales import Scale

Group = Literal["retrieval", "skeptic", "audit", "substitutes", "beyond", "ruled out"]


def all_claims(scale: Scale) -> dict[Group, list[Claim]]:
    """Every claim that is a sum of log-likelihoods, by the question it belongs to."""
    return {
        "retrieval": [
            *state_claims(scale),
            *model_claims(scale),
            *size_claims(scale),
            *approximation_claims(scale),
            *temperature_claims(scale),
        ],
        "skeptic": skeptic_claims(scale),
        "audit": audit_claims(scale),
        "substitutes": substitute_claims(scale),
        "beyond": beyond_claims(scale),
        "ruled out": ruled_out_claims(scale),
    }


class Findings(Mapping[str, Finding]):
    """Findings by the ids of their claims, in order.

    An id that no claim has is an error; a claim that was not measured has a finding that says so.

    Args:
        groups: The findings on each question.
    """

    def __init__(self, groups: Mapping[Group, list[Finding]]) -> None:
        self.groups = dict(groups)
        every = [finding for group in self.groups.values() for finding in group]
        self._by_id = {finding.claim.id: finding for finding in every}
        self._by_topic: dict[str, list[Finding]] = {}
        for finding in every:
            self._by_topic.setdefault(finding.claim.topic, []).append(finding)
        if len(self._by_id) < len(every):
            ids = [finding.claim.id for finding in every]
            twice = sorted({each for each in ids if ids.count(each) > 1})
            raise ValueError(f"two claims have the id {twice[0]}")

    def __getitem__(self, claim_id: str) -> Finding:
        if claim_id not in self._by_id:
            listed = "csv/findings.csv of a report lists all ids"
            raise unknown("claim", claim_id, list(self._by_id), listed)
        return self._by_id[claim_id]

    def of_topic(self, topic: str) -> list[Finding]:
        """The findings on one topic, however its conditions are mixed.

        Raises:
            UsageError: No claim has it.
        """
        if topic not in self._by_topic:
            listed = "csv/findings.csv of a report lists all ids, which begin with topics"
            raise unknown("topic", topic, list(self._by_topic), listed)
        return self._by_topic[topic]

    def __contains__(self, claim_id: object) -> bool:
        return claim_id in self._by_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)


def all_findings(results: Results) -> Findings:
    """Every claim decided."""
    groups = {
        group: [decide(claim, results) for claim in claims]
        for group, claims in all_claims(results.scale).items()
    }
    groups["retrieval"] += word_findings(results)
    groups["ruled out"] += [*place_findings(results), *reachable_findings(results)]
    return Findings(groups)
