"""The numbers of an explained token as text and color, for pages, notebooks and terminals."""

import math
from typing import Any, Literal, NamedTuple

from knnlm import formats
from knnlm.evaluation import ExplainedToken, RetrievedNeighbor

CLIP = 2.0
"""Gain in nats from which a color is full."""
_CONTEXT = 160  # characters of a neighbor's context that are shown

Direction = Literal["up", "down", "same"]


class Shade(NamedTuple):
    """The color of a gain: its direction, and its share (0 to 1) of the full color."""

    direction: Direction
    share: float


def gain(token: ExplainedToken) -> float:
    """ln P of the mixture minus ln P of the LM, in nats; 0 where both are -inf."""
    if token.mixed_logprob == token.lm_logprob:
        return 0.0  # also -inf against -inf, which would not be a number
    return token.mixed_logprob - token.lm_logprob


def gain_text(token: ExplainedToken) -> str:
    """The gain in nats and as a factor."""
    nats = gain(token)
    factor = f" (×{formats.significant(math.exp(nats))})" if abs(nats) < 700 else ""
    return f"{formats.signed(nats, 2)} nats{factor}"


def token_text(token: ExplainedToken) -> str:
    """One token's numbers on one line."""
    return (
        f"language model {formats.probability(token.lm_logprob)} · "
        f"neighbors {formats.probability(token.component_logprob)} · "
        f"mixed {formats.probability(token.mixed_logprob)} · "
        f"gain {gain_text(token)}"
    )


def shade(nats: float) -> Shade:
    """The color of a gain."""
    direction: Direction = "up" if nats > 0 else "down" if nats < 0 else "same"
    return Shade(direction, min(abs(nats) / CLIP, 1.0))


def strongest(token: ExplainedToken) -> list[RetrievedNeighbor]:
    """The token's neighbors, the largest weight first."""
    return sorted(token.neighbors, key=lambda neighbor: -neighbor.weight)


def neighbor_context(neighbor: RetrievedNeighbor, limit: int = _CONTEXT) -> str:
    """The end of the text before a neighbor's token, on one line."""
    return formats.visible(formats.tail(neighbor.before, limit))


def panel_data(tokens: tuple[ExplainedToken, ...]) -> dict[str, Any]:
    """What the page's script shows about each token, as JSON; `start` is the largest gain."""
    gains = [gain(token) for token in tokens]
    return {"start": gains.index(max(gains)), "tokens": [_token_data(token) for token in tokens]}


def _token_data(token: ExplainedToken) -> dict[str, Any]:
    return {
        "text": formats.visible(token.text),
        "gain": gain_text(token),
        "parts": [
            _part("LM", token.lm_logprob),
            _part("kNN", token.component_logprob),
            _part("", token.mixed_logprob),
        ],
        "neighbors": [_neighbor_data(neighbor) for neighbor in strongest(token)],
    }


def _part(subscript: str, logprob: float) -> dict[str, Any]:
    return {
        "of": subscript,
        "text": formats.probability(logprob),
        "share": round(math.exp(logprob), 4),
    }


def _neighbor_data(neighbor: RetrievedNeighbor) -> dict[str, Any]:
    return {
        "before": neighbor_context(neighbor),
        "token": formats.visible(neighbor.token),
        "weight": formats.percent(neighbor.weight),
        "share": round(neighbor.weight, 4),
        "document": formats.visible(neighbor.document),
        "target": neighbor.is_target,
    }
