"""Sparse distributions without the neighbors' distances: which tokens, and what each is scored by.

    p(w) = softmax(s(w, h)/τ) over a list of tokens
    s(w, h) = the LM's own logits, or -‖W_sm[w] - h‖²

likeliest    the tokens that the LM itself holds likeliest (appendix E.2: is it sparsity alone?)
relisted     the tokens that were retrieved, scored by the LM or by their distance to the output
             embedding (E.1, E.2)

Both give "neighbors" whose ids are tokens, so that votes, τ and λ work on them as on any others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.hidden_states.output_head import model_logits
from knnlm.search.neighbors import NeighborBlocks, Neighbors, NeighborsInMemory

_BLOCK = 512
Scores = Callable[[int, int], NDArray[np.float32]]
"""Scores (B, V) of all tokens for queries start … stop-1."""


def logits(model: Any, ffn: NDArray[Any]) -> Scores:
    """The LM's own, from states (N, D) that enter its output embedding."""
    weight = next(model.parameters())

    @torch.inference_mode()
    def of(start: int, stop: int) -> NDArray[np.float32]:
        states = torch.from_numpy(np.asarray(ffn[start:stop], np.float32)).to(
            weight.device, weight.dtype
        )
        scores: NDArray[np.float32] = model_logits(model, states).float().cpu().numpy()
        return scores

    return of


def distances(w_sm: NDArray[np.float32], states: NDArray[Any]) -> Scores:
    """-‖W_sm[w] - h‖² of states (N, D)."""
    sizes = (w_sm.astype(np.float64) ** 2).sum(axis=1)

    def of(start: int, stop: int) -> NDArray[np.float32]:
        h = np.asarray(states[start:stop], np.float32)
        squares = (h.astype(np.float64) ** 2).sum(1, keepdims=True)
        scores: NDArray[np.float32] = (2 * (h @ w_sm.T) - sizes - squares).astype(np.float32)
        return scores

    return of


def likeliest(scores: Scores, queries: int, k: int) -> NeighborsInMemory:
    """The k tokens of the highest scores."""
    ids, values = [], []
    for start in range(0, queries, _BLOCK):
        block = torch.from_numpy(scores(start, min(start + _BLOCK, queries)))
        best = block.topk(min(k, block.shape[1]), dim=1)
        ids.append(best.indices.numpy())
        values.append(best.values.numpy())
    return NeighborsInMemory(Neighbors(np.concatenate(ids), np.concatenate(values)))


def relisted(
    neighbors: NeighborBlocks, tokens: NDArray[np.integer], scores: Scores, duplicates: bool
) -> NeighborsInMemory:
    """The tokens of the neighbors, each as often as it was retrieved or once, scored again, best
    first."""
    ids, values = [], []
    for start in range(0, len(neighbors), _BLOCK):
        near = neighbors.read(start, start + _BLOCK)
        listed = np.where(near.ids < 0, -1, tokens[near.ids].astype(np.int64))
        if not duplicates:
            listed = _once(listed)
        block = scores(start, start + len(listed))
        own = np.where(
            listed < 0, -np.inf, np.take_along_axis(block, np.maximum(listed, 0), axis=1)
        ).astype(np.float32)
        order = np.argsort(-own, axis=1, kind="stable")
        ids.append(np.take_along_axis(listed, order, axis=1))
        values.append(np.take_along_axis(own, order, axis=1))
    return NeighborsInMemory(Neighbors(np.concatenate(ids), np.concatenate(values)))


def _once(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every token of a list once; further times are missing."""
    order = np.argsort(tokens, axis=1, kind="stable")
    ordered = np.take_along_axis(tokens, order, axis=1)
    again = np.zeros(tokens.shape, bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    once = np.empty_like(tokens)
    np.put_along_axis(once, order, np.where(again, -1, ordered), axis=1)
    return once
