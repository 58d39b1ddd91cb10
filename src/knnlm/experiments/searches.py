"""What one search depends on, so that conditions that agree in it share the search."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from knnlm.errors import UsageError, unknown
from knnlm.experiments.base_lms import Checkpoint
from knnlm.similarity import Metric, checked_metric

NORMALIZED = "-normed"
"""Ends the name of a state of which the LayerNorm without gain or bias is taken."""
_STATES = ("att", "ffn")


class SearchSpec(NamedTuple):
    """Which entries are searched, and how. How many neighbors and what is done with them is not
    part of it.

    In the equation: h_ds is `state` of the LM (`lm`, `step`); W_ds the datastore of its training
    text, or what is made of it (`fraction`, `draw`, `zeros`, `width`); ⊗ is `metric`; the mask is
    exact search or the index of `factory` and `nprobe`."""

    lm: str = "main"
    step: int | None = None
    state: str = "att"
    """"att" or "ffn", either with "-normed" for its LayerNorm, or one of the workspace's
    `other_states`."""
    metric: Metric = "l2"
    exact: bool = True
    factory: str | None = None
    """FAISS factory string of the index; None is the default for so many entries."""
    nprobe: int | None = None
    fraction: float = 1.0
    draw: int = 0
    """Which random part, where `fraction` is below one."""
    zeros: float = 0.0
    """Share of all-zero entries in the datastore, with token 0."""
    width: int | None = None
    """States reduced to so many principal components."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The LM, and the update at which it was kept."""
        return Checkpoint(self.lm, self.step)

    @property
    def key(self) -> str:
        """The column of the datastore that holds the state."""
        return "ffn" if self.state.startswith("ffn") else "att"

    @property
    def other_state(self) -> str:
        """The state where it is neither att, ffn nor made from them, else ""."""
        return "" if self.state.removesuffix(NORMALIZED) in _STATES else self.state


def check_search(spec: SearchSpec, other_states: Iterable[str] = ()) -> None:
    """Refuse a search that cannot be done, whatever the datastore holds.

    Args:
        spec: The search.
        other_states: States beside att and ffn that are known.

    Raises:
        UsageError: Its state or metric is not known, or a number is out of range.
    """
    states = (*_STATES, *(state + NORMALIZED for state in _STATES), *other_states)
    if spec.state not in states:
        raise unknown("state", spec.state, states)
    checked_metric(spec.metric)
    if not 0 < spec.fraction <= 1:
        raise UsageError(
            f"fraction {spec.fraction} is out of range: choose a number above 0, at most 1"
        )
    if not 0 <= spec.zeros < 1:
        raise UsageError(f"zeros {spec.zeros} is out of range: choose a number from 0, below 1")


def largest_k(searches: Iterable[Mapping[SearchSpec, int]]) -> dict[SearchSpec, int]:
    """How many neighbors each search must find to serve all conditions.

    Args:
        searches: For each condition, the searches that it needs with the k of each.
    """
    merged: dict[SearchSpec, int] = {}
    for needed in searches:
        for spec, k in needed.items():
            merged[spec] = max(merged.get(spec, 0), k)
    return merged


def zero_entries(count: int, share: float) -> int:
    """How many zero entries, beside `count` others, are `share` of the whole."""
    return round(count * share / (1 - share))
