"""A learned W_ds of one row a word, fitted to the store's rows: what a second softmax gets without any retrieval.

The paper's "Learned W_ds": cross-entropy, the body of the LM frozen, best on validation. It begins at W_sm, and with
one row a word and inner products the problem is convex, so where it begins only saves time.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from knnlm.components.embeddings import Embeddings, new_embeddings, row_scores, target_losses
from knnlm.files import fingerprint
from knnlm.learning.fit import Fit, Fitted, fit
from knnlm.learning.rows import Batch, RowBatches
from knnlm.states.store import Store
from knnlm.taps.head import output_embedding

BATCH = 1024
HOW = Fit(lr=1e-3, epochs=8, looks=2, patience=3)


class _Weights(torch.nn.Module):
    def __init__(self, begin: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(begin.detach().float().clone())


class Head(NamedTuple):
    """A learned component and how its learning went."""

    component: Embeddings
    fitted: Fitted


def learned_head(model: Any, store: Store, valid: Store, key: Literal["att", "ffn"], out: Path) -> Head:
    """Fit the component to `store`, stopped by `valid`; found again in `out` if it was fitted before."""
    module = _Weights(output_embedding(model).weight)
    counts = torch.ones(len(module.weight), dtype=torch.int64)

    def component() -> Embeddings:
        return new_embeddings(key, module.weight.detach(), counts, "ip")

    def loss(batch: Batch) -> torch.Tensor:
        return target_losses(row_scores(module.weight, batch.states, "ip", 1.0), batch.targets, counts).mean()

    states = valid.key(key).all()
    batches = RowBatches([store.key(key)], store.targets, min(BATCH, store.rows), seed=0)
    recipe = fingerprint({"store": store.fingerprint, "valid": valid.fingerprint, "key": key, "how": repr(HOW)})
    fitted = fit(
        module, batches, loss, lambda: -float(np.mean(component().target_logprobs(states, valid.targets))), HOW, out,
        recipe,
    )  # fmt: skip
    return Head(component(), fitted)
