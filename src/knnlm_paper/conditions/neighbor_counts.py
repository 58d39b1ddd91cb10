"""Perplexity against the number of neighbors k."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from knnlm_paper.conditions.base import OfRetrieval
from knnlm_paper.measurement import BaseNumbers, TauPoint

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True, kw_only=True)
class CountPoint:
    """The k nearest alone."""

    k: int
    coverage: float
    tau_1: TauPoint
    own_tau: TauPoint


@dataclass(frozen=True, kw_only=True)
class NeighborCountsMeasurement:
    """A point for each k."""

    base: BaseNumbers
    points: tuple[CountPoint, ...]


@dataclass(frozen=True)
class NeighborCounts(OfRetrieval[NeighborCountsMeasurement]):
    """Perplexity of a retrieval for several k, each at τ = 1 and at its own τ; all from one search,
    for the retrieval's own k, which is the largest."""

    measurement_type = NeighborCountsMeasurement
    ks: tuple[int, ...]

    @property
    def label(self) -> str:
        """The retrieval in words."""
        return f"perplexity against k ({self.retrieval.label})"

    def measure(self, workspace: "PaperWorkspace") -> NeighborCountsMeasurement:
        """The first k of the neighbors, for each k."""
        from knnlm_paper.measuring.base_lm import base_numbers
        from knnlm_paper.measuring.temperatures import at_tau, best_tau, tau_point

        base, (valid, test) = workspace.base(*self.lm), workspace.both_votes(self.retrieval)
        points = []
        for k in self.ks:
            valid_k, test_k = valid.head(k), test.head(k)
            one = at_tau(base.valid, valid_k, 1.0)
            best = best_tau(base.valid, valid_k, one)
            points.append(
                CountPoint(
                    k=k,
                    coverage=test_k.coverage,
                    tau_1=tau_point(base.test, test_k.logprobs(1.0), one),
                    own_tau=tau_point(base.test, test_k.logprobs(best.tau), best),
                )
            )
        return NeighborCountsMeasurement(
            base=base_numbers(base, workspace.data(self.retrieval.spec)), points=tuple(points)
        )
