"""A component learned from the entries of a datastore, stopped by a validation text.

Whatever loss is minimized, validation looks at the best mixture with the LM, because that is what a
component is for; it is finite also where the component alone holds a token impossible. The LM is
not run: its hidden states, and for the mixture its log p, are stored already."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knnlm.components import LearnedComponent, QueryArrays
from knnlm.datastore import Entries
from knnlm.evaluation import fit_lambda, mix
from knnlm.files import fingerprint
from knnlm.training.entry_batches import EntryBatches
from knnlm.training.fit import FitResult, FitSettings, fit
from knnlm.training.initial import NOISE, LearnableModule
from knnlm.training.kinds import KINDS
from knnlm.training.objectives import CrossEntropy, Objective

BATCH = 256
DEFAULT_FIT = FitSettings(
    lr=KINDS["head"].learning_rate, epochs=3, validations_per_epoch=2, patience=3
)


class Learned(NamedTuple):
    """A learned component, and how its training went."""

    component: LearnedComponent
    fit: FitResult


def learn(
    module: LearnableModule,
    store: Entries,
    valid: Entries,
    out: Path,
    settings: FitSettings = DEFAULT_FIT,
    *,
    seed: int = 0,
    objective: Objective | None = None,
    about: Mapping[str, Any],
) -> Learned:
    """Train a module on a datastore's entries; what was trained in `out` before is found again.

    Args:
        module: What is trained (initial.py).
        store: The datastore.
        valid: The validation text: it decides when to stop, and which weights are kept.
        out: Folder for checkpoints and the result.
        settings: Learning rate, epochs, patience.
        seed: Of the order of entries.
        objective: The loss; cross-entropy unless another is given.
        about: How the module started and what the objective was made of, as JSON, so that nothing
            else is taken for it.
    """
    objective = objective or CrossEntropy()
    keys = module.component().keys
    batch = min(BATCH, store.count)
    columns = [store.key(key) for key in keys]
    batches = EntryBatches(columns, store.targets, batch, seed, more=objective.columns())
    queries = QueryArrays(valid.states(keys), valid.targets)

    def validate() -> float:
        logs = module.component().target_logprobs(queries)
        if np.isnan(logs).any():
            return math.nan
        return -float(np.mean(mix(valid.lm_logprob, logs, fit_lambda(valid.lm_logprob, logs))))

    recipe = fingerprint(
        {
            "store": store.fingerprint,
            "valid": valid.fingerprint,
            "about": dict(about),
            "how": settings.settings(),
            "seed": seed,
            "batch": batch,
            "noise": NOISE,
            "aim": objective.describe(),
        }
    )
    result = fit(
        module,
        batches,
        lambda rows: objective.loss(module.component(), rows),
        validate,
        settings,
        out,
        recipe,
    )
    module.requires_grad_(False)
    return Learned(module.component(), result)
