"""A results folder → RESULTS.md, results.html and figures/: which section holds what, in which
order."""

from pathlib import Path
from typing import Any, NamedTuple

from knnlm.experiments.records import load_records
from knnlm.files import finite, write_bytes
from knnlm.paper.findings import Finding, Records
from knnlm.paper.present import sections, tables, words
from knnlm.paper.present.answer import answer
from knnlm.paper.present.checks import all_findings, measured
from knnlm.paper.present.content import Figure, Part, Section, Table
from knnlm.paper.present.making import making
from knnlm.paper.present.markdown import body, markdown
from knnlm.paper.present.page import page
from knnlm.paper.recipes.baselines import paper_arm
from knnlm.paper.runner import check_scale, with_known_models
from knnlm.paper.scales import Scale

MARKDOWN, PAGE, FIGURES = "RESULTS.md", "results.html", "figures"
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
    check_scale(folder, scale)
    scale = with_known_models(folder, scale)
    records = load_records(folder)
    files = render(records, scale)
    (folder / FIGURES).mkdir(exist_ok=True)
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    found = all_findings(records, scale)
    lines = [
        f"{f.verdict:14} {words.numbers(f)}  {f.claim.name}"
        for f in found.all()
        if f.verdict != "not measured"
    ]
    return Report(folder / MARKDOWN, folder / PAGE, [_fields(f) for f in found.all()], lines)


def render(records: Records, scale: Scale) -> dict[str, str]:
    """The text of every file of a report, by name."""
    found = content(records, scale)
    drawn = {
        f"{FIGURES}/{p.name}.svg": p.svg for s in found for p in s.parts if isinstance(p, Figure)
    }
    title = f"Why do nearest-neighbour language models work? Scale {scale.name}"
    return {MARKDOWN: markdown(title, found, FIGURES), PAGE: page(title, found), **drawn}


def readme(folder: Path, scale: Scale, figures: str) -> str:
    """The answer alone, as Markdown for a README that links figures from the folder `figures`."""
    records = load_records(folder)
    return body(
        [s for s in answer(all_findings(records, scale), records, scale) if s.parts], figures, "###"
    )


def content(records: Records, scale: Scale) -> list[Section]:
    """All sections; parts that have nothing to show are left out."""
    found = all_findings(records, scale)
    every = [
        *answer(found, records, scale),
        Section("What was run", _setup(records, scale)),
        Section("How to read it", [_EFFECT]),
        Section(
            "The paper's claims",
            [words.counts(found.paper), tables.findings_table(measured(found.paper))],
        ),
        Section("Table 1: which state, which similarity", sections.baselines_part(records, scale)),
        Section(
            "Table 3: approximate or exact, mask and score",
            [tables.recompute_table(records, scale)],
        ),
        Section("How large the store is", sections.sizes_part(records, scale)),
        Section("How peaky", sections.peaky_part(records, scale)),
        Section("Base LMs of other sizes", [tables.models_table(records, scale)]),
        Section("Which words gain from approximation", sections.words_part(records, scale)),
        Section("When each reason holds", sections.regimes_part(records, scale)),
        Section("What a sceptic asks", sections.sceptic_part(records, scale, found)),
        Section(
            "The audit: confounds in the paper's code", sections.audit_part(records, scale, found)
        ),
        *sections.substitutes_sections(records, scale, found),
        *sections.ruled_out_sections(records, scale, found),
        Section("How it was made", making(records, scale)),
    ]
    return [
        s._replace(parts=kept) for s in every if (kept := [p for p in s.parts if not _empty(p)])
    ]


def _setup(records: Records, scale: Scale) -> list[Part]:
    main = records.get(paper_arm(scale).name)
    parts: list[Part] = []
    if main is not None:
        r, shape = main["results"], scale.shape(paper_arm(scale).lm)
        portions = scale.portions
        source = (
            f"the first {portions.documents} articles"
            if portions.documents
            else "the training text"
        )
        cut_valid, cut_test = (
            f" the first {characters:,} characters of each document of" if characters else ""
            for characters in (portions.valid_characters, portions.test_characters)
        )
        drawn = "drawn at random from" if scale.eval_rows else "of"
        parts.append(
            f"Text: {scale.text}. The base LMs are trained on {source} "
            f"({r['lm']['train_tokens']:,} tokens), which is "
            f"also what the store holds ({r['rows']:,} rows). λ and τ are tuned on "
            f"{r['base']['valid_tokens']:,} "
            f"tokens {drawn}{cut_valid} the validation text, and everything is reported on "
            f"{r['base']['tokens']:,} tokens "
            f"(as many as {r['base']['words']:,} words, {len(r['documents']['tokens'])} documents) "
            f"{drawn}{cut_test} the "
            f"test text. k = {scale.k:,}. V = {shape.vocab_size:,} tokens and, but for LMs of "
            "another width, D = "
            f"{shape.width:,}. Training perplexity is that of the updates before, dropout on."
        )
    return [*parts, tables.lms_table(records)]


def _empty(part: Part) -> bool:
    return isinstance(part, Table) and not part.rows


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
