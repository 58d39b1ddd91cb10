"""An ensemble: which LMs and neighbors are mixed with a base LM, and what its measurement is."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from knnlm.experiments.base_lms import MAIN, AboutLM, Checkpoint
from knnlm.experiments.plan import Costs, Step
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.measurement import BaseNumbers, Documents, WeightsPoint
from knnlm_paper.retrieval import Retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace

FACTORS = (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
"""Multiples of each LM's own best temperature that are tried."""


@dataclass(frozen=True, kw_only=True)
class OtherLM:
    """A further LM: what is known of it, its numbers alone, and beside the base LM."""

    name: str
    kept: int | None
    """The update at which it was kept; None is the best on validation."""
    lm: AboutLM
    ppl: float
    calibrated_ppl: float
    calibrated_temperature: float
    calibrated_share: float
    oracle: float
    helping: float


@dataclass(frozen=True, kw_only=True)
class CalibratedWeights(WeightsPoint):
    """A mixture of calibrated LMs; `shares` are those of LMs and neighbors."""

    unigrams: float
    """The share of plain token frequencies."""
    factor: float
    """One for all LMs, on the temperature at which each is best alone."""


@dataclass(frozen=True, kw_only=True)
class EnsembleMeasurement:
    """Weights and perplexities, LMs as they are and calibrated."""

    lm: AboutLM
    base: BaseNumbers
    others: tuple[OtherLM, ...]
    own_tau: WeightsPoint
    on_calibrated: CalibratedWeights
    documents: Documents


@dataclass(frozen=True)
class Ensemble(PaperCondition[EnsembleMeasurement]):
    """The base LM mixed with further LMs, and with neighbors of its own, all weights fitted
    together."""

    measurement_type = EnsembleMeasurement
    others: tuple[Checkpoint, ...] = ()
    neighbors: tuple[Retrieval, ...] = ()
    lm: Checkpoint = MAIN

    @property
    def name(self) -> str:
        """Of all parts."""
        names = [lm + (f"-step-{step}" if step is not None else "") for lm, step in self.others]
        names += [f"{r.state}_{r.metric}_{r.search}" for r in self.neighbors]
        return f"{self.lm.name}_ensemble_{'+'.join(names)}"

    @property
    def label(self) -> str:
        """What is mixed with the base LM."""
        names = [
            lm + (f" at update {step:,}" if step is not None else "") for lm, step in self.others
        ]
        return " + ".join([*names, *(f"neighbors ({r.state})" for r in self.neighbors)])

    @property
    def other_lms(self) -> tuple[Checkpoint, ...]:
        """The further LMs."""
        return self.others

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """Those of the neighbors."""
        return self.neighbors

    def with_lm(self, lm: str) -> Self:
        """The same further LMs with another base LM and its neighbors."""
        neighbors = tuple(replace(r, lm=lm) for r in self.neighbors)
        return replace(self, lm=self.lm._replace(name=lm), neighbors=neighbors)

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """All logits of both texts for each LM and factor, and a pass over the neighbors for each
        τ."""
        queries = scale.sizes.valid + scale.sizes.test
        logits = sum(2 * costs.parameters(lm.name)[1] for lm in (self.lm, *self.others))
        ks = [r.k for r in self.neighbors]
        return [self.measuring_step(scale, ks, more=len(FACTORS) * queries * logits)]

    def measure(self, workspace: "PaperWorkspace") -> EnsembleMeasurement:
        """LMs as they are, and calibrated."""
        from knnlm_paper.conditions.ensemble.measure import EnsembleMeasurer

        return workspace.tool(EnsembleMeasurer).measure(self)
