"""Claims with paper, ours and verdict side by side: one line for each topic.

A topic is one claim, mixed in up to four ways: at τ = 1 or one τ for all, as the paper compares,
each at its own τ, and over the calibrated LM.
"""

from collections.abc import Iterable, Sequence

from knnlm.report.document import Cell, Column, Table
from knnlm_paper.claims import Finding, Findings
from knnlm_paper.report.changes import change_cell, paper_change, verdict_cell

MOST_ROWS = 25
_NOTES = {
    "difference": "Of the place: by how much perplexity per token is higher in the last third of "
    "the places than in the first.",
    "share": "Of tokens that can win: the share of the vocabulary that cannot.",
    "slope": "Of words: the slope of the share that an index helps more than exact search does.",
}
"""What is in a line that is no change of perplexity, by its unit."""
_COLUMNS = (
    "claim",
    "paper",
    "here, at one τ for all",
    "here, each at its own τ",
    "here, over the calibrated LM",
    "verdict",
)


def topics(findings: Iterable[Finding]) -> list[str]:
    """The topics of findings, each once."""
    return list(dict.fromkeys(finding.claim.topic for finding in findings))


def topics_table(findings: Findings, wanted: Sequence[str]) -> Table:
    """One line for each topic of which something was measured.

    The verdict is that of each condition at its own τ, where there is one; where the comparison at
    one τ says otherwise, both are given.

    Raises:
        UsageError: No claim has one of the topics.
    """
    rows = [row for topic in wanted if (row := _row(findings, topic)) is not None]
    units = {finding.claim.unit for topic in wanted for finding in findings.of_topic(topic)}
    note = " ".join(text for unit, text in _NOTES.items() if unit in units)
    return Table(tuple(Column(name) for name in _COLUMNS), tuple(rows), note)


def _row(findings: Findings, topic: str) -> tuple[Cell, ...] | None:
    every = findings.of_topic(topic)
    measured = {
        "" if f.claim.at is None else f.claim.at.id: f for f in every if f.verdict != "not measured"
    }
    if not measured:
        return None
    one = measured.get("one-tau") or measured.get("tau-1")
    own = measured.get("own-tau") or measured.get("")
    calibrated = measured.get("calibrated")
    paper = next((f.claim.paper for f in every if f.claim.paper is not None), None)
    decided = own or one or calibrated
    assert decided is not None
    return (
        Cell(decided.claim.sentence.removesuffix("."), decided.claim.topic),
        Cell(paper_change(paper)),
        *(change_cell(finding) for finding in (one, own, calibrated)),
        _verdict(one, decided),
    )


def _verdict(one: Finding | None, decided: Finding) -> Cell:
    cell = verdict_cell(decided)
    if one is not None and one is not decided and one.verdict != decided.verdict:
        return cell._replace(note=f"at one τ for all: {one.verdict}")
    return cell
