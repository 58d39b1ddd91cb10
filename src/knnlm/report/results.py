"""The measured numbers of the demo's report: plain types, without formatting or judgment."""

from dataclasses import dataclass
from typing import NamedTuple

from knnlm.evaluation import Passage


class Curve(NamedTuple):
    """Validation perplexity against λ or τ for one condition; `best` is the chosen (x, y)."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    best: tuple[float, float] | None


class ConditionResult(NamedTuple):
    """One condition's result on the test text."""

    key: str
    """att or ffn."""
    metric: str
    """l2 or ip."""
    search: str
    """exact, or the factory string of an index."""
    score: str
    """exact: similarities computed again; index: those of the index."""
    base_ppl: float
    component_ppl: float
    """Infinite as soon as one token was not retrieved."""
    interp_ppl: float
    oracle_ppl: float
    base_word_ppl: float
    interp_word_ppl: float
    lam: float
    temperature: float
    temperature_units: float
    """The retrieval temperature in units of the spread of the neighbors' scores."""
    k: int
    valid_ppl: float
    """Of the mixture on the validation text: conditions are compared by it."""
    coverage: float
    helping: float
    recall: float
    ratio_ci95: tuple[float, float]
    """95% interval of `ratio`."""
    seconds: float

    @property
    def ratio(self) -> float:
        """Mixed perplexity over that of the LM."""
        return self.interp_ppl / self.base_ppl


@dataclass(frozen=True)
class DemoResults:
    """Everything that the demo's report shows.

    Attributes:
        title: What was run.
        conditions: In the order of the table.
        tokens: Of the test text.
        words: Of the test text.
        entries: Of the datastore.
        temperature_curves: Perplexity against the retrieval temperature, one for each condition.
        lambda_curves: Perplexity against the interpolation weight, one for each condition.
        passage: A piece of the test text, explained token by token.
        facts: (name, value) pairs.
        commands: What to try next.
        command: The command that made the report.
    """

    title: str
    conditions: tuple[ConditionResult, ...]
    tokens: int
    words: int
    entries: int
    temperature_curves: tuple[Curve, ...]
    lambda_curves: tuple[Curve, ...]
    passage: Passage | None
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    command: str
