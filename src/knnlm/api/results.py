"""Results that show themselves: as lines in a terminal, as tables and colors in a notebook."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from knnlm.evaluation import Evaluation, ExplainedToken, TunedSettings
from knnlm.files import finite
from knnlm.huggingface import Generated


@dataclass(frozen=True, kw_only=True)
class EvaluationResult(Evaluation):
    """Perplexities of a text, and the settings they were measured with."""

    settings: TunedSettings
    overlap: float | None = None
    """Share of the text that is in the datastore, where that was allowed."""

    @classmethod
    def of(
        cls, evaluation: Evaluation, settings: TunedSettings, overlap: float | None = None
    ) -> "EvaluationResult":
        """An evaluation with its settings; their unit of τ is the text's if nobody tuned.

        Args:
            evaluation: The perplexities.
            settings: What they were measured with.
            overlap: Share of the text that is in the datastore, where that was allowed.

        Returns:
            All fields of the evaluation, and the settings.
        """
        units = math.nan if evaluation.tau_units is None else evaluation.tau_units
        return cls(**vars(evaluation), settings=replace(settings, tau_units=units), overlap=overlap)

    def as_json(self) -> dict[str, Any]:
        """The fields of `knnlm eval --json`."""
        fields = super().as_json()
        del fields["settings"]
        control = self.settings.calibrated
        if control is not None:
            fields |= {
                "softmax_temperature": control.softmax_temperature,
                "unigram_share": control.unigram_share,
                "calibrated_lambda": control.lam,
                "calibrated_temperature": control.tau,
            }
        return fields

    def __str__(self) -> str:
        from knnlm.report.evaluation import evaluation_lines

        return "\n".join(evaluation_lines(self, self.settings, self.overlap))

    def _repr_html_(self) -> str:
        from knnlm.report.evaluation import evaluation_table
        from knnlm.report.html import table_fragment

        return table_fragment(evaluation_table(self, self.settings, self.overlap))


@dataclass(frozen=True)
class Explanation:
    """A text, token by token: p_LM, the component's p, P, and neighbors with their documents."""

    tokens: tuple[ExplainedToken, ...]
    settings: TunedSettings

    def as_json(self) -> list[dict[str, Any]]:
        """One object for each token."""
        return [
            finite({**token._asdict(), "neighbors": [n._asdict() for n in token.neighbors]})
            for token in self.tokens
        ]

    def __len__(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        from knnlm.report.explained import lines

        settings = self.settings
        name = None if settings.retrieval is not None else settings.component
        return "\n".join(lines(self.tokens, settings.lam, name))

    def _repr_html_(self) -> str:
        from knnlm.report.html import explanation_fragment

        return explanation_fragment(self.tokens)


@dataclass(frozen=True)
class Generation:
    """A continued text, or an answer."""

    prompt: str
    generated: Generated
    settings: TunedSettings
    explainer: Callable[[Generated], tuple[ExplainedToken, ...]]
    chat: bool = False
    """Whether the text answers the prompt instead of continuing it."""

    @property
    def text(self) -> str:
        """The new text, without the prompt."""
        return self.generated.text

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids of the new tokens, without those of the prompt."""
        return self.generated.tokens

    @property
    def base_text(self) -> str | None:
        """What the base LM alone wrote, if `compare` asked for it."""
        return self.generated.base_text

    def explain(self) -> Explanation:
        """Each new token with p_LM, the component's p, and its neighbors with their documents."""
        tokens = self.explainer(self.generated) if self.generated.tokens else ()
        return Explanation(tokens, self.settings)

    def __str__(self) -> str:
        return self.text if self.chat else self.prompt + self.text

    def __repr__(self) -> str:
        return f"Generation(prompt={self.prompt!r}, text={self.text!r})"
