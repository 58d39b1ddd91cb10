"""What all kinds of conditions have in common, and those about one retrieval."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from knnlm.experiments.base_lms import Checkpoint
from knnlm.experiments.condition import Condition, M
from knnlm.experiments.plan import Costs, Step
from knnlm.experiments.searches import SearchSpec, largest_k
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace  # noqa: F401

TAUS = 50
"""Passes over the neighbors for each condition, about."""
_SOFTMAX = 1000.0  # slower than matrix products, as in SLOWER of the library's plan
_RECORD_BYTES = 8_000
_TAUGHT_BY_NEIGHBORS = "knn-lm"


class PaperCondition(Condition["PaperWorkspace", M]):
    """A condition that knows what it is called, what it needs and what it costs.

    A kind is a frozen dataclass with its `measurement_type`, `name`, `label`, `measure` and
    `with_lm`; the rest has defaults. It is listed once, in `KINDS` (conditions/__init__.py)."""

    reads_texts: ClassVar[bool] = True
    """Whether its LMs must read the texts."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is called in tables."""

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """What must be retrieved."""
        return ()

    @property
    def searches(self) -> dict[SearchSpec, int]:
        """Those of its retrievals."""
        return largest_k({r.spec: r.k} for r in self.retrievals)

    def references(self, scale: Scale) -> tuple[Retrieval, ...]:
        """Retrievals of other conditions whose τ or λ it uses: those of its LMs' teachers."""
        taught = any(_teacher(scale, lm) for lm in (*self.other_lms, self.lm))
        return (exactly(paper_retrieval(scale)),) if taught else ()

    def teachers(self, scale: Scale) -> frozenset[Checkpoint]:
        """LMs whose neighbors of the whole training text it needs, because they teach."""
        taught = any(_teacher(scale, lm) for lm in (*self.other_lms, self.lm))
        return frozenset({Checkpoint("main")} if taught else ())

    def cost(self, costs: Costs, scale: Scale) -> list[Step]:
        """Its steps beside LMs, datastores and searches, which conditions share. A step that
        several conditions have is done once.

        Args:
            costs: The work of the shared steps, in operations.
            scale: The scale of the reproduction.
        """
        return [self.measuring_step(scale, [r.k for r in self.retrievals])]

    def measuring_step(
        self, scale: Scale, ks: Iterable[int], taus: int = TAUS, more: float = 0.0
    ) -> Step:
        """The step of tuning and reporting.

        Args:
            scale: The scale of the reproduction.
            ks: The number of neighbors of each retrieval.
            taus: How many τ are tried.
            more: Further operations.
        """
        queries = scale.sizes.valid + scale.sizes.test
        work = queries * sum(_SOFTMAX * taus * k for k in ks) + more
        return Step("measure", self.name, work, _RECORD_BYTES)

    @property
    def has_seed(self) -> bool:
        """Whether something in it is learned from a start that a seed chooses."""
        return False

    def with_seed(self, seed: int) -> Self:
        """The same, learned from another start; itself where nothing is learned."""
        return self

    @abstractmethod
    def with_lm(self, lm: str) -> Self:
        """The same of another LM of the same recipe."""


def _teacher(scale: Scale, lm: Checkpoint) -> bool:
    """Whether an LM learned from the main LM's neighbors."""
    return scale.other(lm.name) is None and scale.lm(lm.name).teacher == _TAUGHT_BY_NEIGHBORS


@dataclass(frozen=True)
class OfRetrieval(PaperCondition[M]):
    """A condition about one retrieval."""

    retrieval: Retrieval

    @property
    def name(self) -> str:
        """The retrieval's, and what is measured of it."""
        return f"{self.retrieval.name}_{self.kind}"

    @property
    def lm(self) -> Checkpoint:
        """The LM whose neighbors are retrieved."""
        return self.retrieval.checkpoint

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """The one."""
        return (self.retrieval,)

    def with_lm(self, lm: str) -> Self:
        """Neighbors of another LM."""
        return replace(self, retrieval=replace(self.retrieval, lm=lm))
