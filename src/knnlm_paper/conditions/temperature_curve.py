"""Perplexity against τ (the paper's figures of temperature)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from knnlm.experiments.plan import Costs, Step
from knnlm_paper.conditions.base import OfRetrieval
from knnlm_paper.measurement import BaseNumbers, TauPoint
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

GRID = tuple(round(0.1 * i, 1) for i in range(1, 31))
"""The paper's temperatures."""
_TAUS = 80  # on the grid, and beyond


@dataclass(frozen=True, kw_only=True)
class TemperatureCurveMeasurement:
    """Points in the order of their τ."""

    base: BaseNumbers
    points: tuple[TauPoint, ...]


@dataclass(frozen=True)
class TemperatureCurve(OfRetrieval[TemperatureCurveMeasurement]):
    """Perplexity of a retrieval over the paper's grid of τ and as far beyond as its optimum lies, λ
    refitted at each."""

    measurement_type = TemperatureCurveMeasurement

    @property
    def label(self) -> str:
        """The retrieval in words."""
        return f"perplexity against τ ({self.retrieval.label})"

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """A pass over the neighbors for each τ."""
        return [self.measuring_step(scale, [self.retrieval.k], _TAUS)]

    def measure(self, workspace: "PaperWorkspace") -> TemperatureCurveMeasurement:
        """The grid, then the search for the best τ."""
        from knnlm.evaluation.tuning import temperature_sweep
        from knnlm_paper.measuring.base_lm import base_numbers
        from knnlm_paper.measuring.temperatures import tau_point

        base, (valid, test) = workspace.base(*self.lm), workspace.both_votes(self.retrieval)
        points = {
            *temperature_sweep(base.valid, valid, GRID),
            *temperature_sweep(base.valid, valid),
        }
        return TemperatureCurveMeasurement(
            base=base_numbers(base, workspace.data(self.retrieval.spec)),
            points=tuple(
                tau_point(base.test, test.logprobs(point.tau), point) for point in sorted(points)
            ),
        )
