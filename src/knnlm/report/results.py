"""The measured numbers of the demo's report: plain types, without formatting or judgment."""

from dataclasses import dataclass
from typing import NamedTuple

from knnlm.evaluation import Evaluation, Passage


class Curve(NamedTuple):
    """Validation perplexity against λ or τ for one condition; `best` is the chosen (x, y)."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    best: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class ConditionResult(Evaluation):
    """One condition's result on the test text."""

    key: str
    """att or ffn."""
    metric: str
    """l2 or ip."""
    search: str
    """exact, or the factory string of an index."""
    score: str
    """exact: similarities computed again; index: those of the index."""
    valid_ppl: float
    """Of the mixture on the validation text: conditions are compared by it."""
    seconds: float


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
