"""A substitute learned from the rows of a store: cross-entropy, stopped by the rows of a validation text.

    loss = -log p(target)                                       or, with `lam`, of the mixture with the LM:
    loss = -log( (1-λ) p_LM(target) + λ p(target) )             the paper's interpolated loss

The LM is not run: its states, and for the mixture its log p, are in the store already. Knows nothing of results.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.embeddings import Embeddings
from knnlm.components.network import Network
from knnlm.components.softmaxes import Softmaxes
from knnlm.errors import KnnlmError
from knnlm.files import fingerprint
from knnlm.learning.fit import Fit, Fitted, fit
from knnlm.learning.rows import Batch, RowBatches
from knnlm.learning.substitutes import Substitute, begin
from knnlm.mixture import mix
from knnlm.states.store import Store

BATCH = 1024
HOW = Fit(lr=1e-3, epochs=8, looks=2, patience=3)


class Learned(NamedTuple):
    """A learned component and how its learning went."""

    component: Embeddings | Softmaxes | Network
    fitted: Fitted


def learn(
    what: Substitute,
    w_sm: torch.Tensor,
    store: Store,
    valid: Store,
    out: Path,
    how: Fit = HOW,
    *,
    seed: int = 0,
    counts: NDArray[np.integer] | None = None,
    lam: float | None = None,
    progress: bool = False,
) -> Learned:
    """Fit the substitute to `store`, stopped by `valid`; found again in `out` if it was fitted before."""
    more = {}
    if lam is not None:
        if not 0 < lam < 1:
            raise KnnlmError(f"lambda {lam} of the interpolated loss is out of range: choose between 0 and 1")
        more["lm"] = store.lm_logprob
    module: Any = begin(what, w_sm, counts, seed)
    columns = [store.key(key) for key in what.keys]
    batches = RowBatches(columns, store.targets, min(BATCH, store.rows), seed, more=more)
    states = states_of(valid, what.keys)

    def loss(batch: Batch) -> torch.Tensor:
        losses: torch.Tensor = module.component().target_losses(batch.states, batch.targets)
        if lam is not None:
            losses = -torch.logaddexp(batch.more["lm"] + math.log1p(-lam), math.log(lam) - losses)
        return losses.mean()

    def validate() -> float:
        found = module.component().target_logprobs(states, valid.targets)
        return -float(np.mean(found if lam is None else mix(valid.lm_logprob, found, lam)))

    recipe = fingerprint({
        "store": store.fingerprint, "valid": valid.fingerprint, "what": asdict(what), "how": asdict(how), "seed": seed,
        "batch": BATCH, "counts": None if counts is None else counts.tolist(), "lam": lam,
    })  # fmt: skip
    fitted = fit(module, batches, loss, validate, how, out, recipe, progress)
    detached = module.requires_grad_(False).component()
    return Learned(detached, fitted)


def states_of(queries: Store, keys: tuple[str, ...]) -> NDArray[np.float16]:
    """The states that a component reads, one after the other, in memory."""
    found: NDArray[np.float16] = np.concatenate([queries.key(key).all() for key in keys], axis=1)
    return found
