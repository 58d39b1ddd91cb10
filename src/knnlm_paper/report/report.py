"""A results folder → RESULTS.md, results.html and figures/: which section holds what, in which
order."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from knnlm.files import finite, write_bytes
from knnlm.report import html, markdown
from knnlm.report.document import Block, Document, Figure, Paragraph, Section, Table
from knnlm_paper.conditions import KNN
from knnlm_paper.findings import Finding
from knnlm_paper.report import lm_tables, sections, tables, words
from knnlm_paper.report.answer import answer
from knnlm_paper.report.checks import all_findings, measured
from knnlm_paper.report.finding_tables import findings_table
from knnlm_paper.report.formats import section
from knnlm_paper.report.making import making
from knnlm_paper.results import Results
from knnlm_paper.retrieval import paper_retrieval
from knnlm_paper.scales import Scale

MARKDOWN, PAGE, FIGURES = "RESULTS.md", "results.html", "figures"
_GENERATED = "Generated from the records by `knnlm reproduce`; edit nothing here."
_EFFECT = (
    "An effect is a relative difference of test perplexity per word, as the paper's are: the share "
    "by which the worse "
    "exceeds the better, with a 95 % interval from a paired bootstrap over documents. A claim does "
    "not hold where the "
    "interval lies below its margin (+0.5 %, or half the paper's own effect where that is "
    "smaller), holds where it "
    "else lies above zero and the seeds agree, and is undecided otherwise. Claims that two things "
    "differ little hold "
    "where the interval lies within their margin, claims that something does not help where it "
    "lies below the margin, "
    "and fail where it else lies above zero. Claims about places compare perplexity per token in "
    "the last third of the "
    "places with the first, with a margin of 1 %. The interval knows nothing of other LMs, indexes "
    "or draws. "
    "Perplexities in tables are per token, changes (vs base, vs calibrated) per word."
)


class Report(NamedTuple):
    """Where the report is, and its findings for other programs and for the terminal."""

    markdown: Path
    page: Path
    findings: list[dict[str, Any]]
    lines: list[str]


def write_report(folder: Path, scale: Scale) -> Report:
    """Write everything that the records of `folder` say."""
    results = Results.open(folder, scale)
    files = render(results)
    (folder / FIGURES).mkdir(exist_ok=True)
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    found = all_findings(results)
    lines = [
        f"{f.verdict:14} {words.numbers(f)}  {f.claim.name}"
        for f in found.all()
        if f.verdict != "not measured"
    ]
    return Report(folder / MARKDOWN, folder / PAGE, [_fields(f) for f in found.all()], lines)


def render(results: Results) -> dict[str, str]:
    """The text of every file of a report, by name."""
    document = Document(
        f"Why do nearest-neighbour language models work? Scale {results.scale.name}",
        tuple(content(results)),
        introduction=(Paragraph(_GENERATED),),
    )
    drawn = {
        f"{FIGURES}/{block.name}.svg": block.svg
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Figure)
    }
    return {MARKDOWN: markdown.render(document, FIGURES), PAGE: html.render(document), **drawn}


def readme(folder: Path, scale: Scale, figures: str) -> str:
    """The answer alone, as Markdown for a README that links figures from the folder `figures`."""
    results = Results.open(folder, scale)
    sections = answer(all_findings(results), results)
    return markdown.render_sections([s for s in sections if s.blocks], figures, "###")


def content(results: Results) -> list[Section]:
    """All sections; parts that have nothing to show are left out."""
    found = all_findings(results)
    every = [
        *answer(found, results),
        section("What was run", _setup(results)),
        section("How to read it", [_EFFECT]),
        section(
            "The paper's claims",
            [words.counts(found.paper), findings_table(measured(found.paper))],
        ),
        section("Table 1: which state, which similarity", sections.baselines_part(results)),
        section(
            "Table 3: approximate or exact, mask and score",
            [tables.recompute_table(results)],
        ),
        section("How large the store is", sections.sizes_part(results)),
        section("How peaky", sections.peaky_part(results)),
        section("Base LMs of other sizes", [lm_tables.models_table(results)]),
        section("Which words gain from approximation", sections.words_part(results)),
        section("When each reason holds", sections.regimes_part(results)),
        section("What a sceptic asks", sections.sceptic_part(results, found)),
        section("The audit: confounds in the paper's code", sections.audit_part(results, found)),
        *sections.substitutes_sections(results, found),
        *sections.ruled_out_sections(results, found),
        section("How it was made", making(results)),
    ]
    shown = [replace(s, blocks=tuple(b for b in s.blocks if not _empty(b))) for s in every]
    return [s for s in shown if s.blocks]


def _setup(results: Results) -> list[Block]:
    main = results.find(KNN(paper_retrieval(results.scale)))
    parts: list[Block] = []
    if main is not None:
        r, shape = main, results.scale.shape(paper_retrieval(results.scale).lm)
        portions = results.scale.portions
        source = (
            f"the first {portions.documents} articles"
            if portions.documents
            else "the training text"
        )
        cut_valid, cut_test = (
            f" the first {characters:,} characters of each document of" if characters else ""
            for characters in (portions.valid_characters, portions.test_characters)
        )
        drawn = "drawn at random from" if results.scale.queries else "of"
        parts.append(
            f"Text: {results.scale.text}. The base LMs are trained on {source} "
            f"({r.lm.train_tokens:,} tokens), which is "
            f"also what the store holds ({r.entries:,} rows). λ and τ are tuned on "
            f"{r.base.valid_tokens:,} "
            f"tokens {drawn}{cut_valid} the validation text, and everything is reported on "
            f"{r.base.tokens:,} tokens "
            f"(as many as {r.base.words:,} words, {len(r.documents.tokens)} documents) "
            f"{drawn}{cut_test} the "
            f"test text. k = {results.scale.k:,}. V = {shape.vocab_size:,} tokens and, but for LMs "
            "of another width, D = "
            f"{shape.width:,}. Training perplexity is that of the updates before, dropout on."
        )
    return [*parts, lm_tables.lms_table(results)]


def _empty(block: Block) -> bool:
    return isinstance(block, Table) and not block.rows


def _fields(f: Finding) -> dict[str, Any]:
    return finite(
        {
            "name": f.claim.name,
            "claim": f.claim.says,
            "where": f.claim.where,
            "verdict": f.verdict,
            "effect": f.effect,
            "low": f.low,
            "high": f.high,
            "seeds": list(f.seeds),
            "paper": f.claim.paper,
        }
    )
