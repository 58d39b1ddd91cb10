"""The hypotheses that the paper ruled out, in one table: what was tested, what came out, and what
that says.

A hypothesis is decided by a finding in one of three ways:

    by itself    something is mixed in instead of neighbours: ruled out where it does not help, a
                 part at most where it helps less than half as much as neighbours do, not ruled out
                 else
    against      a finding that speaks against it: ruled out where that holds
    for          a finding that says what it says: ruled out where that does not hold

Knows findings; of records only which of several rows was best on validation text.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from knnlm.report.document import Block
from knnlm_paper.conditions import TokenList
from knnlm_paper.experiments import ruled_out
from knnlm_paper.experiments.ruled_out import by_choice, by_distance
from knnlm_paper.experiments.substitutes import STATES
from knnlm_paper.findings import OVER, OVER_CALIBRATED, Finding
from knnlm_paper.place_findings import MARGIN, STOLEN
from knnlm_paper.report.formats import make_table, percent
from knnlm_paper.report.words import numbers
from knnlm_paper.results import Results
from knnlm_paper.scales import Scale

Named = Mapping[str, Finding]
Decided = Literal["by itself", "against", "for"]
NEIGHBOURS = {
    "own_tau": "kNN helps, exact search (each at its own τ)",
    "on_calibrated": "kNN helps the calibrated LM",
}
NOT_YET = "not measured"


class Hypothesis(NamedTuple):
    """What could be the reason, what was tested, and the claims that decide: over the LM, and over
    the calibrated LM (none where the question is the same)."""

    says: str
    tested: str
    decided: Decided
    claims: tuple[str, str | None]


def hypotheses(results: Results) -> tuple[Hypothesis, ...]:
    """In the paper's order."""
    return (
        *_of_words(results),
        *_of_places(),
        *_of_ensembles(results.scale),
        *_of_memory(results.scale),
        *_of_losses(),
    )


def _of_words(results: Results) -> tuple[Hypothesis, ...]:
    """Metrics, and which words have the probability."""
    return (
        Hypothesis(
            "It is the mixture of two metrics: the LM's is IP, the neighbours' L2",
            "neighbours (att) by IP, not L2",
            "against",
            ("L2 and IP differ little, exact search (each at its own τ)", None),
        ),
        _best_of(
            "… it is L2 alone",
            "the words retrieved by {}, scored by their L2 to W_sm",
            "by itself",
            "retrieved words by their L2 to W_sm do not help ({})",
            {state: by_distance(results.scale, state) for state in STATES},
            results,
        ),
        _best_of(
            "It is sparsity: few words get all the probability",
            "the LM's own {} likeliest words, renormalised",
            "by itself",
            "the LM's own {} likeliest words do not help",
            {str(k): TokenList(k=k) for k in results.scale.ruled_out.lists},
            results,
        ),
        _best_of(
            "It is which words are retrieved, not how near",
            "neighbours, not their words alone ({})",
            "against",
            "neighbours beat their words without their distances ({})",
            {
                "with duplicates": by_choice(results.scale, True),
                "each once": by_choice(results.scale, False),
            },
            results,
        ),
    )


def _of_places() -> tuple[Hypothesis, ...]:
    """Places in the text, and words that cannot be chosen."""
    return (
        Hypothesis(
            "It is the window: the gain depends on how much context it holds",
            "the third of the tokens with most context, not with least: what neighbours gain, per "
            "token",
            "against",
            ("what neighbours gain does not depend on the context in the window", None),
        ),
        Hypothesis(
            "It is the document: the gain depends on the part of it",
            "the last third of the places, not the first: what neighbours gain, per token",
            "against",
            ("what neighbours gain does not depend on the place in the document", None),
        ),
        Hypothesis(
            "The LM can never choose some words (stolen probabilities)",
            "words that no state makes the most probable",
            "against",
            (STOLEN, None),
        ),
    )


def _of_ensembles(scale: Scale) -> tuple[Hypothesis, ...]:
    """Other LMs mixed with the LM."""
    lms = len(scale.ruled_out.ensemble) + 1
    return (
        _over(
            "It is an ensemble: a second LM would do more",
            "a second LM, not neighbours",
            "for",
            f"a second LM helps more than neighbours ({scale.ruled_out.ensemble[0]})",
        ),
        _over(
            "… in which neighbours are one more LM",
            f"{lms - 1} LMs with neighbours, not {lms} LMs",
            "against",
            f"{lms - 1} LMs with neighbours beat {lms} LMs",
        ),
        _over(
            "… to which neighbours add nothing",
            f"neighbours on top of {lms} LMs",
            "against",
            f"neighbours still help {lms} LMs",
        ),
    )


def _of_memory(scale: Scale) -> tuple[Hypothesis, ...]:
    """LMs that memorised the text, and LMs taught by soft labels."""
    step = scale.lm("memorised").preset.keep[-1]
    return (
        _over(
            "It is memory of the training text",
            "an LM that memorised it",
            "by itself",
            f"a memorising LM does not help ({step:,} updates further)",
        ),
        _over(
            "… and neighbours are no more than that",
            "neighbours, not the LM that memorised",
            "against",
            "neighbours help more than a memorising LM",
        ),
        _over(
            "… and add nothing to it",
            "neighbours on top of the LM that memorised",
            "against",
            "neighbours still help beside a memorising LM",
        ),
        _over(
            "It is soft labels",
            "an LM taught by what the LM says",
            "by itself",
            "an LM taught by the LM does not help",
        ),
        _over(
            "… which teach more than the text does",
            "an LM taught by the LM, not by the text",
            "against",
            "an LM taught by the LM is no better than one taught by the text",
        ),
    )


def _of_losses() -> tuple[Hypothesis, ...]:
    """A head that learned to be mixed."""
    loss, learned = "the interpolated loss", "(att, one embedding a word)"
    return (
        Hypothesis(
            "A second softmax would do, if it learned to be mixed",
            "one on att, learned by the mixture's loss",
            "by itself",
            (
                f"{loss} does not beat the LM {learned} (each at its own τ)",
                f"{loss} does not beat the calibrated LM {learned}",
            ),
        ),
        _over(
            "… because it learns to be mixed",
            "the mixture's loss, not its own",
            "for",
            f"{loss} beats the plain one {learned}",
        ),
    )


def _over(says: str, tested: str, decided: Decided, claim: str) -> Hypothesis:
    return Hypothesis(says, tested, decided, (claim, f"{claim}{OVER_CALIBRATED}"))


def _best_of(
    says: str, tested: str, decided: Decided, claim: str, rows: Mapping[str, Any], results: Results
) -> Hypothesis:
    """A hypothesis that several rows could carry: the one that is best on validation text, over the
    LM and over the calibrated LM, which may be two."""
    best = []
    for field in OVER:
        ppl = {
            words: getattr(results.measurement(row), field).valid_ppl
            for words, row in rows.items()
            if row in results
        }
        best.append(min(ppl, key=lambda words: ppl[words], default=next(iter(rows))))
    shown = tested.format(best[0]) + (
        f" (over the calibrated LM: {best[1]})" if best[0] != best[1] else ""
    )
    claims = (claim.format(best[0]), f"{claim.format(best[1])}{OVER_CALIBRATED}")
    return Hypothesis(says, shown, decided, claims)


def hypotheses_parts(named: Named, results: Results) -> list[Block]:
    """How to read the table, and the table; nothing where none of it was measured."""
    found = {**named, **_stolen(named, results.scale)}
    every = hypotheses(results)
    if not any(name in found for h in every for name in h.claims if name):
        return []
    rows = []
    for h in every:
        first, second = (
            _decided(h, name, field, found)
            for name, field in zip(h.claims, NEIGHBOURS, strict=True)
        )
        effects = [_effect(name, found, results) for name in h.claims]
        rows.append((h.says, first, second, h.tested, *effects))
    return [
        _reading(named),
        make_table(
            (
                "hypothesis",
                "verdict over the LM",
                "verdict over the calibrated LM",
                "effect of",
                "effect over the LM",
                "effect over the calibrated LM",
            ),
            tuple(rows),
        ),
    ]


def _reading(named: Named) -> str:
    places = f"{100 * MARGIN:g} %"
    text = (
        "Each hypothesis is put to a test. **Ruled out**: what was tested does not help, or what "
        "speaks against it "
        "holds. **A part at most**: it helps, but its whole interval lies below half of what "
        "neighbours gain. **Not "
        "ruled out** is not to say that it is true. **Undecided**: the interval allows either "
        "(places differ from "
        f"{places} on). Of several ways to test the same, the one that is best on validation text. "
        "Effects are of "
        "perplexity per word where nothing else is said."
    )
    gains = [named[name].effect for name in NEIGHBOURS.values() if name in named]
    if len(gains) == 2:
        text += (
            f" For comparison, neighbours themselves gain {percent(gains[0])} over the LM and "
            f"{percent(gains[1])} "
            "over the calibrated LM."
        )
    return text


def _decided(h: Hypothesis, name: str | None, field: str, named: Named) -> str:
    if name is None:
        return ""
    if (f := named.get(name)) is None:
        return f"**{NOT_YET}**"
    if f.verdict in ("undecided", "no question"):
        return f"**{f.verdict}**"
    against = f.verdict == ("does not hold" if h.decided == "for" else "holds")
    if against:
        return "**ruled out**"
    whole = named.get(NEIGHBOURS[field])
    part = (
        h.decided == "by itself"
        and whole is not None
        and math.log1p(f.high) < math.log1p(whole.effect) / 2
    )
    return "**a part at most**" if part else "**not ruled out**"


def _effect(name: str | None, named: Named, results: Results) -> str:
    if name is None or name not in named:
        return ""
    if name != STOLEN:
        return numbers(named[name], paper=False)
    found = [
        results.measurement(row)
        for row in ruled_out.stolen(results.scale).conditions
        if row in results and row.lm.name in results.scale.seeds
    ]
    worst = max(found, key=lambda r: r.unreachable)
    return f"{worst.unreachable:,} of {worst.vocabulary:,} words"


def _stolen(named: Named, scale: Scale) -> dict[str, Finding]:
    """Of all seeds of the main LM together: the worst of them."""
    found = [f for lm in scale.seeds if (f := named.get(f"{STOLEN} ({lm})")) is not None]
    return {STOLEN: max(found, key=lambda f: f.effect)} if found else {}
