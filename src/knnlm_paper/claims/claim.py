"""What a claim is: an id, a sentence, where it comes from, and what would confirm it.

A claim is a weighted sum of log-likelihoods of conditions, Δ = Σ c·log P. S(att) - S(ffn), for
example, is above zero where att is better. `deciding.py` turns Δ into an effect and a verdict.

An id has two parts, `att-beats-ffn@own-tau`: what is claimed, and how the conditions are mixed:

    @tau-1        at τ = 1, as the paper's code fixes it
    @one-tau      at the τ that is best for the paper's own setting, which its τ = 1 was near
    @own-tau      each condition at its own τ
    @calibrated   the same, mixed with the calibrated LM instead of the LM

A claim about something else has no second part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from knnlm.evaluation.comparison import MARGIN, Sense
from knnlm_paper.conditions import KNN, PaperCondition
from knnlm_paper.retrieval import Retrieval

Compared = PaperCondition[Any] | Retrieval
"""What is compared; a retrieval stands for its neighbors mixed with the LM."""


class At(NamedTuple):
    """How conditions are mixed with the LM: the second part of an id."""

    id: str
    words: str
    point: str
    """Of a measurement."""
    base: str = "base"
    """What a gain is a gain over."""


TAU_1 = At("tau-1", "at τ = 1", "tau_1")
ONE_TAU = At("one-tau", "at one τ for all", "one_tau")
OWN_TAU = At("own-tau", "each at its own τ", "own_tau")
CALIBRATED = At("calibrated", "over the calibrated LM", "on_calibrated", "calibrated")
THREE_TAUS = (TAU_1, ONE_TAU, OWN_TAU)
AS_LEARNED = At("tau-1", "at τ = 1", "as_learned")
"""Something learned, at the τ it was learned at."""
PLAIN_AND_CALIBRATED = (OWN_TAU, CALIBRATED)


class Term(NamedTuple):
    """`weight` × log-likelihood of a condition at a point of its measurement."""

    weight: float
    condition: PaperCondition[Any]
    point: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something that measurements confirm or refute.

    Args:
        topic: The first part of its id.
        sentence: What is claimed.
        source: Where: a section of the paper, "skeptic", "audit F1", or "beyond".
        terms: Of Δ.
        at: The second part of its id, if it has one.
        paper: The paper's own effect, where it prints one.
        sense: "more": Δ is above zero; "same": it is about zero; "no more": it is not above zero.
        margin: A smaller effect does not count; where the paper's own is small, half of that.
        given: Terms of the claim that must hold for this one to be a question.
        unit: Whether an effect is a relative change of perplexity, a slope, a relative difference
            between two parts of the text, or a share of the vocabulary.
    """

    topic: str
    sentence: str
    source: str
    terms: tuple[Term, ...] = ()
    at: At | None = None
    paper: float | None = None
    sense: Sense = "more"
    margin: float = MARGIN
    given: tuple[Term, ...] = ()
    unit: Literal["%", "slope", "difference", "share"] = "%"

    def __post_init__(self) -> None:
        if self.sense == "more" and self.paper is not None:
            object.__setattr__(self, "margin", min(self.margin, self.paper / 2))

    @property
    def id(self) -> str:
        """Its name wherever it is referred to."""
        return self.topic if self.at is None else f"{self.topic}@{self.at.id}"

    @property
    def statement(self) -> str:
        """The sentence with how conditions are mixed, for tables."""
        sentence = self.sentence.removesuffix(".")
        return sentence if self.at is None else f"{sentence}, {self.at.words}"


def better(
    a: Compared, b: Compared, point: str | At, other: str | At | None = None
) -> tuple[Term, ...]:
    """How much higher a's log-likelihood is than b's; `other` is b's point where it is another."""
    return (
        term(1.0, a, point),
        term(-1.0, b, point if other is None else other),
    )


def gain(condition: Compared, at: At, base: str | None = None) -> tuple[Term, ...]:
    """How much higher a condition's log-likelihood is than its own LM's."""
    return (term(1.0, condition, at), term(-1.0, condition, base or at.base))


def less(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The opposite: `gain(a) + less(gain(b))` is how much larger a's gain is."""
    return times(-1.0, terms)


def times(factor: float, terms: Sequence[Term]) -> tuple[Term, ...]:
    """`gain(a) + times(-0.9, gain(b))` is how far a's gain is beyond 90 % of b's."""
    return tuple(term._replace(weight=factor * term.weight) for term in terms)


def term(weight: float, compared: Compared, at: str | At) -> Term:
    """A term of what is compared, at a point or as `at` says."""
    condition = KNN(compared) if isinstance(compared, Retrieval) else compared
    return Term(weight, condition, at.point if isinstance(at, At) else at)
