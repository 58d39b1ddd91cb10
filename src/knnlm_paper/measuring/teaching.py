"""Soft labels for a fresh LM: what the main LM, alone or with its neighbours, says of every token
of the training text.

    loss = -Σ_w q(w) log p(w)          q = (1-λ)·softmax(W_sm·h_sm) + λ·p_kNN

(appendix E.6.2, which has the first alone.) h_sm is read from the store, so the teacher's body is
not run again; neighbours are those of other documents, with the λ and τ that are best on validation
text for exact search on att, and p_kNN holds their likeliest words only
(training/soft_targets.py). The first token of a document, which nothing predicts, is left out.
Knows nothing of the loop that learns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore.entries import DocumentInfo, Entries
from knnlm.datastore.table import Table
from knnlm.evaluation.tuning import TemperaturePoint
from knnlm.hidden_states.output_head import model_logits
from knnlm_paper import taus
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.workshop import Workshop


def rows_of_stream(documents: Sequence[DocumentInfo]) -> NDArray[np.int64]:
    """The store's row of every token of the training stream; -1 for the first of each document."""
    lengths = np.array([document.tokens for document in documents])
    starts = np.cumsum(lengths) - lengths
    found = np.arange(lengths.sum()) - np.repeat(np.arange(1, len(lengths) + 1), lengths)
    found[starts] = -1
    return found


class Neighbours(NamedTuple):
    """What neighbours say (training/soft_targets.py), found when it is asked for, and how
    much they have to say."""

    table: Callable[[], Table]
    tau: float
    lam: float


class SoftLabels:
    """A teacher (training/language_model.py); describing it finds nothing."""

    def __init__(self, store: Entries, model: Any, neighbours: Neighbours | None = None) -> None:
        self.store, self.model, self.neighbours = store, model, neighbours

    def describe(self) -> dict[str, Any]:
        """The store and, where neighbours teach too, at which τ and how much."""
        found: dict[str, Any] = {"store": self.store.fingerprint}
        if self.neighbours is not None:
            found |= {"temperature": self.neighbours.tau, "lambda": self.neighbours.lam}
        return found

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The store's row of every token of the stream."""
        return rows_of_stream(self.store.documents)

    @cached_property
    def table(self) -> Table | None:
        """What neighbours say, made if it is not there."""
        return None if self.neighbours is None else self.neighbours.table()

    def loss(self, logits: torch.Tensor, positions: NDArray[np.int64]) -> torch.Tensor:
        """Mean cross-entropy of logits (B, T, V) with the labels of the tokens at `positions`."""
        rows = self.rows[positions].ravel()
        known = rows >= 0
        labels = self.labels(rows[known]).to(logits.device)
        learned = logits.flatten(0, 1)[torch.from_numpy(known)].log_softmax(1)
        return -(labels * learned).sum(1).mean()

    @torch.no_grad()
    def labels(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """q (N, V) of some rows of the store."""
        weight = next(self.model.parameters())
        states = torch.from_numpy(self.store.key("ffn").gather(rows).astype(np.float32))
        found = (
            model_logits(self.model, states.to(weight.device, weight.dtype))
            .float()
            .softmax(1)
            .cpu()
        )
        if self.neighbours is None or self.table is None:
            return found
        words = torch.from_numpy(self.table.columns["words"].gather(rows).astype(np.int64))
        shares = torch.from_numpy(self.table.columns["shares"].gather(rows).astype(np.float32))
        return (found * (1 - self.neighbours.lam)).scatter_add_(
            1, words, self.neighbours.lam * shares
        )


def teacher_point(workshop: Workshop, lm: str, step: int | None) -> TemperaturePoint:
    """The τ and λ of neighbours that teach: the best of exact search on att, to four digits;
    further ones differ from machine to machine and would make it another lesson."""
    votes = workshop.votes(replace(exactly(paper_arm(workshop.scale, lm)), step=step), "valid")
    point = taus.best(workshop.plain(lm, step).valid.lm_logprob.astype(np.float64), votes)
    return point._replace(tau=float(f"{point.tau:.4g}"), lam=float(f"{point.lam:.4g}"))


def soft_labels(workshop: Workshop, kind: Literal["lm", "knn-lm"]) -> SoftLabels:
    """Of the main LM, alone or with its neighbours."""
    store, model = workshop.plain("main", None).store, workshop.lms.model("main", None).model
    if kind == "lm":
        return SoftLabels(store, model)
    point = teacher_point(workshop, "main", None)
    said = Neighbours(lambda: workshop.elsewhere("main", None, point.tau), point.tau, point.lam)
    return SoftLabels(store, model, said)
