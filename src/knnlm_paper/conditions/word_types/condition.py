"""Word by word, how much more often exact neighbors help than approximate ones (appendix D)."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from knnlm.experiments.base_lms import Checkpoint
from knnlm_paper.conditions.base import PaperCondition
from knnlm_paper.retrieval import Retrieval

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


@dataclass(frozen=True, kw_only=True)
class WordType:
    """One type of the vocabulary in the test text."""

    token: str
    occurrences: int
    length: int
    """In characters."""
    forward: float
    """Entropy of the token that follows, in nats."""
    backward: float
    """Entropy of the token before."""
    exact: float
    """The share of its occurrences that exact neighbors help."""
    approximate: float
    """The same of approximate ones."""


@dataclass(frozen=True, kw_only=True)
class WordTypesMeasurement:
    """Every type that occurs often enough, in the order of their ids."""

    types: tuple[WordType, ...]


@dataclass(frozen=True)
class WordTypes(PaperCondition[WordTypesMeasurement]):
    """How much more often one retrieval helps than another, beside what kind of word it is."""

    measurement_type = WordTypesMeasurement
    exact: Retrieval
    approximate: Retrieval
    least: int
    """Words that occur less often in the test text are left out."""

    @property
    def name(self) -> str:
        """Of both retrievals."""
        return f"{self.exact.name}_{self.kind}-against-{self.approximate.search}"

    @property
    def label(self) -> str:
        """Both retrievals in words."""
        return f"word types ({self.exact.label}, against {self.approximate.search_label})"

    @property
    def lm(self) -> Checkpoint:
        """The one of both retrievals."""
        return self.exact.checkpoint

    @property
    def retrievals(self) -> tuple[Retrieval, ...]:
        """Both."""
        return (self.exact, self.approximate)

    def with_lm(self, lm: str) -> Self:
        """Neighbors of another LM."""
        return replace(
            self, exact=replace(self.exact, lm=lm), approximate=replace(self.approximate, lm=lm)
        )

    def measure(self, workspace: "PaperWorkspace") -> WordTypesMeasurement:
        """Each retrieval at its own τ."""
        from knnlm_paper.conditions.word_types.types import word_types
        from knnlm_paper.measuring.temperatures import best_tau

        base, data = workspace.base(*self.lm), workspace.data(self.exact.spec)
        helped = []
        for retrieval in self.retrievals:
            valid, test = workspace.both_votes(retrieval)
            helped.append(test.logprobs(best_tau(base.valid, valid).tau) > base.test)
        tokenizer = workspace.lms.model(*self.lm).tokenizer
        types = word_types(data.test, data.store, tokenizer, helped[0], helped[1], self.least)
        return WordTypesMeasurement(types=types)
