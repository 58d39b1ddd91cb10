"""What a report is made of: plain types, filled in by whoever measured.

No formatting and no judgement here: `words` and `formats` choose the words, `page` and `terminal`
show them.
"""

from dataclasses import dataclass
from typing import NamedTuple

from knnlm.evaluation.explanation import Passage


class Curve(NamedTuple):
    """Perplexity against one knob, for one setting; `best` is the chosen (x, y)."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    best: tuple[float, float] | None


class Row(NamedTuple):
    """One setting's result on the test text."""

    key: str  # att | ffn
    metric: str  # l2 | ip
    mask: str  # exact | the name of an index
    score: str  # exact | index
    base_ppl: float
    component_ppl: float  # inf as soon as one token was not retrieved
    interp_ppl: float
    oracle_ppl: float
    base_word_ppl: float
    interp_word_ppl: float
    lam: float
    temperature: float
    temperature_units: float  # the same τ, in units of the spread of the neighbours' scores
    k: int
    valid_ppl: float  # of the mixture on the validation text: settings are compared by it
    coverage: float
    helping: float
    recall: float
    ratio_ci95: tuple[float, float]  # of interp_ppl / base_ppl
    seconds: float


@dataclass(frozen=True)
class Page:
    """Everything one report shows."""

    title: str
    rows: tuple[Row, ...]
    tokens: int
    words: int
    store_rows: int
    temperature_curves: tuple[Curve, ...]
    lambda_curves: tuple[Curve, ...]
    passage: Passage | None
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    command: str
