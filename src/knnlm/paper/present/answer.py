"""The answer to the title, for one who has not read the paper: its reasons, what it ruled out, what an audit found.

Sentences are written once for any outcome; every number, verdict and reading in them comes from findings.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from knnlm.paper.claims import FIELDS
from knnlm.paper.doubts import all_beat_nearest
from knnlm.paper.expected import printed_row, published
from knnlm.paper.findings import OVER_CALIBRATED, Finding, Records
from knnlm.paper.present import ruled_out, substitutes
from knnlm.paper.present.checks import Findings
from knnlm.paper.present.content import Figure, Part, Section, Table, percent
from knnlm.paper.present.shares import best_over_calibrated
from knnlm.paper.present.words import numbers, outcome, reading
from knnlm.paper.recipes.audit import paper_share
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.recipes.substitutes import both
from knnlm.paper.rows import Learned
from knnlm.paper.scales import Scale
from knnlm.paper.shares import share_of_calibration, share_of_gain
from knnlm.report.svg import INK, MARKERS, SERIES, drawing

Named = Mapping[str, Finding]


class Reason(NamedTuple):
    """One of the paper's three, and the claims that carry it: (name of the claim without its τ, as shown)."""

    title: str
    says: str
    claims: tuple[tuple[str, str], ...]


REASONS = (
    Reason(
        "A second view of the context",
        "The store is searched by the state after the last attention (att), not by the one that the LM's own softmax "
        "reads (ffn), so that the neighbours see the context otherwise than the LM does.",
        (("att beats ffn", "att over ffn, index"), ("att beats ffn, exact search", "att over ffn, exact search"),
         ("a head on att beats a head on ffn", "a second softmax on att over one on ffn"),
         ("a head on att helps", "a second softmax on att, nothing retrieved"),
         ("a head on ffn helps", "a second softmax on ffn, nothing retrieved")),
    ),
    Reason(
        "Approximate search",
        "Neighbours are looked up in a compressed index. Its errors were found to help, as a regulariser would.",
        (("approximate beats exact search", "index over exact search"),
         ("FAISS mask beats real mask", "the index's neighbours over the true ones")),
    ),
    Reason(
        "Temperature",
        "How sharply the vote prefers the nearest has to fit. The paper's tables have τ = 1, which was near the best "
        "for its index; exact scores needed another.",
        (("tuning τ matters for real mask, real score", "own τ over τ = 1, att, exact search"),
         ("its own τ beats the one τ for all (ffn, exact search)", "own τ over the one for all, ffn, exact search")),
    ),
)  # fmt: skip


_READING = (
    "Effects are how much higher perplexity per word is without the thing in question, with a 95 % interval. “One τ "
    "for all” is the τ that is best for the paper's own setting, as its τ = 1 was: what comparing at one τ amounts to "
    "(a second softmax: the τ it was learned at, 1). What is left when every setting has its own τ is not owed to the "
    "temperature, and what is left over the calibrated LM is not owed to calibration."
)
_RULED_OUT = (
    "Each was ruled out by the check beside it. Where the check fails here, the hypothesis is not ruled out, which is "
    "not to say that it is true. Over the calibrated LM means that the LM first gets its own softmax temperature and a "
    "share of unigrams, so that what only corrects its peakiness gains little; of several LMs each is calibrated. "
    "Lists: the one that is best on validation text."
)
_AUDIT = "F1 to F7 are explained in docs/reproduce.md, “The paper's code”."


def answer(found: Findings, records: Records, scale: Scale) -> list[Section]:
    """The first sections of the report."""
    named = {f.claim.name: f for f in found.all() if f.verdict != "not measured"}
    drawn, hypotheses = reasons_figure(named), ruled_out.hypotheses_table(named, records, scale)
    reasons, audit = reasons_table(named), audit_table(named, scale)
    parts: list[Part] = [*_opening(named, records, scale), *in_short(named, records, scale)]
    if drawn is not None:
        parts += [*(_paragraph(reason, named) for reason in REASONS), reasons, _READING, drawn]
    parts += [*mask_cost(named, scale), *without_search(records, scale)]
    return [
        Section("Why they work: the answer in short", parts),
        Section("What it is not: the hypotheses that the paper ruled out",
                [_RULED_OUT, hypotheses] if hypotheses.rows else []),
        Section("What the audit of the paper's code found", [audit, _AUDIT] if audit.rows else []),
    ]  # fmt: skip


def _opening(named: Named, records: Records, scale: Scale) -> list[str]:
    record = records.get(exactly(paper_arm(scale)).name)
    if record is None:
        return []
    toy = ["This scale is a toy that shows the way: read nothing into its numbers."] if scale.name == "smoke" else []
    r = record["results"]
    base, own, over = r["base"], r["tuned"], r["on_calibrated"]
    helps, beside = named["kNN helps, exact search (each at its own τ)"], named["kNN helps the calibrated LM"]
    theirs = 1 / (1 + printed_row("tab:knn_baselines", name="kNN-LM-L2").change) - 1
    return [
        *toy,
        "A nearest-neighbour LM mixes a language model's prediction with a vote: it looks up the contexts of the "
        "training text that are nearest to the present one, and the tokens that followed them vote for what comes "
        "next. Xu, Alon and Neubig (2023) asked why that lowers perplexity and gave three reasons. Each is measured "
        f"here ({scale.text}, LMs of {r['lm']['parameters'] / 1e6:.1f} million parameters, {r['rows']:,} stored "
        "contexts), beside what the paper found.",
        f"On test text the LM has perplexity {base['ppl']:.1f} per token, with exact neighbours {own['ppl']:.1f}. Per "
        f"word, as the paper counts (here {base['tokens'] / base['words']:.1f} tokens), and over all seeds, doing "
        f"without neighbours costs {numbers(helps)}; in the paper, with its index, {percent(theirs)}. Giving the LM "
        f"its own temperature and a share of unigrams, with nothing retrieved, gives {base['calibrated_ppl']:.1f} per "
        f"token (the calibrated LM); neighbours on top of that {over['ppl']:.1f}, and doing without them costs "
        f"{numbers(beside)} per word.",
    ]


def in_short(named: Named, records: Records, scale: Scale) -> list[str]:
    """What the reasons come to where they can be told from calibration; the conclusion only if the findings have it."""
    knn, k = exactly(paper_arm(scale)).name, f"{paper_arm(scale).k:,}"
    wanted = ("kNN beats the calibrated LM", "kNN helps the calibrated LM",
              f"att beats ffn, exact search{OVER_CALIBRATED}", f"approximate beats exact search{OVER_CALIBRATED}",
              all_beat_nearest(scale, "att", OVER_CALIBRATED))  # fmt: skip
    if not all(name in named for name in wanted):
        return []
    versus, beside, state, index, mask = (named[name] for name in wanted)
    text = (
        f"**In one paragraph.** The calibrated LM, nothing retrieved, in the place of neighbours costs "
        f"{numbers(versus)} of perplexity per word. What retrieval itself knows shows over the calibrated LM: "
        f"{numbers(beside)}. There, searching by att instead of ffn is worth {numbers(state)}, an index instead of "
        f"exact search {numbers(index)}, and letting all rows vote instead of the nearest {k} {numbers(mask)}."
    )
    head = share_of_gain(records, substitutes.seeds_of(records, Learned()), knn, "on_calibrated", "calibrated")
    if math.isfinite(head.value):
        text += f" A second softmax on att has {substitutes.share_text(head)} of that gain without any search."
    if mask.verdict == "holds" and "holds" not in (state.verdict, index.verdict):
        text += (" So it is the stored contexts themselves that help, and more of them the better; not the state that "
                 "they are found by, nor the errors of an index.")  # fmt: skip
    return [text]


class _Told(NamedTuple):
    """A claim of a reason: as shown, what was found at one τ for all, at its own and over the calibrated LM, and what
    the first two say."""

    reason: str
    shown: str
    one: Finding | None
    own: Finding
    over: Finding | None
    reading: str


def _told(named: Named) -> list[_Told]:
    told = []
    for reason in REASONS:
        for name, shown in reason.claims:
            one, own = _at_one(named, name)[0], named.get(f"{name} ({FIELDS['tuned']})") or named.get(name)
            if own is not None:
                says = outcome(own) if one is None else reading(one.verdict, own.verdict)
                told.append(_Told(reason.title, shown, one, own, named.get(f"{name}{OVER_CALIBRATED}"), says))
    return told


def _paragraph(reason: Reason, named: Named) -> str:
    """What a reason says, and how its claims came out."""
    grouped: dict[str, list[str]] = {}
    for told in _told(named):
        if told.reason == reason.title:
            grouped.setdefault(told.reading, []).append(told.shown)
    here = ", ".join(f"**{says}** ({'; '.join(shown)})" for says, shown in grouped.items())
    return f"**{reason.title}.** {reason.says}" + (f" Outcome: {here}." if here else "")


def reasons_table(named: Named) -> Table:
    """Each reason's claims: the paper's effect, ours at one τ and with every arm at its own, and what that says."""
    rows = []
    for reason, shown, one, own, over, says in _told(named):
        theirs = one.claim.paper if one is not None else own.claim.paper
        rows.append((
            f"{reason}: {shown}", "" if theirs is None else percent(theirs),
            "" if one is None else numbers(one, paper=False), numbers(own, paper=False),
            "" if over is None else numbers(over, paper=False), says,
        ))  # fmt: skip
    columns = ("reason", "paper", "here, one τ for all", "here, each at its own τ", "over the calibrated LM", "reading")
    return Table(columns, tuple(rows))


def _at_one(named: Named, name: str) -> tuple[Finding | None, str]:
    """A claim at one τ for all, or, of what is learned, at the τ it was learned at; and which of the two."""
    words = FIELDS["shared"] if f"{name} ({FIELDS['shared']})" in named else FIELDS["tau_1"]
    return named.get(f"{name} ({words})"), words


def reasons_figure(named: Named) -> Figure | None:
    """The effects behind the reasons with their intervals, the paper's beside them."""
    lines: list[tuple[str, Finding, int]] = []
    for place, reason in enumerate(REASONS):
        for name, shown in reason.claims:
            own = named.get(f"{name} ({FIELDS['tuned']})")
            one, at_one = _at_one(named, name)
            over = named.get(f"{name}{OVER_CALIBRATED}")
            for f, at in ((one, at_one), (own, FIELDS["tuned"]), (over, OVER_CALIBRATED[2:]), (named.get(name), "")):
                if f is not None:
                    lines.append((f"{shown}\n{at}".strip(), f, place))
    if not lines:
        return None
    caption = (
        "The effects behind the paper's three reasons: how much higher perplexity per word is without the thing, with "
        "95 % intervals over documents. Crosses are the paper's own effects, where it prints one."
    )

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for y, (_, f, place) in enumerate(lines):
            axes.hlines(y, 100 * f.low, 100 * f.high, color=SERIES[place], linewidth=1.6)
            axes.plot(100 * f.effect, y, color=SERIES[place], marker=MARKERS[place], markersize=6)
            if f.claim.paper is not None:
                axes.plot(100 * f.claim.paper, y, color=INK, marker="x", markersize=7)
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_yticks(range(len(lines)), [label for label, _, _ in lines], fontsize=8.5)
        axes.invert_yaxis()
        axes.set_xlabel("effect, %")
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="x")

    return Figure("reasons", caption, drawing("reasons", caption, (7.0, 0.8 + 0.42 * len(lines)), draw))


def mask_cost(named: Named, scale: Scale) -> list[str]:
    """What looking at the nearest alone costs."""
    k = f"{paper_arm(scale).k:,}"
    found = [named.get(all_beat_nearest(scale, "att", over)) for over in ("", OVER_CALIBRATED)]
    if found[0] is None or found[1] is None:
        return []
    return [
        f"**The mask.** Only the nearest {k} vote. Against all rows of the store voting, each at its own τ, that costs "
        f"{numbers(found[0])} of perplexity per word over the LM, and {numbers(found[1])} over the calibrated LM (att)."
    ]


def without_search(records: Records, scale: Scale) -> list[str]:
    """What has how much of the neighbours' gain without a search."""
    knn = exactly(paper_arm(scale)).name
    theirs = next(row.cells["value"] for row in published()["text"] if row.name.startswith("gain recovered"))
    head, heads = (substitutes.seeds_of(records, row) for row in (Learned(), both()))
    told = [
        (share_of_calibration(records, knn), "Calibrating the LM has {} of the neighbours' gain in log-likelihood, "
         "with nothing retrieved or learned. (More than 100 % is more than the neighbours gain.)"),
        (share_of_gain(records, head, knn), "A second softmax on att, learned from the store (a head), has {} of it "
         f"over the LM (the paper: {100 * theirs:.0f} % of its gain in perplexity);"),
        (share_of_gain(records, head, knn, "on_calibrated", "calibrated"), "over the calibrated LM {} of what "
         "neighbours gain there."),
        (share_of_gain(records, heads, knn, "on_calibrated", "calibrated"), "One on att and one on ffn together have "
         "{}, over the calibrated LM."),
    ]  # fmt: skip
    sentences = [text.format(substitutes.share_text(s)) for s, text in told if math.isfinite(s.value)]
    best = best_over_calibrated(records, scale)
    if best is not None and best.name != substitutes.words(Learned()):
        share = substitutes.share_text(best.over)
        sentences.append(f"Of all that was tried, what is best on validation text over the calibrated LM, {best.name}, "
                         f"has {share} on test text, with {best.widths:.1f} output embeddings of added "
                         "numbers.")  # fmt: skip
    return [" ".join(sentences)] if sentences else []


def audit_table(named: Named, scale: Scale) -> Table:
    """What the paper's code did, what it would explain, and whether it does here."""
    own, one = f"({FIELDS['tuned']})", f"({FIELDS['tau_1']})"
    zeros, most = f"{paper_share(scale):.0%} zero rows", scale.learning.sizes[-1]
    lead = "most of att's lead over ffn is temperature"
    asked: Sequence[tuple[str, str]] = (
        ("Every setting at τ = 1 (F7)", lead),
        ("By its commands, a quarter of the store are rows of zeros (F1)", f"{zeros} hurt exact L2 search {own}"),
        ("… could that make exact search look worse?", f"{zeros} hurt exact search more than the index {own}"),
        ("… could that make L2 look worse?", f"{zeros} hurt L2 more than IP {own}"),
        (
            "As committed, ffn with IP has its sign flipped (F4)",
            f"ffn with IP: right sign beats the committed one {own}",
        ),
        ("True scores of an index's neighbours were in fp16 (F6)", f"fp16 scores change little {own}"),
        ("λ was tuned on the text it was reported on (F2)", f"λ tuned on the reported text changes little {one}"),
        ("Sizes were learned by different recipes (F5)", f"{most} embeddings a word do not help att {own}"),
        ("att has a LayerNorm, ffn has none", f"att beats ffn, both normalised {own}"),
    )
    rows = [
        (did, f"“{name}”", f"**{f.verdict}**", numbers(f, paper=False) if name != lead else _two_leads(named))
        for did, name in asked
        if (f := named.get(name)) is not None
    ]
    return Table(("what the paper's code did", "check", "verdict", "effect"), tuple(rows))


def _two_leads(named: Named) -> str:
    """att's lead over ffn at one τ and with each at its own."""
    one, own = (named[f"att beats ffn ({FIELDS[field]})"] for field in ("shared", "tuned"))
    return f"{numbers(one, paper=False)} at one τ, {numbers(own, paper=False)} each at its own"
