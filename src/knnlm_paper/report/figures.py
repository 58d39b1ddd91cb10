"""The figures: one message each, from results."""

from collections.abc import Sequence
from dataclasses import replace

from knnlm.report.document import Figure
from knnlm_paper.claims import Change, Finding, Findings
from knnlm_paper.claims.claim import CALIBRATED, OWN_TAU
from knnlm_paper.claims.shares import share_of_gain
from knnlm_paper.conditions import KNN, FullDatastore, Learned, TemperatureCurve
from knnlm_paper.expected import PAPER_TOKENS_PER_WORD
from knnlm_paper.experiments.clusters import clusters_of
from knnlm_paper.experiments.ensembling import with_lms
from knnlm_paper.report.drawing import Curve, Estimate, Line, bars, curves, forest
from knnlm_paper.report.messages import title
from knnlm_paper.report.regimes import Regime, all_regimes
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval

PER_TOKEN = "change per token, % (minus is better)"
_BEST = "Best: at its lowest validation loss."
_INTERVALS = "Lines are 95 % intervals over documents."


def ladder(results: Results) -> Figure | None:
    """The same LM alone, with neighbors, calibrated, and both."""
    measured = results.find(KNN(exactly(paper_retrieval(results.scale))))
    if measured is None:
        return None
    values = [
        ("LM", measured.base.ppl),
        ("LM with neighbors", measured.own_tau.ppl),
        ("calibrated LM", measured.base.calibrated_ppl),
        ("calibrated LM with neighbors", measured.on_calibrated.ppl),
    ]
    caption = "Test perplexity per token of one LM."
    return bars("ladder", title(results, "ladder"), caption, values, "perplexity per token")


_REASONS = (
    ("A second hidden state", ()),
    ("att instead of ffn", ("att-beats-ffn",)),
    ("the same, exact search", ("att-beats-ffn-exact",)),
    ("a softmax learned on att instead of ffn", ("head-on-att-beats-ffn",)),
    ("Approximate search", ()),
    ("an index instead of exact search", ("index-beats-exact",)),
    ("its neighbors, exact scores", ("index-neighbors-beat-exact-ones",)),
    ("Temperature", ()),
    ("its own τ instead of τ = 1", ("own-tau-beats-tau-1-exact",)),
)


def reasons(results: Results, findings: Findings) -> Figure | None:
    """The effects behind the paper's three reasons, at its temperature and at each setting's
    own."""
    lines = []
    for label, topics in _REASONS:
        if not topics:
            lines.append(Line(label, (), heading=True))
            continue
        (topic,) = topics
        by_at = [_first(findings, topic, ats) for ats in (("one-tau", "tau-1"), ("own-tau", ""))]
        over = _first(findings, topic, ("calibrated",))
        if all(finding is None for finding in by_at):
            continue
        paper = next((f.claim.paper for f in by_at if f is not None and f.claim.paper), None)
        estimates = [None if f is None else _percent(f.per_token) for f in (*by_at, over)]
        lines.append(Line(label, estimates, None if paper is None else _papers_per_token(paper)))
    if all(line.heading for line in lines):
        return None
    return forest(
        "reasons",
        title(results, "reasons"),
        f"The effects behind them, as the paper compares settings and fairly. {_INTERVALS} The "
        "paper's changes are converted from words to its own tokens.",
        lines,
        ("at one τ for all", "each at its own τ", "over the calibrated LM"),
        PER_TOKEN,
    )


def _first(findings: Findings, topic: str, ats: Sequence[str]) -> Finding | None:
    for at in ats:
        claim_id = f"{topic}@{at}" if at else topic
        if claim_id in findings and findings[claim_id].verdict != "not measured":
            return findings[claim_id]
    return None


def _papers_per_token(effect: float) -> float:
    """The change, in percent per token, of an effect that the paper printed per word."""
    return 100 * float((1 + effect) ** (-1 / PAPER_TOKENS_PER_WORD) - 1)


def _percent(change: Change) -> Estimate:
    return Estimate(*(100 * value for value in change))


def regimes_figures(results: Results) -> list[Figure]:
    """One effect in every LM: approximate search, the hidden state, and the gain itself."""
    every = all_regimes(results)
    if not every:
        return []

    def figure(name: str, caption: str, field: str) -> Figure:
        lines = [_regime_line(regime, getattr(regime, field)) for regime in every]
        return forest(
            name, title(results, name), f"{caption} {_INTERVALS}", lines, ("",), PER_TOKEN
        )

    return [
        figure(
            "regimes-index",
            f"An index instead of exact search, each at its own τ. {_BEST}",
            "by_index",
        ),
        figure(
            "regimes-att",
            f"att instead of ffn, exact search, each at its own τ. {_BEST}",
            "att",
        ),
        figure(
            "regimes-gain",
            "Neighbors on top of the calibrated LM.",
            "over_calibrated",
        ),
    ]


def _regime_line(regime: Regime, finding: Finding) -> Line:
    return Line(regime.label, (_percent(finding.per_token),))


def shares_figure(results: Results) -> Figure | None:
    """How much of the neighbors' gain other things have, over the calibrated LM."""
    knn = KNN(exactly(paper_retrieval(results.scale)))
    size = results.scale.learning.clusters[0]
    compared = (
        ("a learned head on ffn", Learned(state="ffn")),
        ("a learned head on att", Learned()),
        ("clusters of att", clusters_of("att", size)),
        ("clusters of ffn", clusters_of("ffn", size)),
        ("all entries, no mask (att)", FullDatastore()),
        ("all entries, no mask (ffn)", FullDatastore(state="ffn")),
    )
    lines = []
    for label, condition in compared:
        share = share_of_gain(
            results, results.seeds(condition), knn, CALIBRATED.point, CALIBRATED.base
        )
        if share.value == share.value:
            values = (100 * value for value in share)
            lines.append(Line(label, (Estimate(*values),)))
    if not lines:
        return None
    return forest(
        "shares",
        title(results, "shares"),
        f"Share of what the nearest {knn.retrieval.k:,} neighbors gain over the calibrated LM. "
        f"{_INTERVALS}",
        lines,
        ("",),
        "share of the neighbors' gain, %",
    )


_BESIDE = (
    ("on top of the LM alone", "neighbors-help-1-lm@calibrated"),
    ("of 2 LMs mixed", "neighbors-help-2-lms@calibrated"),
    ("of 3 LMs mixed", "neighbors-help-3-lms@calibrated"),
    ("of 4 LMs mixed", "neighbors-help-4-lms@calibrated"),
    ("of the LM and one that memorizes", "neighbors-help-beside-memory@calibrated"),
)


def beside_figure(results: Results, findings: Findings) -> Figure | None:
    """What neighbors still gain beside other LMs."""
    lines = [
        Line(label, (_percent(findings[claim_id].per_token),))
        for label, claim_id in _BESIDE
        if claim_id in findings and findings[claim_id].verdict != "not measured"
    ]
    if not lines:
        return None
    return forest(
        "beside",
        title(results, "beside"),
        f"What neighbors gain, every LM calibrated, all weights fitted together. {_INTERVALS}",
        lines,
        ("",),
        PER_TOKEN,
    )


def sizes_figure(results: Results) -> Figure | None:
    """Perplexity against the size of the datastore (fig:datastore_size)."""
    scale = results.scale
    index = paper_retrieval(scale)
    settings = (
        ("index", index),
        ("index, exact scores", replace(index, score="exact")),
        ("exact search", exactly(index)),
    )
    lines = []
    for label, setting in settings:
        points = [(100 * f, _mean_over_draws(results, setting, f)) for f in scale.fractions]
        known = [(x, y) for x, y in points if y is not None]
        if known:
            lines.append(Curve(label, [x for x, _ in known], [y for _, y in known]))
    measured = results.find(KNN(exactly(index)))
    if not lines or measured is None:
        return None
    return curves(
        "sizes",
        title(results, "sizes"),
        "Test perplexity per token at each setting's own τ, means over random parts.",
        lines,
        ("share of the datastore, %", "perplexity per token"),
        level=("LM alone", measured.base.ppl),
    )


def _mean_over_draws(results: Results, setting: Retrieval, fraction: float) -> float | None:
    draws = range(results.scale.draws if fraction < 1 else 1)
    parts = [KNN(replace(setting, fraction=fraction, draw=draw)) for draw in draws]
    values = [results.ppl(part, OWN_TAU.point) for part in parts if part in results]
    return sum(values) / len(values) if values else None


def temperatures_figure(results: Results) -> Figure | None:
    """Perplexity against τ (fig:full_temperature)."""
    index = paper_retrieval(results.scale)
    settings = (
        ("index", index),
        ("index, exact scores", replace(index, score="exact")),
        ("exact search", exactly(index)),
    )
    lines, base = [], None
    for label, setting in settings:
        measured = results.find(TemperatureCurve(setting))
        if measured is not None:
            base = measured.base.ppl
            points = [(p.temperature, p.ppl) for p in measured.points]
            lines.append(Curve(label, [x for x, _ in points], [y for _, y in points]))
    if base is None:
        return None
    return curves(
        "temperatures",
        title(results, "temperatures"),
        "Test perplexity per token against τ, λ fitted at each.",
        lines,
        ("retrieval temperature τ", "perplexity per token"),
        log=True,
        level=("LM alone", base),
    )


def ensembles_figure(results: Results) -> Figure | None:
    """K LMs, and K-1 LMs with neighbors (fig:ensemble)."""
    lines = []
    for label, knn in (("LMs", False), ("LMs and neighbors", True)):
        points = []
        for count in range(len(results.scale.ruled_out.ensemble) + 1):
            ensemble = with_lms(results.scale, count, knn)
            if ensemble in results:
                points.append((count + 1 + knn, results.ppl(ensemble, CALIBRATED.point)))
        if points:
            lines.append(Curve(label, [x for x, _ in points], [y for _, y in points]))
    if not any(len(line.x) > 1 for line in lines):
        return None
    return curves(
        "ensembles",
        title(results, "ensembles"),
        "Test perplexity per token against the number of components, every LM calibrated.",
        lines,
        ("components", "perplexity per token"),
    )
