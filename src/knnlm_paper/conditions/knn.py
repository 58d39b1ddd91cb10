"""Neighbors mixed with the LM: the numbers of one retrieval at each of three temperatures."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from knnlm.experiments.base_lms import AboutLM
from knnlm_paper.conditions.base import OfRetrieval
from knnlm_paper.measurement import BaseNumbers, Documents, TauPoint, VotesPoint
from knnlm_paper.retrieval import Retrieval, paper_retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True, kw_only=True)
class KNNMeasurement:
    """What one retrieval does for an LM, and for it calibrated."""

    entries: int
    """Of the datastore, without zero entries."""
    recall: float | None
    """recall@k of the search; None where zero entries tie with each other."""
    lm: AboutLM
    base: BaseNumbers
    coverage: float
    """The share of test tokens that some neighbor holds."""
    tau_1: VotesPoint
    one_tau: VotesPoint
    own_tau: VotesPoint
    on_calibrated: TauPoint
    documents: Documents


@dataclass(frozen=True)
class KNN(OfRetrieval[KNNMeasurement]):
    """A retrieval at τ = 1, as the paper's code fixes it, at the best τ of the paper's own
    retrieval, and at its own best τ; and over the calibrated LM."""

    measurement_type = KNNMeasurement

    @property
    def name(self) -> str:
        """The retrieval's."""
        return self.retrieval.name

    @property
    def label(self) -> str:
        """The retrieval in words."""
        return f"neighbors ({self.retrieval.label})"

    def references(self, scale: Scale) -> tuple[Retrieval, ...]:
        """The paper's retrieval of that LM, whose τ is the one for all."""
        return (*super().references(scale), paper_retrieval(scale, *self.lm))

    def measure(self, workspace: "PaperWorkspace") -> KNNMeasurement:
        """Votes at the three temperatures, and over the calibrated LM."""
        from knnlm_paper.measuring.temperatures import at_tau
        from knnlm_paper.measuring.votes import measure_votes

        spec = self.retrieval.spec
        data, votes = workspace.data(spec), workspace.both_votes(self.retrieval)
        one = at_tau(workspace.base(*self.lm).valid, votes[0], workspace.one_tau(*self.lm))
        voted = measure_votes(workspace, self.lm, data, votes, {"one_tau": one})
        return KNNMeasurement(
            entries=data.store.count,
            recall=workspace.recall(spec, self.retrieval.k),
            lm=workspace.lms.about(*self.lm),
            base=voted.base,
            coverage=voted.coverage,
            **voted.points,
            on_calibrated=voted.on_calibrated,
            documents=voted.documents,
        )
