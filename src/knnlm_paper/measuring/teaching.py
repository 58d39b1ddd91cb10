"""Soft labels for a fresh LM: what the main LM, alone or with its neighbors, says of every token
of the training text.

    loss = -Σ_w q(w) log p(w)          q = (1-λ)·softmax(W_sm·h_sm) + λ·p_kNN

(appendix E.6.2, which has the first alone.) h_sm is read from the datastore, so the teacher's body
is not run again; neighbors are those of other documents, with the λ and τ that are best on
validation text for exact search on att, and p_kNN holds their likeliest tokens only
(training/soft_targets.py). The first token of a document, which nothing predicts, is left out.
Knows nothing of the loop that learns."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.datastore.entries import Entries
from knnlm.datastore.part_files import DocumentInfo
from knnlm.datastore.table import Table
from knnlm.evaluation.tuning import TemperaturePoint
from knnlm.hidden_states.output_head import model_logits
from knnlm_paper.measuring.temperatures import best_tau
from knnlm_paper.retrieval import exactly, paper_retrieval

if TYPE_CHECKING:
    from knnlm_paper.measuring.workspace import PaperWorkspace


def entries_of_stream(documents: Sequence[DocumentInfo]) -> NDArray[np.int64]:
    """The datastore's entry of every token of the training stream; -1 for the first of each
    document."""
    lengths = np.array([document.tokens for document in documents])
    starts = np.cumsum(lengths) - lengths
    entries = np.arange(lengths.sum()) - np.repeat(np.arange(1, len(lengths) + 1), lengths)
    entries[starts] = -1
    return entries


class TeachingNeighbors(NamedTuple):
    """What neighbors say (training/soft_targets.py), made when it is asked for, and with which
    weight."""

    table: Callable[[], Table]
    tau: float
    lam: float


class SoftLabels:
    """A teacher (training/language_model.py); describing it searches nothing.

    Args:
        store: The datastore of the training text.
        model: The LM that teaches.
        neighbors: What its neighbors say, where they teach too.
    """

    def __init__(
        self, store: Entries, model: Any, neighbors: TeachingNeighbors | None = None
    ) -> None:
        self.store, self.model, self.neighbors = store, model, neighbors

    def describe(self) -> dict[str, Any]:
        """The datastore and, where neighbors teach too, at which τ and λ."""
        described: dict[str, Any] = {"store": self.store.fingerprint}
        if self.neighbors is not None:
            described |= {"temperature": self.neighbors.tau, "lambda": self.neighbors.lam}
        return described

    @cached_property
    def entries(self) -> NDArray[np.int64]:
        """The datastore's entry of every token of the stream."""
        return entries_of_stream(self.store.documents)

    @cached_property
    def table(self) -> Table | None:
        """What neighbors say, made if it is not there."""
        return None if self.neighbors is None else self.neighbors.table()

    def loss(self, logits: torch.Tensor, positions: NDArray[np.int64]) -> torch.Tensor:
        """Mean cross-entropy of logits (B, T, V) with the labels of the tokens at `positions`."""
        entries = self.entries[positions].ravel()
        known = entries >= 0
        labels = self.labels(entries[known]).to(logits.device)
        learned = logits.flatten(0, 1)[torch.from_numpy(known)].log_softmax(1)
        return -(labels * learned).sum(1).mean()

    @torch.no_grad()
    def labels(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """q (N, V) of some entries of the datastore."""
        weight = next(self.model.parameters())
        states = torch.from_numpy(self.store.key("ffn").gather(ids).astype(np.float32))
        logits = model_logits(self.model, states.to(weight.device, weight.dtype))
        own = logits.float().softmax(1).cpu()
        if self.neighbors is None or self.table is None:
            return own
        words = torch.from_numpy(self.table.columns["words"].gather(ids).astype(np.int64))
        shares = torch.from_numpy(self.table.columns["shares"].gather(ids).astype(np.float32))
        lam = self.neighbors.lam
        return (own * (1 - lam)).scatter_add_(1, words, lam * shares)


def teacher_point(workspace: "PaperWorkspace", lm: str, step: int | None) -> TemperaturePoint:
    """The τ and λ of neighbors that teach: the best of exact search on att, to four digits; further
    ones differ from machine to machine and would make it another lesson."""
    votes = workspace.votes(exactly(paper_retrieval(workspace.scale, lm, step)), "valid")
    point = best_tau(workspace.plain(lm, step).valid.lm_logprob.astype(np.float64), votes)
    return point._replace(tau=float(f"{point.tau:.4g}"), lam=float(f"{point.lam:.4g}"))


def soft_labels(workspace: "PaperWorkspace", kind: str) -> SoftLabels:
    """Of the main LM, alone ("lm") or with its neighbors ("knn-lm")."""
    store, model = workspace.plain("main").store, workspace.lms.model("main").model
    if kind == "lm":
        return SoftLabels(store, model)
    point = workspace.teacher("main")
    neighbors = TeachingNeighbors(
        lambda: workspace.soft_targets("main", None, point.tau), point.tau, point.lam
    )
    return SoftLabels(store, model, neighbors)
