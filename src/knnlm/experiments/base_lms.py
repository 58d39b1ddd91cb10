"""What an experiment says of its base LMs, as data: how to train them or where they are, and which
of their checkpoints is meant. Needs no torch."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from knnlm.models import Preset


class Checkpoint(NamedTuple):
    """An LM, and the update of its training at which it was kept; None is the best on
    validation."""

    name: str
    step: int | None = None


MAIN = Checkpoint("main")
"""The LM that conditions are of where nothing else is said."""


class Shape(NamedTuple):
    """How large an LM is."""

    layers: int
    width: int
    vocab_size: int


@dataclass(frozen=True)
class BaseLM:
    """A base LM that an experiment trains."""

    name: str
    preset: Preset
    seed: int = 0
    begin: str | None = None
    """The LM whose weights it begins with."""
    teacher: str | None = None
    """What it learns from instead of the next tokens, as the `teachers` of `LMs` know it."""

    @property
    def shape(self) -> Shape:
        """The layers, width and vocabulary of its preset."""
        return Shape(self.preset.layers, self.preset.width, self.preset.vocab_size)

    def describe(self) -> dict[str, Any]:
        """All that its training depends on beside the text. Fields that are not set are left out,
        so that LMs trained before those fields existed are still recognized."""
        optional = {"begin": self.begin, "teacher": self.teacher}
        return {
            "preset": self.preset.settings(),
            "seed": self.seed,
            **{name: value for name, value in optional.items() if value},
        }


@dataclass(frozen=True)
class ExistingLM:
    """A base LM that exists already: a folder, a hub name or a GGUF file. Its shape is used by
    plans only; 0 means unknown."""

    name: str
    source: str
    layers: int = 0
    width: int = 0
    vocab_size: int = 0

    @property
    def shape(self) -> Shape:
        """As far as it is known."""
        return Shape(self.layers, self.width, self.vocab_size)


@dataclass(frozen=True, kw_only=True)
class AboutLM:
    """What is known of an LM and its training; all but the first is None for one that existed
    already.

    Perplexities are those of the updates before `step` (with whatever dropout it has; None for an
    LM that learned from a teacher) and of the validation text that training looked at."""

    parameters: int
    width: int | None = None
    train_tokens: int | None = None
    steps: int | None = None
    step: int | None = None
    """The update at which it was kept."""
    train_ppl: float | None = None
    valid_ppl: float | None = None
