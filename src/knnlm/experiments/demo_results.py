"""What `knnlm demo` shows: its table, curves, one explained passage, facts and next commands."""

from typing import NamedTuple

import numpy as np

from knnlm.api import explain_passage
from knnlm.components import KNN
from knnlm.defaults import COMPONENT_KIND
from knnlm.evaluation import Evaluation, TunedSettings, mix, perplexity, temperature_sweep
from knnlm.experiments.scales import EmbeddedScale
from knnlm.experiments.searches import SearchSpec
from knnlm.experiments.workspace import SearchData, Workspace
from knnlm.report.results import ConditionResult, Curve, DemoResults
from knnlm.search import Retrieval
from knnlm.version import __version__

_LAMBDAS = tuple(float(lam) for lam in np.linspace(0, 0.98, 41))


class Measured(NamedTuple):
    """One condition's result."""

    factory: str
    tuned: TunedSettings
    evaluation: Evaluation
    seconds: float

    @property
    def retrieval(self) -> Retrieval:
        """How it retrieves: every condition of the demo does."""
        assert self.tuned.retrieval is not None
        return self.tuned.retrieval


def demo_results(
    scale: EmbeddedScale,
    workspace: Workspace,
    measured: list[Measured],
    clusters: Evaluation,
    command: str,
    out: str,
) -> DemoResults:
    """Everything that the demo shows.

    Args:
        scale: How large it is.
        workspace: Where it was measured.
        measured: Its conditions, in the table's order.
        clusters: What clusters do without a search.
        command: The command that makes this page.
        out: The demo's folder, for next commands.
    """
    data = workspace.data(SearchSpec())
    best = min(measured, key=lambda condition: condition.tuned.interp_ppl)
    curves = [_curves(data, condition) for condition in measured]
    shown = KNN(data.store, best.retrieval, best.tuned.tau)
    tokenizer = workspace.lms.model("main").tokenizer
    return DemoResults(
        title="knnlm demo: a language model and its nearest neighbors "
        "on Python's own documentation",
        conditions=tuple(_condition(condition) for condition in measured),
        tokens=data.test.count,
        words=data.test.words,
        entries=data.store.count,
        temperature_curves=tuple(taus for taus, _ in curves),
        lambda_curves=tuple(lambdas for _, lambdas in curves),
        passage=explain_passage(
            data.store, data.test, shown, best.retrieval, best.tuned.lam, tokenizer
        ),
        facts=_facts(scale, workspace, data, measured, clusters),
        commands=_next_commands(out),
        command=command,
    )


def _curves(data: SearchData, condition: Measured) -> tuple[Curve, Curve]:
    """Validation perplexity against τ (λ fitted at each) and against λ (at the tuned τ)."""
    retrieval, tuned = condition.retrieval, condition.tuned
    search = "exact" if retrieval.exact else "approximate"
    label = f"{retrieval.key} {retrieval.metric} {search}"
    lm = data.valid.lm_logprob.astype(np.float64)
    votes = KNN(data.store, retrieval).target_scores(data.valid)
    points = temperature_sweep(lm, votes)
    taus = Curve(
        label,
        tuple(point.units for point in points),
        tuple(point.ppl for point in points),
        (tuned.tau_units, tuned.interp_ppl),
    )
    knn = votes.logprobs(tuned.tau)
    perplexities = tuple(perplexity(mix(lm, knn, lam)) for lam in _LAMBDAS)
    return taus, Curve(label, _LAMBDAS, perplexities, (tuned.lam, tuned.interp_ppl))


def _condition(condition: Measured) -> ConditionResult:
    """The condition's row of the table."""
    retrieval = condition.retrieval
    return ConditionResult(
        **vars(condition.evaluation),
        key=retrieval.key,
        metric=retrieval.metric,
        search=condition.factory,
        score=retrieval.score,
        valid_ppl=condition.tuned.interp_ppl,
        seconds=condition.seconds,
    )


def _facts(
    scale: EmbeddedScale,
    workspace: Workspace,
    data: SearchData,
    measured: list[Measured],
    clusters: Evaluation,
) -> tuple[tuple[str, str], ...]:
    preset, trained, store = scale.preset, workspace.lms.trained("main"), data.store
    return (
        ("Text", "docstrings and language reference of this Python, split by module"),
        (
            "Base LM",
            f"OPT class, {preset.layers} layers, width {preset.width}, "
            f"{trained.parameters:,} parameters",
        ),
        (
            "Training",
            f"{trained.steps:,} updates on {trained.train_tokens:,} tokens, "
            f"{trained.tokens_per_second:,.0f} tokens/s, validation perplexity "
            f"{trained.valid_ppl:.1f}",
        ),
        (
            "Datastore",
            f"{store.count:,} entries, window {store.meta['window']}, "
            f"stride {store.meta['stride']}",
        ),
        ("Validation text", f"{data.valid.count:,} tokens (λ and τ are tuned here)"),
        (
            "Test text",
            f"{data.test.count:,} tokens, {data.test.words:,} words (everything is reported here)",
        ),
        (
            "Without a search",
            f"clusters of {store.keys[0]} instead of its entries: {clusters.base_ppl:.1f} → "
            f"{clusters.interp_ppl:.1f} at λ = {clusters.lam:.2f} (knnlm distill)",
        ),
        ("Interval", f"paired bootstrap, resampling each {measured[0].evaluation.ratio_ci95_unit}"),
        ("Scale", scale.name),
        ("knnlm", __version__),
    )


def _next_commands(out: str) -> tuple[str, ...]:
    return (
        f"knnlm info {out}/store",
        f"knnlm generate {out}/store 'The with statement is used' --max-new-tokens 20 --explain",
        f"knnlm eval {out}/store --embedded --component {COMPONENT_KIND}   # on all of the test "
        "text, so with other numbers",
        f"knnlm build {out}/model --text YOUR_FOLDER --split 90,5,5 --out mystore",
        "knnlm tune mystore",
        "knnlm eval mystore",
    )
