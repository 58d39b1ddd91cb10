"""Evaluation: what a component does for a text at given λ and τ, in perplexities and intervals."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knnlm.components import Component, Logs, TargetScores
from knnlm.datastore import Entries
from knnlm.evaluation.metrics import helping, perplexity, ratio_interval
from knnlm.evaluation.mixing import mix, oracle
from knnlm.evaluation.settings import JSON_NAMES, CalibratedSettings, TunedSettings
from knnlm.files import finite
from knnlm.ranges import check_lambda


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Perplexities of a text under an LM alone and mixed with a component.

    `interp_ppl` is the mixture's, `component_ppl` the component's alone (∞ as soon as it holds one
    token impossible), `oracle_ppl` that of the better of the two for every token. `coverage` is the
    share of tokens that the component holds possible, `helping` the share to which it gives more
    probability than the LM, `ratio` is interp_ppl / base_ppl with its 95 % interval.

    `calibrated_ppl` is the control's: the calibrated LM, for which nothing was retrieved.
    `calibrated_interp_ppl` is that of the component mixed with it, and `calibrated_ratio` the one
    over the other: what is left of the component's gain. They are None where nothing was tuned.
    """

    tokens: int
    words: int
    base_ppl: float
    component_ppl: float
    interp_ppl: float
    oracle_ppl: float
    base_word_ppl: float
    interp_word_ppl: float
    oracle_word_ppl: float
    lam: float
    tau: float
    tau_units: float | None
    k: int | None
    coverage: float
    helping: float
    recall: float | None
    ratio_ci95: tuple[float, float] | None
    ratio_ci95_unit: str | None
    calibrated_ppl: float | None = None
    calibrated_interp_ppl: float | None = None
    calibrated_ratio_ci95: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        """Perplexity of the mixture over that of the LM alone."""
        return self.interp_ppl / self.base_ppl

    @property
    def calibrated_ratio(self) -> float | None:
        """Perplexity of the mixture with the calibrated LM over that of the calibrated LM."""
        if self.calibrated_ppl is None or self.calibrated_interp_ppl is None:
            return None
        return self.calibrated_interp_ppl / self.calibrated_ppl

    def as_json(self) -> dict[str, Any]:
        """All fields by their names in JSON; infinity is null."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        named = {JSON_NAMES.get(name, name): value for name, value in fields.items()}
        ratios = {"ratio": self.ratio, "calibrated_ratio": self.calibrated_ratio}
        return finite({**named, **ratios})

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> "Evaluation":
        """An evaluation from what `as_json` gave.

        Args:
            fields: All fields by their names in JSON.

        Returns:
            The evaluation; a perplexity that is null is infinite.
        """
        names = {f.name: JSON_NAMES.get(f.name, f.name) for f in dataclasses.fields(Evaluation)}
        given = {n: fields[in_json] for n, in_json in names.items() if in_json in fields}
        for name, value in given.items():
            if value is None and name.endswith("_ppl") and not name.startswith("calibrated"):
                no_words = "word" in name and given["words"] == 0
                given[name] = math.nan if no_words else math.inf
        for name in ("ratio_ci95", "calibrated_ratio_ci95"):
            interval = given.get(name)
            given[name] = None if interval is None else tuple(interval)
        return Evaluation(**given)


def evaluate(
    component: Component,
    queries: Entries,
    settings: TunedSettings,
    calibrated: Logs | None = None,
) -> Evaluation:
    """All numbers of a text with a component at given settings.

    Args:
        component: Any component; its τ is the settings'.
        queries: The text: hidden states, targets and log p_LM.
        settings: λ and τ, and the unit of τ where they were tuned.
        calibrated: log p of every target under the calibrated LM of the settings
            (`control_logprobs`); None reports no control.

    Returns:
        Perplexities per token and per word, with a paired bootstrap interval.
    """
    check_lambda(settings.lam)
    scores = component.target_scores(queries)
    units: float | None = settings.tau_units
    if component.retrieval is None:
        units = None
    elif not math.isfinite(settings.tau_units):  # nobody tuned: the text's own unit
        units = settings.tau / scores.unit
    lm = queries.lm_logprob.astype(np.float64)
    other = scores.logprobs(settings.tau)
    mixed, best = mix(lm, other, settings.lam), oracle(lm, other)
    documents = queries.document_numbers
    interval = ratio_interval(lm, mixed, documents)
    control: dict[str, Any] = {}
    if calibrated is not None and settings.calibrated is not None:
        control = _control_numbers(scores, calibrated, settings.calibrated, documents)
    return Evaluation(
        tokens=len(lm),
        words=queries.words,
        base_ppl=perplexity(lm),
        component_ppl=perplexity(other),
        interp_ppl=perplexity(mixed),
        oracle_ppl=perplexity(best),
        base_word_ppl=perplexity(lm, queries.words),
        interp_word_ppl=perplexity(mixed, queries.words),
        oracle_word_ppl=perplexity(best, queries.words),
        lam=settings.lam,
        tau=settings.tau,
        tau_units=units,
        k=None if component.retrieval is None else component.retrieval.k,
        coverage=float(np.isfinite(other).mean()),
        helping=helping(lm, other),
        recall=component.recall(queries),
        ratio_ci95=None if interval is None else (interval.low, interval.high),
        ratio_ci95_unit=None if interval is None else interval.unit,
        **control,
    )


def _control_numbers(
    scores: TargetScores,
    calibrated: Logs,
    settings: CalibratedSettings,
    documents: NDArray[np.integer],
) -> dict[str, Any]:
    """The calibrated LM alone and mixed with the component, at the λ and τ tuned for that."""
    mixed = mix(calibrated, scores.logprobs(settings.tau), settings.lam)
    interval = ratio_interval(calibrated, mixed, documents)
    return {
        "calibrated_ppl": perplexity(calibrated),
        "calibrated_interp_ppl": perplexity(mixed),
        "calibrated_ratio_ci95": None if interval is None else (interval.low, interval.high),
    }
