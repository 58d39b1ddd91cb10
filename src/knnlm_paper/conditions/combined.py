"""Several substitutes and neighbors of one LM, mixed with it, all weights fitted together."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from knnlm.experiments.base_lms import AboutLM, Checkpoint
from knnlm.experiments.plan import Costs, Step
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.conditions.learned import AddedCost, Learned
from knnlm_paper.measurement import BaseNumbers, Documents, WeightsPoint
from knnlm_paper.retrieval import Retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True, kw_only=True)
class CombinedMeasurement:
    """The mixture over the LM and over the calibrated one: each part at the τ that is best for it
    alone there, all weights fitted together."""

    lm: AboutLM
    base: BaseNumbers
    added: AddedCost
    own_tau: WeightsPoint
    on_calibrated: WeightsPoint
    documents: Documents


@dataclass(frozen=True)
class Combined(PaperCondition[CombinedMeasurement]):
    """Substitutes and neighbors at once."""

    measurement_type = CombinedMeasurement
    parts: tuple[Learned, ...] = ()
    neighbors: tuple[Retrieval, ...] = ()

    def __post_init__(self) -> None:
        if len({part.lm for part in self.parts} | {r.checkpoint for r in self.neighbors}) != 1:
            raise ValueError("what is combined must be of one LM")

    @property
    def name(self) -> str:
        """Of all parts; of neighbors their state, metric and search."""
        lm = self.lm.name
        names = [part.name.removeprefix(f"{lm}_").replace("_learned", "") for part in self.parts]
        names += [f"{r.state}_{r.metric}_{r.search}" for r in self.neighbors]
        return "+".join([f"{lm}_combined_{names[0]}", *names[1:]])

    @property
    def label(self) -> str:
        """The parts in words."""
        names = [part.short_label for part in self.parts]
        return " + ".join([*names, *(f"neighbors ({r.state})" for r in self.neighbors)])

    @property
    def lm(self) -> Checkpoint:
        """The one of all parts."""
        return self.parts[0].lm if self.parts else self.neighbors[0].checkpoint

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """Those of the neighbors."""
        return self.neighbors

    @property
    def has_seed(self) -> bool:
        """Where a part is learned."""
        return bool(self.parts)

    def with_seed(self, seed: int) -> Self:
        """All parts from another start."""
        return replace(self, parts=tuple(part.with_seed(seed) for part in self.parts))

    def with_lm(self, lm: str) -> Self:
        """All parts of another LM."""
        parts = tuple(part.with_lm(lm) for part in self.parts)
        return replace(
            self, parts=parts, neighbors=tuple(replace(r, lm=lm) for r in self.neighbors)
        )

    def teachers(self, scale: Scale) -> frozenset[Checkpoint]:
        """Those of the parts."""
        return super().teachers(scale).union(*(part.teachers(scale) for part in self.parts))

    def references(self, scale: Scale) -> tuple[Retrieval, ...]:
        """Those of the parts."""
        return (
            *super().references(scale),
            *(r for part in self.parts for r in part.references(scale)),
        )

    def made_with(self, workspace: "PaperWorkspace") -> str:
        """How things are learned at the scale."""
        from knnlm_paper.conditions.learned.learner import learning_fingerprint

        return learning_fingerprint(workspace.scale)

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """Learning the parts, and a pass over the neighbors for each τ."""
        steps = [step for part in self.parts for step in part.learning_steps(costs, scale)]
        return [*steps, *super().cost(costs, scale)]

    def measure(self, workspace: "PaperWorkspace") -> CombinedMeasurement:
        """The mixture over the LM, and over the calibrated one."""
        from knnlm_paper.conditions.learned.learner import Learner
        from knnlm_paper.conditions.learned.measure import TunedParts, added_cost
        from knnlm_paper.measuring.base_lm import base_numbers
        from knnlm_paper.measuring.documents import DocumentSums
        from knnlm_paper.measuring.mixtures import fitted_mixture

        data, base = workspace.plain(*self.lm), workspace.base(*self.lm)
        learned = [workspace.tool(Learner).learned(part) for part in self.parts]
        tuned = workspace.tool(TunedParts)
        sums, points = DocumentSums(data, base), {}
        for name, calibrated in (("own_tau", False), ("on_calibrated", True)):
            lm_valid, lm_test = base.over(calibrated)
            mixed_in = [tuned.logprobs(part, calibrated) for part in self.parts]
            mixed_in += [workspace.best_votes(r, lm_valid) for r in self.neighbors]
            mixture = fitted_mixture(
                [lm_valid, *(valid for valid, _ in mixed_in)],
                [lm_test, *(test for _, test in mixed_in)],
            )
            sums.add(name, mixture.test)
            points[name] = mixture.point
        return CombinedMeasurement(
            lm=workspace.lms.about(*self.lm),
            base=base_numbers(base, data),
            added=added_cost(learned, data),
            **points,
            documents=sums.collected(),
        )
