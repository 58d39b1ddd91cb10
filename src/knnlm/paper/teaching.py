"""Soft labels for a fresh LM: what the main LM, alone or with its neighbours, says of every token of the training text.

    loss = -Σ_w q(w) log p(w)          q = (1-λ)·softmax(W_sm·h_sm) + λ·p_kNN

(appendix E.6.2, which has the first alone.) h_sm is read from the store, so the teacher's body is not run again;
neighbours are those of other documents, with the λ and τ that are best on validation text for exact search on att. The
first token of a document, which nothing predicts, is left out. Knows nothing of the loop that learns.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.paper import taus
from knnlm.paper.recipes.baselines import exactly, paper_arm
from knnlm.paper.workshop import Workshop
from knnlm.states.store import DocumentInfo, Store
from knnlm.states.table import Table
from knnlm.taps.head import own_logits


def rows_of_stream(documents: Sequence[DocumentInfo]) -> NDArray[np.int64]:
    """The store's row of every token of the training stream; -1 for the first of each document."""
    lengths = np.array([document.tokens for document in documents])
    starts = np.cumsum(lengths) - lengths
    found = np.arange(lengths.sum()) - np.repeat(np.arange(1, len(lengths) + 1), lengths)
    found[starts] = -1
    return found


class SoftLabels:
    """A teacher (lm/train.py). `neighbours` is a table of soft targets (learning/soft.py) with its λ."""

    def __init__(self, store: Store, model: Any, neighbours: Table | None = None, lam: float = 0.0) -> None:
        self.store, self.model, self.neighbours, self.lam = store, model, neighbours, lam
        self.rows = rows_of_stream(store.documents)

    def describe(self) -> dict[str, Any]:
        """The store and, where neighbours teach too, how they were found and how much they say."""
        found: dict[str, Any] = {"store": self.store.fingerprint}
        if self.neighbours is not None:
            found |= {"neighbours": self.neighbours.manifest["meta"], "lambda": self.lam}
        return found

    def loss(self, logits: torch.Tensor, places: NDArray[np.int64]) -> torch.Tensor:
        """Mean cross-entropy of logits (B, T, V) with the labels of the tokens at these places."""
        rows = self.rows[places].ravel()
        known = rows >= 0
        labels = self.labels(rows[known]).to(logits.device)
        learned = logits.flatten(0, 1)[torch.from_numpy(known)].log_softmax(1)
        return -(labels * learned).sum(1).mean()

    @torch.no_grad()
    def labels(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """q (N, V) of some rows of the store."""
        states = torch.from_numpy(self.store.key("ffn").gather(rows).astype(np.float32))
        found = own_logits(self.model, states).softmax(1)
        if self.neighbours is None:
            return found
        words = torch.from_numpy(self.neighbours.columns["words"].gather(rows).astype(np.int64))
        shares = torch.from_numpy(self.neighbours.columns["shares"].gather(rows).astype(np.float32))
        return (found * (1 - self.lam)).scatter_add_(1, words, self.lam * shares)


def soft_labels(workshop: Workshop, kind: Literal["lm", "knn-lm"]) -> SoftLabels:
    """Of the main LM, alone or with its neighbours."""
    m, model = workshop.plain("main", None), workshop.model("main", None).model
    if kind == "lm":
        return SoftLabels(m.store, model)
    votes = workshop.votes(exactly(paper_arm(workshop.scale)), "valid")
    point = taus.best(m.valid.lm_logprob.astype(np.float64), votes)
    table = workshop.elsewhere("main", None, point.temperature)
    return SoftLabels(m.store, workshop.model("main", None).model, table, point.lam)
