"""The sentences of a report that depend on its numbers: what came out, in plain words.

Plain text only: `page` escapes it, `terminal` prints it.
"""

import math

from knnlm.evaluation.explanation import ExplainedToken, Passage
from knnlm.report import formats
from knnlm.report.content import Curve, Page, Row

PERPLEXITY = "Perplexity is the number of equally likely tokens that would be as hard to choose from: lower is better."


def best(page: Page) -> int | None:
    """The place of the row with the lowest mixed perplexity on the validation text, the first of
    equals.

    Chosen there and not on the reported text, so that choosing among settings does not flatter the
    result."""
    places = range(len(page.rows))
    return min(places, key=lambda i: page.rows[i].valid_ppl, default=None)


def headline(page: Page) -> str:
    """The main result in one sentence; it claims a change only where the interval excludes none."""
    place = best(page)
    if place is None:
        return "No retrieval setting was measured."
    row = page.rows[place]
    low, high = row.ratio_ci95
    numbers = f"from {formats.perplexity(row.base_ppl)} to {formats.perplexity(row.interp_ppl)}"
    changed = formats.change(row.interp_ppl / row.base_ppl)
    interval = f"({changed}, 95{formats.NBSP}% interval {between(row)})"
    if high < 1:
        return f"Retrieval lowered perplexity on unseen text {numbers} {interval}."
    if low > 1:
        return f"Retrieval raised perplexity on unseen text {numbers} {interval}."
    return (
        f"Retrieval made no clear difference: perplexity on unseen text went {numbers} {interval}."
    )


def between(row: Row) -> str:
    """The 95 % interval of the change."""
    return formats.change_interval(*row.ratio_ci95)


def circumstances(page: Page) -> str:
    """What the headline rests on: how much text, and which of how many settings."""
    measured = (
        f"Measured on {formats.count(page.tokens)} tokens ({formats.count(page.words)} words) "
        f"with {formats.count(page.store_rows)} stored contexts."
    )
    place = best(page)
    if place is None:
        return measured
    row = page.rows[place]
    among = (
        f"The best of {len(page.rows)} settings on the validation text"
        if len(page.rows) > 1
        else "The only setting"
    )
    knobs = (
        _equals("λ", formats.significant(row.lam)),
        _equals("τ", formats.significant(row.temperature)),
        _equals("k", formats.count(row.k)),
    )
    return f"{measured} {among}: {setting(row)}, {', '.join(knobs)}."


def setting(row: Row) -> str:
    """The row's four choices in a few words."""
    scores = "" if row.mask == "exact" else f", {row.score} scores"
    return f"key {row.key}, metric {row.metric}, {row.mask} search{scores}"


def gain(token: ExplainedToken) -> float:
    """What retrieval changed for one token, in nats; 0 where both say it was impossible."""
    if token.mixed_logprob == token.lm_logprob:
        return 0.0  # also -inf against -inf, which would not be a number
    return token.mixed_logprob - token.lm_logprob


def gain_text(token: ExplainedToken) -> str:
    """The gain in nats and as a factor."""
    nats = gain(token)
    factor = f" (×{formats.significant(math.exp(nats))})" if abs(nats) < 700 else ""
    return f"{formats.signed(nats, 2)} nats{factor}"


def token_text(token: ExplainedToken) -> str:
    """One token's numbers on one line, for who cannot or does not open the panel."""
    return (
        f"language model {formats.probability(token.lm_logprob)} · "
        f"neighbours {formats.probability(token.component_logprob)} · "
        f"mixed {formats.probability(token.mixed_logprob)} · "
        f"gain {gain_text(token)}"
    )


def passage_text(passage: Passage) -> str:
    """How the passage as a whole fared."""
    gains = [gain(token) for token in passage.tokens]
    helped, hurt = sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    before = _perplexity([token.lm_logprob for token in passage.tokens])
    after = _perplexity([token.mixed_logprob for token in passage.tokens])
    numbers = f"from {formats.perplexity(before)} to {formats.perplexity(after)}"
    return (
        f"Of {len(gains)} tokens, {helped} became more likely and {hurt} less likely; "
        f"the perplexity of this passage went {numbers}."
    )


def lowest(curves: tuple[Curve, ...], knob: str) -> str:
    """Which curve goes lowest, and where; empty if no curve has an optimum."""
    marked = [(curve.best[1], curve.best[0], curve.label) for curve in curves if curve.best]
    if not marked:
        return ""
    y, x, label = min(marked)
    return f"Lowest: {label}, {formats.perplexity(y)} at {_equals(knob, formats.significant(x))}."


def base_level(page: Page) -> float | None:
    """The LM's validation perplexity: a λ curve at λ = 0 (the rows hold that of the test text)."""
    for curve in page.lambda_curves:
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
