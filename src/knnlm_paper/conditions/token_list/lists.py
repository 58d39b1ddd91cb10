"""Sparse distributions without the neighbours' distances: which words, and what each is scored by.

    p(w) = softmax(s(w, h)/τ) over a list of words
    s(w, h) = the LM's own logits, or -‖W_sm[w] - h‖²

likeliest    the words that the LM itself holds likeliest (appendix E.2: is it sparsity alone?)
relisted     the words that were retrieved, scored by the LM or by their distance to the output
             embedding (E.1, E.2)

Both give "neighbours" whose ids are words, so that votes, τ and λ work on them as on any others.
Knows no rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.hidden_states.output_head import model_logits
from knnlm.search.neighbors import NeighborBlocks, Neighbors, NeighborsInMemory

_BLOCK = 512
Scores = Callable[[int, int], NDArray[np.float32]]
"""Scores (B, V) of all words for queries start … stop-1."""


def logits(model: Any, ffn: NDArray[Any]) -> Scores:
    """The LM's own, from states (N, D) that enter its output embedding."""
    weight = next(model.parameters())

    @torch.inference_mode()
    def of(start: int, stop: int) -> NDArray[np.float32]:
        states = torch.from_numpy(np.asarray(ffn[start:stop], np.float32)).to(
            weight.device, weight.dtype
        )
        found: NDArray[np.float32] = model_logits(model, states).float().cpu().numpy()
        return found

    return of


def distances(w_sm: NDArray[np.float32], states: NDArray[Any]) -> Scores:
    """-‖W_sm[w] - h‖² of states (N, D)."""
    sizes = (w_sm.astype(np.float64) ** 2).sum(axis=1)

    def of(start: int, stop: int) -> NDArray[np.float32]:
        h = np.asarray(states[start:stop], np.float32)
        found: NDArray[np.float32] = (
            2 * (h @ w_sm.T) - sizes - (h.astype(np.float64) ** 2).sum(1, keepdims=True)
        ).astype(np.float32)
        return found

    return of


def likeliest(scores: Scores, queries: int, k: int) -> NeighborsInMemory:
    """The k words of the highest scores."""
    ids, values = [], []
    for start in range(0, queries, _BLOCK):
        block = torch.from_numpy(scores(start, min(start + _BLOCK, queries)))
        best = block.topk(min(k, block.shape[1]), dim=1)
        ids.append(best.indices.numpy())
        values.append(best.values.numpy())
    return NeighborsInMemory(Neighbors(np.concatenate(ids), np.concatenate(values)))


def relisted(
    found: NeighborBlocks, tokens: NDArray[np.integer], scores: Scores, duplicates: bool
) -> NeighborsInMemory:
    """The words of the neighbours, each as often as it was retrieved or once, scored anew, best
    first."""
    ids, values = [], []
    for start in range(0, len(found), _BLOCK):
        near = found.read(start, start + _BLOCK)
        words = np.where(near.ids < 0, -1, tokens[near.ids].astype(np.int64))
        if not duplicates:
            words = _once(words)
        block = scores(start, start + len(words))
        mine = np.where(
            words < 0, -np.inf, np.take_along_axis(block, np.maximum(words, 0), axis=1)
        ).astype(np.float32)
        order = np.argsort(-mine, axis=1, kind="stable")
        ids.append(np.take_along_axis(words, order, axis=1))
        values.append(np.take_along_axis(mine, order, axis=1))
    return NeighborsInMemory(Neighbors(np.concatenate(ids), np.concatenate(values)))


def _once(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every word of a row once; further times are missing."""
    order = np.argsort(words, axis=1, kind="stable")
    ordered = np.take_along_axis(words, order, axis=1)
    again = np.zeros(words.shape, bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    found = np.empty_like(words)
    np.put_along_axis(found, order, np.where(again, -1, ordered), axis=1)
    return found
