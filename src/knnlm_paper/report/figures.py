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
from knnlm_paper.report.evidence import Evidence
from knnlm_paper.report.messages import beside_claims, title
from knnlm_paper.report.regimes import Regime
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval

PER_TOKEN = "change per token, % (minus is better)"
_BEST = "Best: at its lowest validation loss."
_INTERVALS = "Lines are 95 % intervals over documents."


def ladder(evidence: Evidence) -> Figure | None:
    """The same LM alone, with neighbors, calibrated, and both."""
    results = evidence.results
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
    return bars("ladder", title(evidence, "ladder"), caption, values, "perplexity per token")


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


def reasons(evidence: Evidence) -> Figure | None:
    """The effects behind the paper's three reasons, at its temperature and at each setting's
    own."""
    lines = []
    for label, topics in _REASONS:
        if not topics:
            lines.append(Line(label, (), heading=True))
            continue
        (topic,) = topics
        by_at = [
            _first(evidence.findings, topic, ats) for ats in (("one-tau", "tau-1"), ("own-tau", ""))
        ]
        over = _first(evidence.findings, topic, ("calibrated",))
        if all(finding is None for finding in by_at):
            continue
        paper = next((f.claim.paper for f in by_at if f is not None and f.claim.paper), None)
        estimates = [None if f is None else _percent(f.per_token) for f in (*by_at, over)]
        lines.append(Line(label, estimates, None if paper is None else _papers_per_token(paper)))
    if all(line.heading for line in lines):
        return None
    return forest(
        "reasons",
        title(evidence, "reasons"),
        f"The effects behind them, as the paper compares settings and fairly. {_INTERVALS} The "
        "paper's changes are converted from words to its own tokens.",
        lines,
        ("at one τ for all", "each at its own τ", "over the calibrated LM"),
        PER_TOKEN,
    )


def _first(findings: Findings, topic: str, ats: Sequence[str]) -> Finding | None:
    mixed = {"" if f.claim.at is None else f.claim.at.id: f for f in findings.of_topic(topic)}
    measured = {at: f for at, f in mixed.items() if f.verdict != "not measured"}
    return next((measured[at] for at in ats if at in measured), None)


def _papers_per_token(effect: float) -> float:
    """The change, in percent per token, of an effect that the paper printed per word."""
    return 100 * float((1 + effect) ** (-1 / PAPER_TOKENS_PER_WORD) - 1)


def _percent(change: Change) -> Estimate:
    return Estimate(*(100 * value for value in change))


def regimes_figures(evidence: Evidence) -> list[Figure]:
    """One effect in every LM: approximate search, the hidden state, and the gain itself."""
    every = evidence.regimes
    if not every:
        return []

    def figure(name: str, caption: str, field: str) -> Figure:
        lines = [_regime_line(regime, getattr(regime, field)) for regime in every]
        return forest(
            name, title(evidence, name), f"{caption} {_INTERVALS}", lines, ("",), PER_TOKEN
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


def shares_figure(evidence: Evidence) -> Figure | None:
    """How much of the neighbors' gain other things have, over the calibrated LM."""
    results = evidence.results
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
        title(evidence, "shares"),
        f"Share of what the nearest {knn.retrieval.k:,} neighbors gain over the calibrated LM. "
        f"{_INTERVALS}",
        lines,
        ("",),
        "share of the neighbors' gain, %",
    )


def beside_figure(evidence: Evidence) -> Figure | None:
    """What neighbors still gain beside other LMs."""
    lines = [
        Line(label, (_percent(finding.per_token),))
        for claim_id, label in beside_claims(evidence.results).items()
        if (finding := evidence.findings[claim_id]).verdict != "not measured"
    ]
    if not lines:
        return None
    return forest(
        "beside",
        title(evidence, "beside"),
        f"What neighbors gain, every LM calibrated, all weights fitted together. {_INTERVALS}",
        lines,
        ("",),
        PER_TOKEN,
    )


def sizes_figure(evidence: Evidence) -> Figure | None:
    """Perplexity against the size of the datastore (fig:datastore_size)."""
    results = evidence.results
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
        title(evidence, "sizes"),
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


def temperatures_figure(evidence: Evidence) -> Figure | None:
    """Perplexity against τ (fig:full_temperature)."""
    results = evidence.results
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
        title(evidence, "temperatures"),
        "Test perplexity per token against τ, λ fitted at each.",
        lines,
        ("retrieval temperature τ", "perplexity per token"),
        log=True,
        level=("LM alone", base),
    )


def ensembles_figure(evidence: Evidence) -> Figure | None:
    """K LMs, and K-1 LMs with neighbors (fig:ensemble)."""
    results = evidence.results
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
        title(evidence, "ensembles"),
        "Test perplexity per token against the number of components, every LM calibrated.",
        lines,
        ("components", "perplexity per token"),
    )
