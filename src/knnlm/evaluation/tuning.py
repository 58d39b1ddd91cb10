"""Tuning: λ and τ of any component on a validation text.

Everything that does not depend on λ or τ (a search, above all) is done once; every τ is then a pass
over it with λ fitted exactly.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from knnlm.components.base import Component
from knnlm.datastore.entries import Entries
from knnlm.evaluation.metrics import perplexity
from knnlm.evaluation.settings import TunedSettings
from knnlm.evaluation.temperature import temperature_sweep
from knnlm.files import fingerprint
from knnlm.progress import log

FEW_TOKENS = 1000


class TunedComponent(NamedTuple):
    """A component at its best τ, and the settings that say so."""

    component: Component
    settings: TunedSettings


def tune(
    component: Component,
    queries: Entries,
    *,
    name: str,
    temperatures: Sequence[float] | None = None,
) -> TunedComponent:
    """The λ and τ at which a component lowers the perplexity of a validation text most.

    Args:
        component: Any component; a mixture has no τ, so only its λ is fitted.
        queries: The validation text: hidden states, targets and log p_LM.
        name: What the component is called in settings.
        temperatures: A grid of τ instead of a search.

    Returns:
        The component at its best τ, and its settings.

    Raises:
        UsageError: If `temperatures` is empty or holds a number that is not above zero.
    """
    lm = queries.lm_logprob.astype(np.float64)
    scores = component.target_scores(queries)
    point = min(temperature_sweep(lm, scores, temperatures), key=lambda point: point.ppl)
    settings = TunedSettings(
        component=name,
        retrieval=component.retrieval,
        lam=point.lam,
        temperature=point.temperature,
        temperature_units=point.units,
        base_ppl=perplexity(lm),
        interp_ppl=point.ppl,
        tokens=len(lm),
        text=fingerprint(queries.meta["text"]),
    )
    return TunedComponent(component.at_temperature(point.temperature), settings)


def tune_best(
    candidates: Sequence[Component],
    queries: Entries,
    *,
    name: str,
    temperatures: Sequence[float] | None = None,
) -> TunedComponent:
    """The best of several components, each at its own λ and τ: one component for each k, say."""
    tuned = [tune(each, queries, name=name, temperatures=temperatures) for each in candidates]
    return min(tuned, key=lambda each: each.settings.interp_ppl)


def warn_of_few(tokens: int) -> None:
    """Say that what is fitted on a handful of tokens fits nothing else."""
    if tokens < FEW_TOKENS:
        log.warning(
            f"note: fitted on only {tokens:,} tokens, which says little of other text: give a "
            "longer "
            "text"
        )
