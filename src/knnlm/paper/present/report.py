"""A results folder → RESULTS.md, results.html and figures/: which section holds what, in which order."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from knnlm.files import finite, write_bytes
from knnlm.paper.claims import claims
from knnlm.paper.doubts import audit, doubts
from knnlm.paper.findings import Finding, Records, check
from knnlm.paper.learned_claims import beyond_claims, learned_claims
from knnlm.paper.present import figures, regimes, shares, substitutes, tables, words
from knnlm.paper.present.content import Figure, Section, Table
from knnlm.paper.present.markdown import markdown
from knnlm.paper.present.page import page
from knnlm.paper.recipes import recipes, sceptic
from knnlm.paper.recipes import words as words_recipe
from knnlm.paper.recipes.audit import precision, sign, zeros
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.rows import Counts, Evaluate, Learned, Recipe, Words
from knnlm.paper.runner import check_scale, load_records, with_known_models
from knnlm.paper.scales import Scale
from knnlm.paper.shares import share_of_calibration, share_of_gain
from knnlm.paper.word_findings import word_findings

MARKDOWN, PAGE, FIGURES = "RESULTS.md", "results.html", "figures"
Part = str | Table | Figure
_EFFECT = (
    "An effect is a relative difference of test perplexity per word, as the paper's are: the share by which the worse "
    "exceeds the better, with a 95 % interval from a paired bootstrap over documents. A claim does not hold where the "
    "interval lies below its margin (+0.5 %, or half the paper's own effect where that is smaller), holds where it "
    "else lies above zero and the seeds agree, and is undecided otherwise. Claims that two things differ little hold "
    "where the interval lies within their margin, claims that something does not help where it lies below the margin, "
    "and fail where it else lies above zero. The interval knows nothing of other LMs, indexes or draws. "
    "Perplexities in tables are per token, changes (vs base, vs calibrated) per word."
)
_UNITS = (
    "τ has the unit of the scores, so τ = 1 means another peakiness for every LM, layer and width. In units of the "
    "spread of the neighbours' scores (the median over queries of best minus median score) temperatures compare."
)
_PROBED = (
    "The index of each size is the default for its rows, always with 32 lists probed: a small store has fewer lists, "
    "so a larger share of it is searched. The paper probed 32 of 4096 at every size. Recall at each size, one draw:"
)


class Report(NamedTuple):
    """Where the report is, and its findings for other programs and for the terminal."""

    markdown: Path
    page: Path
    findings: list[dict[str, Any]]
    lines: list[str]


class Findings(NamedTuple):
    """Of the paper's claims, a sceptic's doubts and the audit; of the paper's claims about substitutes, and ours."""

    paper: list[Finding]
    sceptic: list[Finding]
    audit: list[Finding]
    learned: list[Finding]
    beyond: list[Finding]

    def all(self) -> list[Finding]:
        """In order."""
        return [*self.paper, *self.sceptic, *self.audit, *self.learned, *self.beyond]


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
    lines = [f"{f.verdict:14} {words.numbers(f)}  {f.claim.name}" for f in found.all() if f.verdict != "not measured"]
    return Report(folder / MARKDOWN, folder / PAGE, [_fields(f) for f in found.all()], lines)


def render(records: Records, scale: Scale) -> dict[str, str]:
    """The text of every file of a report, by name."""
    sections = content(records, scale)
    drawn = {f"{FIGURES}/{p.name}.svg": p.svg for s in sections for p in s.parts if isinstance(p, Figure)}
    title = f"Why do nearest-neighbour language models work? Scale {scale.name}"
    return {MARKDOWN: markdown(title, sections, FIGURES), PAGE: page(title, sections), **drawn}


def all_findings(records: Records, scale: Scale) -> Findings:
    """Every claim checked."""
    paper, sceptic, audited, learned, beyond = (
        [check(c, records, scale.seeds) for c in make(scale)]
        for make in (claims, doubts, audit, learned_claims, beyond_claims)
    )
    return Findings([*paper, *word_findings(records, scale)], sceptic, audited, learned, beyond)


def content(records: Records, scale: Scale) -> list[Section]:
    """All sections; parts that have nothing to show are left out."""
    found = all_findings(records, scale)
    sections = [
        Section("In short", _short(found, records, scale)),
        Section("What was run", _setup(records, scale)),
        Section("The paper's claims", [words.counts(found.paper), tables.findings_table(_measured(found.paper))]),
        Section("Table 1: which state, which similarity", [tables.baselines_table(records, scale)]),
        Section("Table 3: approximate or exact, mask and score", [tables.recompute_table(records, scale)]),
        Section("How large the store is", _sizes(records, scale)),
        Section("How peaky", _peaky(records, scale)),
        Section("Base LMs of other sizes", [tables.models_table(records, scale)]),
        Section("Which words gain from approximation", _words(records, scale)),
        Section("When each reason holds", _regimes(records, scale)),
        Section("What a sceptic asks", _sceptic(records, scale, found)),
        Section("The audit: confounds in the paper's code", _audit(records, scale, found)),
        *_substitutes(records, scale, found),
        Section("How it was made", _provenance(records, scale)),
    ]
    return [s._replace(parts=kept) for s in sections if (kept := [p for p in s.parts if not _empty(p)])]


def _substitutes(records: Records, scale: Scale, found: Findings) -> list[Section]:
    """What can be had without a search."""
    drawn = [f for f in (shares.shares_figure(records, scale),) if f is not None]
    curve = [f for f in (substitutes.capacity_figure(records, scale),) if f is not None]
    return [
        Section("Without a search: the paper's claims about substitutes",
                [words.counts(found.learned), tables.findings_table(_measured(found.learned)), *drawn]
                if _measured(found.learned) else []),
        Section("Table 2: a second softmax", [substitutes.heads_table(records, scale)]),
        Section("More embeddings for each word", [*curve, substitutes.capacity_table(records, scale)]),
        Section("Embeddings for the words that need them", [substitutes.adaptive_table(records, scale)]),
        Section("Mixtures of softmaxes", [substitutes.softmaxes_table(records, scale)]),
        Section("Clusters, and learning to be mixed", [substitutes.others_table(records, scale)]),
        Section("The best without a search",
                [substitutes.beyond_table(records, scale), tables.findings_table(_measured(found.beyond))]),
        Section("Learning rates", [substitutes.rates_table(records)]),
    ]  # fmt: skip


def _shares(records: Records, scale: Scale) -> list[str | None]:
    """What has how much of the neighbours' gain without a search."""
    knn, head = exactly(paper_arm(scale)).name, substitutes.seeds_of(records, Learned())
    told = (
        (share_of_calibration(records, knn), "Calibrating the LM (its own temperature and a share of unigrams) has "
         "{} of the gain of exact neighbours in log-likelihood, with nothing retrieved or learned."),
        (share_of_gain(records, head, knn),
         "A second softmax on att, learned from the store, has {} of it over the LM."),
        (share_of_gain(records, head, knn, "on_calibrated", "calibrated"),
         "Over the calibrated LM that softmax has {} of what neighbours gain there."),
    )  # fmt: skip
    return [text.format(substitutes.share_text(share)) if math.isfinite(share.value) else None for share, text in told]


def _short(found: Findings, records: Records, scale: Scale) -> list[Part]:
    by_name = {f.claim.name: f for f in found.all()}
    sentences = [
        words.at_each_tau(by_name, "kNN helps", "“kNN helps”"),
        words.single(by_name, "kNN beats the calibrated LM"),
        words.single(by_name, "kNN helps the calibrated LM"),
        words.at_each_tau(by_name, "att beats ffn", "“att beats ffn”, with the index as in the paper"),
        words.at_each_tau(by_name, "att beats ffn, exact search", "The same with exact search"),
        words.at_each_tau(by_name, "approximate beats exact search", "“Approximate search beats exact search”"),
        words.at_each_tau(by_name, "FAISS mask beats real mask", "“Approximate neighbours beat true ones”"),
        words.single(by_name, "most of att's lead over ffn is temperature"),
        *_shares(records, scale),
        "“One τ for all” is the τ that is best for the paper's own arm (att, L2, FAISS mask and score), which in the "
        "paper τ = 1 was near: it is what comparing arms at one τ amounts to.",
        words.counts(found.paper),
    ]
    return [*(s for s in sentences if s), _EFFECT]


def _setup(records: Records, scale: Scale) -> list[Part]:
    main = records.get(paper_arm(scale).name)
    parts: list[Part] = []
    if main is not None:
        r = main["results"]
        source = f"the first {scale.documents} articles" if scale.documents else "the training text"
        cut = f" the first {scale.eval_characters:,} characters of each document of" if scale.eval_characters else ""
        drawn = "drawn at random from" if scale.eval_rows else "of"
        parts.append(
            f"Text: {scale.text}. The base LMs are trained on {source} ({r['lm']['train_tokens']:,} tokens), which is "
            f"also what the store holds ({r['rows']:,} rows). λ and τ are tuned on {r['base']['valid_tokens']:,} "
            f"tokens {drawn}{cut} the validation text, and everything is reported on {r['base']['tokens']:,} tokens "
            f"(as many as {r['base']['words']:,} words, {len(r['documents']['tokens'])} documents) {drawn}{cut} the "
            f"test text. k = {scale.k:,}. Training perplexity is that of the updates before, dropout on."
        )
    return [*parts, tables.lms_table(records)]


def _sizes(records: Records, scale: Scale) -> list[Part]:
    drawn: list[Part] = [figures.sizes(records, scale, field) for field in ("shared", "tuned")]
    table = tables.sizes_table(records, scale)
    return [*drawn, _PROBED, table] if table.rows else drawn


def _peaky(records: Records, scale: Scale) -> list[Part]:
    drawn: list[Part] = [figures.temperatures(records, scale, fraction) for fraction in (scale.small, 1.0)]
    table = tables.temperatures_table(records, scale)
    return [*drawn, _UNITS, table] if table.rows else []


def _words(records: Records, scale: Scale) -> list[Part]:
    (row,) = words_recipe.recipe(scale).rows
    assert isinstance(row, Words)
    drawn = (figures.words(records, row, attribute) for attribute in ("length", "forward", "backward"))
    return [f for f in drawn if f is not None]


def _regimes(records: Records, scale: Scale) -> list[Part]:
    drawn = (regimes.progress(records, scale), regimes.width(records, scale))
    return [*(f for f in drawn if f is not None), regimes.table(records, scale)]


def _sceptic(records: Records, scale: Scale, found: Findings) -> list[Part]:
    rows = [r for r in sceptic.neighbours(scale).rows if isinstance(r, Counts)]
    arm = paper_arm(scale)
    indexes = [(f"{f}, {n} probed", replace(arm, factory=f, nprobe=n)) for f, n in scale.factories]
    indexes += [("the paper's kind of index", arm), ("exact", exactly(arm))]
    reduced = [(f"{w} principal components, exact", replace(exactly(arm), width=w)) for w in scale.components]
    return [
        tables.findings_table(_measured(found.sceptic)),
        figures.neighbours(records, rows), tables.counts_table(records, rows),
        figures.approximations(records, scale), tables.arms_table(records, [*indexes, *reduced]),
    ]  # fmt: skip


def _audit(records: Records, scale: Scale, found: Findings) -> list[Part]:
    return [
        "F7: which of the paper's conclusions, drawn at one τ for all, survive when every arm has its own τ. The "
        "paper's τ = 1 was near the best for its own arm and not for others; here that best τ is another number, so "
        "both are shown.",
        tables.survival_table(found.paper),
        words.counts(found.audit),
        tables.findings_table(_measured(found.audit)),
        "F1: zero rows.", tables.arms_table(records, _named(zeros(scale), "zeros")),
        "F4: the sign of ffn with IP.", tables.arms_table(records, _named(sign(scale), "")),
        "F6: precision of real scores.", tables.arms_table(records, _named(precision(scale), "")),
        "The layer or its LayerNorm.", tables.arms_table(records, tables.norm_arms(scale)),
        "F2 and F3: where λ comes from, and perplexity per token or per word. The latter is the former to the power of "
        "the tokens in a word, so every comparison keeps its direction; only its size differs.",
        tables.units_table(records, scale),
    ]  # fmt: skip


def _named(recipe: Recipe, field: str) -> list[tuple[str, Any]]:
    arms = [r.arm for r in recipe.rows if isinstance(r, Evaluate)]
    extra = (lambda a: f", {getattr(a, field):.0%} {field}") if field else (lambda _: "")
    named = [(f"{a.state} {a.metric.upper()}, {tables.setting(a)}{extra(a)}", a) for a in arms]
    return [(name if arm.lm == "main" else f"{arm.lm}: {name}", arm) for name, arm in named]


def _provenance(records: Records, scale: Scale) -> list[Part]:
    made = [r["provenance"] for r in records.values()]
    commits = sorted({m["commit"] or "an installed package" for m in made})
    versions = sorted({", ".join(f"{k} {v}" for k, v in m["versions"].items()) for m in made})
    machines = sorted({m["machine"] for m in made})
    lms = {r["what"]["arm"]["lm"]: r["provenance"]["train_seconds"] for r in records.values() if "arm" in r["what"]}
    trained = [seconds for seconds in lms.values() if seconds]
    training = sum(trained)
    return [
        f"{len(trained)} LMs trained in {training / 60:.0f} minutes and {len(records)} rows measured in "
        f"{sum(m['seconds'] for m in made) / 60:.0f} minutes, stores, indexes and searches included, on "
        f"{'; '.join(machines)}. Commits: {', '.join(commits)}. Versions: {'; '.join(versions)}.",
        _missing(records, scale),
        "Every number is in rows/, one JSON for each row, with the command that makes it. All of them: "
        f"`knnlm reproduce all --scale {scale.name}`.",
    ]


def _missing(records: Records, scale: Scale) -> str:
    """Which recipes are not complete."""
    every = {row.name for recipe in recipes(scale) for row in recipe.rows}
    lacking = [
        f"{recipe.name} ({absent})" for recipe in recipes(scale)
        if (absent := len({row.name for row in recipe.rows} - records.keys()))
    ]  # fmt: skip
    if not lacking:
        return f"All {len(every)} rows of the recipes are here."
    return f"{len(every & records.keys())} of {len(every)} rows are here; missing: {', '.join(lacking)}."


def _measured(found: Sequence[Finding]) -> list[Finding]:
    return [f for f in found if f.verdict != "not measured"]


def _empty(part: Part) -> bool:
    return isinstance(part, Table) and not part.rows


def _fields(f: Finding) -> dict[str, Any]:
    return finite({
        "name": f.claim.name, "claim": f.claim.says, "where": f.claim.where, "verdict": f.verdict, "effect": f.effect,
        "low": f.low, "high": f.high, "seeds": list(f.seeds), "paper": f.claim.paper,
    })  # fmt: skip
