"""The demo report's sentences that depend on its numbers, as plain text."""

import math

from knnlm import formats
from knnlm.evaluation import Passage
from knnlm.report.results import ConditionResult, Curve, DemoResults
from knnlm.report.tokens import gain

PERPLEXITY = (
    "Perplexity is the number of equally likely tokens that would be as hard to choose from: "
    "lower is better."
)


def best_condition(results: DemoResults) -> int | None:
    """The index of the condition with the lowest mixed perplexity on the validation text.

    Chosen there and not on the reported text, so that choosing among conditions does not flatter
    the result. The first of equals; None without conditions.
    """
    conditions = results.conditions
    return min(range(len(conditions)), key=lambda i: conditions[i].valid_ppl, default=None)


def headline(results: DemoResults) -> str:
    """The main result in one sentence; it claims a change only where the interval excludes none."""
    index = best_condition(results)
    if index is None:
        return "No retrieval condition was measured."
    best = results.conditions[index]
    low, high = best.ratio_ci95 or (math.nan, math.nan)
    numbers = f"from {formats.perplexity(best.base_ppl)} to {formats.perplexity(best.interp_ppl)}"
    interval = formats.change_interval(best.ratio_ci95)
    change = f"({formats.change(best.ratio)}, 95{formats.NBSP}% interval {interval})"
    if high < 1:
        return f"Retrieval lowered perplexity on unseen text {numbers} {change}."
    if low > 1:
        return f"Retrieval raised perplexity on unseen text {numbers} {change}."
    return f"Retrieval made no clear difference: perplexity on unseen text went {numbers} {change}."


def control(results: DemoResults) -> str:
    """How much of the headline is left beside an LM that is calibrated without retrieval."""
    index = best_condition(results)
    best = None if index is None else results.conditions[index]
    if best is None or best.calibrated_ppl is None or best.calibrated_interp_ppl is None:
        return ""
    alone, mixed = (
        formats.perplexity(ppl) for ppl in (best.calibrated_ppl, best.calibrated_interp_ppl)
    )
    interval = formats.change_interval(best.calibrated_ratio_ci95)
    change = formats.change(best.calibrated_interp_ppl / best.calibrated_ppl)
    return (
        "The control is the calibrated LM, whose softmax temperature and unigram share are fitted "
        f"and which retrieves nothing: {alone} "
        f"({formats.change(best.calibrated_ppl / best.base_ppl)}). Retrieval takes it to {mixed} "
        f"({change}, 95{formats.NBSP}% interval {interval})."
    )


def basis(results: DemoResults) -> str:
    """How much text the headline rests on, and which of how many conditions."""
    measured = (
        f"Measured on {formats.count(results.tokens)} tokens ({formats.count(results.words)} words)"
        f" with {formats.count(results.entries)} entries in the datastore."
    )
    index = best_condition(results)
    if index is None:
        return measured
    best = results.conditions[index]
    among = (
        f"The best of {len(results.conditions)} conditions on the validation text"
        if len(results.conditions) > 1
        else "The only condition"
    )
    tuned = (
        _equals("λ", formats.significant(best.lam)),
        _equals("τ", formats.significant(best.tau)),
        _equals("k", formats.count(best.k)),
    )
    return f"{measured} {among}: {describe(best)}, {', '.join(tuned)}."


def describe(condition: ConditionResult) -> str:
    """The condition's four choices in a few words."""
    scores = "" if condition.search == "exact" else f", {condition.score} scores"
    return f"key {condition.key}, metric {condition.metric}, {condition.search} search{scores}"


def passage_summary(passage: Passage) -> str:
    """How many tokens of the passage retrieval helped and hurt, and its perplexity."""
    gains = [gain(token) for token in passage.tokens]
    helped, hurt = sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    before = _perplexity([token.lm_logprob for token in passage.tokens])
    after = _perplexity([token.mixed_logprob for token in passage.tokens])
    numbers = f"from {formats.perplexity(before)} to {formats.perplexity(after)}"
    return (
        f"Of {len(gains)} tokens, {helped} became more likely and {hurt} less likely; "
        f"the perplexity of this passage went {numbers}."
    )


def lowest(curves: tuple[Curve, ...], symbol: str) -> str:
    """Which curve goes lowest, and where; empty if no curve has an optimum."""
    marked = [(curve.best[1], curve.best[0], curve.label) for curve in curves if curve.best]
    if not marked:
        return ""
    y, x, label = min(marked)
    return f"Lowest: {label}, {formats.perplexity(y)} at {_equals(symbol, formats.significant(x))}."


def base_level(results: DemoResults) -> float | None:
    """The LM's perplexity on the validation text: a λ curve at λ = 0.

    The conditions hold only that of the test text.
    """
    for curve in results.lambda_curves:
        for x, y in zip(curve.x, curve.y, strict=True):
            if x == 0 and math.isfinite(y):
                return y
    return None


def _equals(symbol: str, value: str) -> str:
    """An equation that no line end can split."""
    return f"{symbol}{formats.NBSP}={formats.NBSP}{value}"


def _perplexity(logprobs: list[float]) -> float:
    if not logprobs or -math.inf in logprobs:
        return math.inf if logprobs else math.nan
    return math.exp(min(-sum(logprobs) / len(logprobs), 700.0))
