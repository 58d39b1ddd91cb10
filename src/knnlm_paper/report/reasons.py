"""The paper's three reasons: what each says, the effects that carry it, and what is left of them
here.

Sentences are written once for any outcome; every number, verdict and reading comes from findings.
"""

from collections.abc import Mapping
from typing import NamedTuple

from matplotlib.figure import Figure as Canvas

from knnlm.report.document import Figure, Table
from knnlm.report.svg import INK, MARKERS, SERIES, drawing
from knnlm_paper.claims import FIELDS
from knnlm_paper.findings import OVER_CALIBRATED, Finding
from knnlm_paper.report.formats import make_table, percent
from knnlm_paper.report.words import numbers, outcome, reading

Named = Mapping[str, Finding]


class Reason(NamedTuple):
    """One of the paper's three, and the claims that carry it, the most telling first: (name of the
    claim without its τ, as shown)."""

    title: str
    says: str
    claims: tuple[tuple[str, str], ...]


REASONS = (
    Reason(
        "A second view of the context",
        "The store is searched by the state after the last attention (att), not by the one that "
        "the LM's own softmax "
        "reads (ffn), so neighbours see the context otherwise than the LM does. The view could "
        "also help by itself: "
        "a second softmax that reads att is learned from the store and mixed in as neighbours are, "
        "and nothing is "
        "looked up.",
        (
            ("att beats ffn", "neighbours by att, not ffn (index)"),
            ("att beats ffn, exact search", "neighbours by att, not ffn (exact search)"),
            ("a head on att helps", "a second softmax on att"),
            ("a head on ffn helps", "for comparison: a second softmax on ffn"),
            ("a head on att beats a head on ffn", "a second softmax on att, not ffn"),
        ),
    ),
    Reason(
        "Approximate search",
        "Neighbours are looked up in a compressed index, which finds most of them and not all. Its "
        "errors were found "
        "to help, as a regulariser would.",
        (
            ("approximate beats exact search", "an index, not exact search"),
            ("FAISS mask beats real mask", "the index's neighbours, not the true ones"),
        ),
    ),
    Reason(
        "Temperature",
        "How sharply the vote prefers the nearest (τ) has to fit. τ has the unit of the scores, so "
        "τ = 1, at which the "
        "paper's tables are, means another sharpness for every LM and state.",
        (
            (
                "tuning τ matters for real mask, real score",
                "its own τ, not τ = 1 (att, exact search)",
            ),
            (
                "its own τ beats the one τ for all (att, exact search)",
                "its own τ, not the one for all (fitted to att)",
            ),
            (
                "its own τ beats the one τ for all (ffn, exact search)",
                "its own τ, not the one for all (ffn)",
            ),
        ),
    ),
)
SETTINGS = ("one τ for all", "each at its own τ", "over the calibrated LM")


class Told(NamedTuple):
    """A claim of a reason: as shown, what was found in each of the three settings, and what the
    first two say."""

    shown: str
    one: Finding | None
    own: Finding
    over: Finding | None
    reading: str

    @property
    def paper(self) -> float | None:
        """The paper's own effect, where it prints one."""
        return (self.one or self.own).claim.paper

    @property
    def settings(self) -> dict[str, Finding | None]:
        """By the words for them."""
        return dict(zip(SETTINGS, (self.one, self.own, self.over), strict=True))


def told(reason: Reason, named: Named) -> list[Told]:
    """What was measured of a reason."""
    found = []
    for name, shown in reason.claims:
        one = _at_one(named, name)
        own = named.get(f"{name} ({FIELDS['own_tau']})") or named.get(name)
        if own is not None:
            says = outcome(own) if one is None else reading(one.verdict, own.verdict)
            found.append(Told(shown, one, own, named.get(f"{name}{OVER_CALIBRATED}"), says))
    return found


def _at_one(named: Named, name: str) -> Finding | None:
    """A claim at one τ for all or, of what is learned, at the τ it was learned at."""
    return named.get(f"{name} ({FIELDS['one_tau']})") or named.get(f"{name} ({FIELDS['tau_1']})")


def paragraph(reason: Reason, named: Named) -> str:
    """What a reason says, and how its claims came out, the first with its numbers."""
    text = f"**{reason.title}.** {reason.says}"
    found = told(reason, named)
    if found:
        first = found[0]
        theirs = [] if first.paper is None else [f"paper {percent(first.paper)}"]
        ours = [
            f"{at} {numbers(f, paper=False)}" for at, f in first.settings.items() if f is not None
        ]
        text += f" Here, {first.shown}: {'; '.join([*theirs, *ours])}: **{first.reading}**."
    for other in found[1:]:
        over = "" if other.over is None else f", {numbers(other.over, paper=False)} {SETTINGS[2]}"
        text += (
            f" {other.shown[0].upper()}{other.shown[1:]}: {numbers(other.own, paper=False)} "
            f"{SETTINGS[1]}"
            f"{over}: **{other.reading}**."
        )
    return text


def table(named: Named) -> Table:
    """Every effect: the paper's, ours in each setting, and what they say."""
    rows = []
    for reason in REASONS:
        for line in told(reason, named):
            ours = ("" if f is None else numbers(f, paper=False) for f in line.settings.values())
            rows.append(
                (line.shown, "" if line.paper is None else percent(line.paper), *ours, line.reading)
            )
    return make_table(
        ("effect of", "paper", *(f"here, {at}" for at in SETTINGS[:2]), SETTINGS[2], "reading"),
        tuple(rows),
    )


def figure(named: Named) -> Figure | None:
    """The effects behind the reasons with their intervals, the paper's beside them."""
    groups = [(reason.title, lines) for reason in REASONS if (lines := told(reason, named))]
    if not groups:
        return None
    labels: list[tuple[str, Told | None]] = []
    for title, lines in groups:
        labels += [(title, None), *((line.shown, line) for line in lines)]
    caption = (
        "The effects behind the paper's three reasons: how much higher perplexity per word is "
        "without the thing, with "
        "95 % intervals over documents. Crosses are the paper's own effects, where it prints one."
    )

    def draw(canvas: Canvas) -> None:
        axes = canvas.add_subplot()
        for y, (_, line) in enumerate(labels):
            if line is None:
                continue
            for place, f in enumerate(line.settings.values()):
                if f is not None:
                    at = y + 0.25 * (place - 1)
                    axes.hlines(at, 100 * f.low, 100 * f.high, color=SERIES[place], linewidth=1.6)
                    axes.plot(
                        100 * f.effect,
                        at,
                        color=SERIES[place],
                        marker=MARKERS[place],
                        markersize=4.5,
                    )
            if line.paper is not None:
                axes.plot(
                    100 * line.paper, y, color=INK, marker="x", markersize=6, linestyle="none"
                )
        for place, at_what in enumerate(SETTINGS):
            axes.plot(
                [], [], color=SERIES[place], marker=MARKERS[place], markersize=4.5, label=at_what
            )
        axes.plot([], [], color=INK, marker="x", linestyle="none", label="paper")
        axes.axvline(0, color=INK, linewidth=0.9)
        axes.set_yticks(range(len(labels)), [label for label, _ in labels], fontsize=9)
        for tick, (_, line) in zip(axes.get_yticklabels(), labels, strict=True):
            tick.set_fontweight("bold" if line is None else "normal")
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(labels) - 0.5, -0.6)
        axes.set_xlabel("effect, %")
        axes.grid(color=INK, alpha=0.12, linewidth=0.6, axis="x")
        canvas.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)

    return Figure(
        "reasons", caption, drawing("reasons", caption, (7.0, 1.2 + 0.4 * len(labels)), draw)
    )
