"""The answer to the title, for one who has not read the paper: its reasons, what it ruled out, what
an audit found.

Sentences are written once for any outcome; every number, verdict and reading in them comes from
findings."""

import math
from collections.abc import Mapping

from knnlm.report.document import Block, Section
from knnlm_paper.conditions import KNN, Learned
from knnlm_paper.doubts import all_beat_nearest
from knnlm_paper.expected import printed_row, published
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.ensembling import with_one
from knnlm_paper.findings import OVER_CALIBRATED, Claim, Finding, check, gain
from knnlm_paper.report import reasons, substitutes
from knnlm_paper.report.audited import audit_parts
from knnlm_paper.report.checks import Findings
from knnlm_paper.report.formats import percent, section
from knnlm_paper.report.hypotheses import NEIGHBOURS, hypotheses_parts
from knnlm_paper.report.shares import best_over_calibrated
from knnlm_paper.report.words import numbers
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval
from knnlm_paper.scales import Scale
from knnlm_paper.shares import share_of_calibration, share_of_gain

Named = Mapping[str, Finding]
NEAR, LITTLE = 0.05, 0.01
"""Two things do about as well where the interval of their difference lies within the first; a
difference is next to nothing where it lies within the second."""


def answer(found: Findings, results: Results) -> list[Section]:
    """The first sections of the report."""
    named = {f.claim.name: f for f in found.all() if f.verdict != "not measured"}
    parts: list[Block] = [
        *_opening(results),
        *_answer(named, results),
        *_sizes(results),
    ]
    drawn, table = reasons.figure(named), reasons.table(named)
    three: list[Block] = []
    if drawn is not None:
        three = [
            *(reasons.paragraph(reason, named) for reason in reasons.REASONS),
            table,
            *_one_tau(results),
            drawn,
        ]
    return [
        section("The answer in short", parts),
        section("The paper's three reasons", three),
        section(
            "What it is not: the hypotheses that the paper ruled out",
            hypotheses_parts(named, results),
        ),
        section("What the audit of the paper's code found", audit_parts(named, results.scale)),
        section("Without looking anything up", without_search(results)),
    ]


def _opening(results: Results) -> list[str]:
    """What this is about, and how to read it."""
    record = results.find(KNN(exactly(paper_retrieval(results.scale))))
    if record is None:
        return []
    toy = (
        ["This scale is a toy that shows the way: read nothing into its numbers."]
        if results.scale.name == "smoke"
        else []
    )
    r = record
    base = r.base
    documents = results.scale.portions.documents
    first = f", its first {documents} articles" if documents else ""
    return [
        *toy,
        "A nearest-neighbour LM mixes a language model's prediction with a vote: it looks up the "
        "contexts of the "
        "training text that are nearest to the present one, and the tokens that followed them vote "
        "for what comes "
        "next. Xu, Alon and Neubig (2023) asked why that lowers perplexity, gave three reasons and "
        "ruled out others. "
        f"All of it is measured again here, on a small scale ({results.scale.text}{first}, LMs of "
        f"{r.lm.parameters / 1e6:.1f} million parameters, {r.entries:,} stored contexts).",
        "**How to read the numbers.** An effect says how much higher perplexity per word is "
        "without a thing (a word is "
        f"{base.tokens / base.words:.1f} tokens here): plus means that the thing helps. "
        "Behind it stands its "
        "95\u00a0% interval over documents. Perplexities are of one LM and per token; effects are "
        "means over the seeds "
        "that were measured. The *calibrated LM* is the same LM with two numbers tuned and nothing "
        "retrieved: its "
        f"softmax gets a temperature ({base.calibrated_temperature:.2f}; above one it is less "
        "sure of itself), and "
        f"{100 * base.calibrated_share:.1f}\u00a0% of its probability goes to plain word "
        "frequencies. What is "
        "gained *over the calibrated LM* is not owed to a correction of that kind.",
    ]


def _answer(named: Named, results: Results) -> list[str]:
    """What neighbours gain, what of it is left, and what it is owed to, as far as the findings
    go."""
    knn, k = KNN(exactly(paper_retrieval(results.scale))), f"{paper_retrieval(results.scale).k:,}"
    leads = ("att beats ffn, exact search", "approximate beats exact search")
    wanted = (
        *NEIGHBOURS.values(),
        "kNN beats the calibrated LM",
        *(f"{name}{OVER_CALIBRATED}" for name in leads),
        all_beat_nearest(results.scale, "att", OVER_CALIBRATED),
    )
    if knn not in results or not all(name in named for name in wanted):
        return []
    helps, beside, versus, state, index, mask = (named[name] for name in wanted)
    r = results.measurement(knn)
    theirs = 1 / (1 + printed_row("tab:knn_baselines", name="kNN-LM-L2").change) - 1
    alike = (
        "about as well as"
        if versus.low > -NEAR and versus.high < NEAR
        else "not clearly better or worse than"
    )
    compared = "less well than" if versus.low > 0 else "better than" if versus.high < 0 else alike
    as_well = f"{compared} neighbours"
    text = [
        f"**The answer.** On test text the LM has perplexity {r.base.ppl:.1f} per token, "
        "with exact neighbours "
        f"{r.own_tau.ppl:.1f}: {numbers(helps)}; in the paper, with its index, "
        f"{percent(theirs)}. "
        f"Calibrating the LM, with nothing retrieved, does {as_well}: "
        f"{r.base.calibrated_ppl:.1f}. Neighbours on top of that give "
        f"{r.on_calibrated.ppl:.1f}: "
        f"{numbers(beside)}."
    ]
    if beside.verdict == "holds":
        text.append("So neighbours know something that calibration does not.")
    owed = [
        "**What it is owed to.** Over the calibrated LM, finding contexts by one state (att) and "
        "not the other (ffn) "
        f"is worth {numbers(state)}, an index in the place of exact search {numbers(index)}, and "
        "letting all "
        f"{r.entries:,} contexts vote, not the nearest {k}, {numbers(mask)}."
    ]
    little = all(abs(end) < LITTLE for f in (state, index) for end in (f.low, f.high))
    if mask.verdict == "holds" and little:
        owed.append(
            "So the gain is owed neither to the state that finds them nor to the errors of an "
            "index, and grows "
            "with the number that have a say."
        )
    others = [*_ensemble(named, results.scale), *_memory(named, results)]
    beside_lms = [" ".join(["**Beside other LMs.**", *others])] if others else []
    return [" ".join(text), " ".join([*owed, *_pressed(results)]), *beside_lms]


def _ensemble(named: Named, scale: Scale) -> list[str]:
    """Beside other LMs."""
    names = scale.ruled_out.ensemble
    wanted = [
        f"neighbours help one LM{OVER_CALIBRATED}",
        f"a second LM helps ({names[0]}){OVER_CALIBRATED}",
        *(f"neighbours still help {count} LMs{OVER_CALIBRATED}" for count in (2, len(names) + 1)),
    ]
    if not all(name in named for name in wanted):
        return []
    one, second, two, most = (named[name] for name in wanted)
    return [
        f"With all weights and temperatures fitted together, neighbours gain {numbers(one)} over "
        "the calibrated LM "
        f"and a second LM in their place {numbers(second)}; neighbours on top of two LMs gain "
        f"{numbers(two)}, on top of {len(names) + 1} LMs {numbers(most)}."
    ]


def _memory(named: Named, results: Results) -> list[str]:
    """Beside an LM that memorised."""
    last = results.scale.lm("memorised").preset.keep[-1]
    wanted = (
        f"a memorising LM does not help ({last:,} updates further){OVER_CALIBRATED}",
        f"neighbours still help beside a memorising LM{OVER_CALIBRATED}",
    )
    if not all(name in named for name in wanted):
        return []
    alone, beside = (named[name] for name in wanted)
    memorised = results.measurement(with_one("memorised", last)).others[0]
    return [
        "An LM that went on from this one without dropout, to memorise the text (training "
        "perplexity "
        f"{memorised.lm.train_ppl:.1f}), gains {numbers(alone)} in the neighbours' place, and "
        "neighbours on top of "
        f"it {numbers(beside)}."
    ]


def _pressed(results: Results) -> list[str]:
    """What is left when single contexts cannot be told apart any more."""
    row = clusters_of("ffn", results.scale.learning.clusters[0])
    knn = KNN(exactly(paper_retrieval(results.scale)))
    share = share_of_gain(results, results.learning_seeds(row), knn, "on_calibrated", "calibrated")
    if not math.isfinite(share.value):
        return []
    return [
        f"Pressed to {results.scale.clusters('main', row.size):,} clusters, the store "
        f"has {substitutes.share_text(share)} of what neighbours gain over the calibrated LM, and "
        "nothing is "
        "looked up."
    ]


def _sizes(results: Results) -> list[str]:
    """How the gain differs with the LM."""
    found = []
    for lm in results.scale.widths:
        terms = gain(exactly(paper_retrieval(results.scale, lm)), "on_calibrated", "calibrated")
        f = check(Claim(name="", says="", where="", terms=terms), results, ("main",))
        if f.verdict != "not measured":
            found.append(f"{percent(f.effect)} at width {results.scale.shape(lm).width:,}")
    if len(found) < 2:
        return []
    return [
        f"How much neighbours gain over the calibrated LM depends on the LM: {', '.join(found)}. "
        "Other LMs and "
        "other texts may well differ."
    ]


def _one_tau(results: Results) -> list[str]:
    """What the columns of the table mean."""
    record = results.find(KNN(paper_retrieval(results.scale)))
    if record is None:
        return []
    return [
        "The paper compared its settings at τ = 1, which suited its main one (att, L2, index). "
        "“One τ for all” is the "
        "counterpart here: the τ that is best for that setting, "
        f"{record.own_tau.temperature:.3g} (a "
        "second softmax: the τ it was learned at, 1). Readings: *survives*, above zero there and "
        "with each at its own "
        "τ; *explained by the temperature*, only at one τ for all; *not seen here*, at neither."
    ]


def without_search(results: Results) -> list[Block]:
    """What has how much of the neighbours' gain without a search."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    theirs = next(
        row.cells["value"] for row in published()["text"] if row.name.startswith("gain recovered")
    )
    head = results.learning_seeds(Learned())
    told = [
        (
            share_of_calibration(results, knn),
            "Of what neighbours gain over the LM (in log-likelihood) calibration alone has {};",
        ),
        (
            share_of_gain(results, head, knn),
            "a second softmax on att (a head) has {} "
            f"(the paper: {100 * theirs:.0f}\u00a0% of its gain in perplexity);",
        ),
        (
            share_of_gain(results, head, knn, "on_calibrated", "calibrated"),
            "of what neighbours gain over the calibrated LM, it has {}.",
        ),
    ]
    sentences = [
        text.format(substitutes.share_text(s)) for s, text in told if math.isfinite(s.value)
    ]
    best = best_over_calibrated(results)
    if best is not None and best.name != Learned().label:
        store = _numbers_of_store(results) / 1e6
        sentences.append(
            f"Of all that was tried, what is best there on validation text ({best.name}) has "
            f"{substitutes.share_text(best.over)} on test text, with {best.parameters / 1e6:.1f} "
            "million "
            f"numbers, where the store has {store:.0f} million."
        )
    return [" ".join(sentences)] if sentences else []


def _numbers_of_store(results: Results) -> int:
    """In its keys."""
    return (
        results.measurement(KNN(exactly(paper_retrieval(results.scale)))).entries
        * results.scale.shape("main").width
    )
