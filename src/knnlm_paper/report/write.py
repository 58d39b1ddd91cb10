"""A results folder → its report."""

from pathlib import Path
from typing import Any, NamedTuple

from knnlm.files import finite, write_bytes
from knnlm.report import html, markdown
from knnlm.report.document import Document, Figure, Paragraph
from knnlm.report.svg import standalone
from knnlm_paper.claims import Finding, Findings, all_findings
from knnlm_paper.report.changes import with_interval
from knnlm_paper.report.csv_files import csv_files
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.sections import all_sections, scope
from knnlm_paper.results import Results
from knnlm_paper.scales import Scale

MARKDOWN, PAGE, FIGURES, CSV = "RESULTS.md", "results.html", "figures", "csv"
_INTRODUCTION = (
    "Made from the records by `knnlm reproduce --report`. What it means is in "
    "[why.md](../../why.md).",
    "A change in a table is of test perplexity per word, as the paper's are, where the table does "
    "not say otherwise, and in a figure per token, with a 95 % interval from a paired bootstrap "
    "over documents; minus is better. "
    "*At one τ for all* is how the paper compares: at the τ that is best for its own setting. A "
    "claim does not hold where its effect is surely below its margin (0.5 %, or half of the "
    "paper's effect where that is smaller), holds where else the whole interval is on its side "
    "and the seeds agree, and is undecided otherwise. Claims that two things are alike hold "
    "where the interval lies within the margin. Intervals know nothing of other LMs, texts or "
    "indexes. Ids of claims are in brackets.",
)


class Report(NamedTuple):
    """Where the report is, and its findings for other programs and for the terminal."""

    markdown: Path
    page: Path
    findings: list[dict[str, Any]]
    lines: list[str]


def write_report(folder: Path, scale: Scale) -> Report:
    """Write everything that the records of a folder say.

    Raises:
        KnnlmError: The folder holds no results, or those of another scale.
    """
    results = Results.open(folder, scale)
    findings = all_findings(results)
    for name, text in render(results, findings).items():
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        write_bytes(file, text.encode())
    measured = [f for f in findings.values() if f.verdict != "not measured"]
    lines = [f"{f.verdict:14} {_shown(f):32} {f.claim.statement}" for f in measured]
    fields = [_fields(finding) for finding in findings.values()]
    return Report(folder / MARKDOWN, folder / PAGE, fields, lines)


def render(results: Results, findings: Findings) -> dict[str, str]:
    """The text of every file of a report, by name."""
    evidence = Evidence(results, findings)
    toy = "This scale is a toy that shows the way: read nothing into its numbers."
    notes = [toy] if results.scale.name == "smoke" else []
    introduction = [*notes, *_INTRODUCTION, *filter(None, [scope(results)])]
    document = Document(
        f"Why do nearest-neighbor language models work? Results at scale {results.scale.name}",
        tuple(all_sections(evidence)),
        introduction=tuple(Paragraph(text) for text in introduction),
    )
    drawn = {
        f"{FIGURES}/{block.name}.svg": standalone(block.svg)
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Figure)
    }
    tables = {f"{CSV}/{name}": text for name, text in csv_files(evidence).items()}
    return {
        MARKDOWN: markdown.render(document, FIGURES),
        PAGE: html.render(document),
        **drawn,
        **tables,
    }


def _shown(finding: Finding) -> str:
    if finding.claim.unit != "%":
        return f"{finding.effect:+.4f}"
    return with_interval(finding.per_word)


def _fields(finding: Finding) -> dict[str, Any]:
    claim = finding.claim
    return finite(
        {
            "id": claim.id,
            "claim": claim.statement,
            "source": claim.source,
            "verdict": finding.verdict,
            "effect": finding.effect,
            "low": finding.low,
            "high": finding.high,
            "seeds": list(finding.seeds),
            "paper": claim.paper,
        }
    )
