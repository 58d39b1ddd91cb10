"""Does the place of a token matter (appendix E.3)? The LM's loss and what neighbors gain, against
the context that the token has in its window, and against its place in the document."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from knnlm.experiments.base_lms import AboutLM
from knnlm.typed_json import FieldError
from knnlm_paper.conditions.base import OfRetrieval

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


class Correlation(NamedTuple):
    """Pearson's r with its 95 % interval, documents resampled."""

    r: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Range:
    """The mean over a range of places, for a figure."""

    position: float
    """The mean of the places."""
    tokens: int
    mean: float


@dataclass(frozen=True, kw_only=True)
class Third:
    """For each document, tokens in a third of the places, and the sum over them."""

    tokens: tuple[float, ...]
    sum: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sum) != len(self.tokens):
            raise FieldError("sum", f"has {len(self.sum)} documents instead of {len(self.tokens)}")


@dataclass(frozen=True, kw_only=True)
class Thirds:
    """The third of the tokens with the lowest places, and that with the highest."""

    first: Third
    last: Third


@dataclass(frozen=True, kw_only=True)
class Dependence:
    """One quantity against one kind of place."""

    tokens: int
    correlation: Correlation | None
    """None where there are no tokens."""
    ranges: tuple[Range, ...]
    thirds: Thirds


@dataclass(frozen=True, kw_only=True)
class Quantities:
    """The LM's loss for every token of the test text, and what neighbors gain for those that are
    searched for; in nats."""

    loss: Dependence
    gain: Dependence


@dataclass(frozen=True, kw_only=True)
class PlaceInTextMeasurement:
    """Against the tokens of context in the window, and against the place in the document."""

    lm: AboutLM
    window: Quantities
    """Only of tokens behind a document's first window, which holds its first tokens: what differs
    between those is the context alone."""
    document: Quantities


@dataclass(frozen=True)
class PlaceInText(OfRetrieval[PlaceInTextMeasurement]):
    """Whether the LM's loss and what a retrieval gains depend on the place in the window and in the
    document."""

    measurement_type = PlaceInTextMeasurement

    @property
    def label(self) -> str:
        """The retrieval in words."""
        return f"loss and gain against the place in the text ({self.retrieval.label})"

    def measure(self, workspace: "PaperWorkspace") -> PlaceInTextMeasurement:
        """The gain at the retrieval's own τ."""
        from knnlm.evaluation.mixing import mix
        from knnlm_paper.conditions.place_in_text.places import quantities_by_place
        from knnlm_paper.measuring.temperatures import best_tau

        base, (valid, test) = workspace.base(*self.lm), workspace.both_votes(self.retrieval)
        best = best_tau(base.valid, valid)
        gain = mix(base.test, test.logprobs(best.tau), best.lam) - base.test
        queries = workspace.data(self.retrieval.spec).test
        whole = workspace.entries(*self.lm, "test")
        return PlaceInTextMeasurement(
            lm=workspace.lms.about(*self.lm), **quantities_by_place(queries, whole, gain)
        )
