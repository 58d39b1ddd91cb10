"""Why a token was predicted: plain data, filled in by whoever looked, shown by report/."""

from typing import NamedTuple


class RetrievedNeighbor(NamedTuple):
    """One neighbor: the text before its token, the token, and its share (0 to 1) of the vote."""

    before: str
    token: str
    weight: float
    document: str
    is_target: bool


class ExplainedToken(NamedTuple):
    """One token: natural log-probabilities under the LM, the component and the mixture."""

    text: str
    lm_logprob: float
    component_logprob: float
    """-inf where the component holds the token impossible: no neighbor voted for it."""
    mixed_logprob: float
    neighbors: tuple[RetrievedNeighbor, ...]
    """The strongest ones, strongest first; none where the component retrieves nothing."""


class Passage(NamedTuple):
    """A stretch of unseen text, explained token by token under one setting."""

    document: str
    setting: str
    tokens: tuple[ExplainedToken, ...]
