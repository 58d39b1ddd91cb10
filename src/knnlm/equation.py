"""The equation, dense and obvious: the truth every fast path is tested against.

    P = (1-λ) · softmax(W_sm · h_sm)  +  λ · M · softmax( mask-to-k(W_ds ⊗ h_ds) / τ )

float64, every matrix written out, nothing clever: it is for reading and for testing, not for
running on real datastores. It knows nothing of files, models or indexes.

Shapes: B queries, D width, V vocabulary, N entries of the datastore.

| here      | paper     | meaning                                                      |
|-----------|-----------|--------------------------------------------------------------|
| `w_sm`    | W_sm      | V×D output embedding of the LM                               |
| `h_sm`    | h_sm      | B×D hidden states that enter the output embedding            |
| `w_ds`    | W_ds      | N×D stored states, one for each token of the training text   |
| `h_ds`    | h_ds      | B×D hidden states used as queries                            |
| `tokens`  | M         | N next tokens; M[v, i] = 1 where tokens[i] = v               |
| `k`       | k         | how many neighbors vote                                      |
| `tau`     | τ         | retrieval temperature: larger, and their votes are more even |
| `lam`     | λ         | interpolation weight of the neighbors                        |
"""

from typing import Literal, assert_never

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(x: Array) -> Array:
    """softmax over the last axis; where all are -inf the result is zeros, not NaN."""
    top = np.max(x, axis=-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def similarity(w_ds: Array, h_ds: Array, metric: Literal["l2", "ip"]) -> Array:
    """W_ds ⊗ h_ds (B×N), higher is nearer: -‖h-w‖² for l2, h·w for ip."""
    match metric:
        case "l2":
            return -((h_ds[:, None, :] - w_ds[None, :, :]) ** 2).sum(axis=-1)
        case "ip":
            return h_ds @ w_ds.T
        case _:
            assert_never(metric)


def mask_to_k(scores: Array, k: int) -> Array:
    """Keep each query's k best scores (ties: lower id first); the others become -inf.

    Args:
        scores: B×N similarities.
        k: How many to keep; a k above N keeps all.
    """
    kept = np.full_like(scores, -np.inf)
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :k]
    np.put_along_axis(kept, order, np.take_along_axis(scores, order, axis=-1), axis=-1)
    return kept


def vocabulary_matrix(tokens: NDArray[np.integer], vocab: int) -> Array:
    """M (V×N): one column for each entry, with a single 1 at its token."""
    m = np.zeros((vocab, len(tokens)))
    m[tokens, np.arange(len(tokens))] = 1.0
    return m


def p_knn(scores: Array, tokens: NDArray[np.integer], vocab: int, k: int, tau: float) -> Array:
    """p_kNN (B×V) = M · softmax(mask-to-k(scores)/τ).

    Args:
        scores: B×N similarities.
        tokens: N next tokens.
        vocab: V.
        k: How many neighbors vote.
        tau: Retrieval temperature.
    """
    return softmax(mask_to_k(scores, k) / tau) @ vocabulary_matrix(tokens, vocab).T


def p_mixture(
    w_sm: Array,
    h_sm: Array,
    w_ds: Array,
    h_ds: Array,
    tokens: NDArray[np.integer],
    *,
    k: int,
    tau: float,
    lam: float,
    metric: Literal["l2", "ip"] = "l2",
) -> Array:
    """P (B×V): the whole equation, its arguments named as in the table above.

    Example:
        >>> p = p_mixture(w_sm, h_sm, w_ds, h_ds, tokens, k=2, tau=1.0, lam=0.25)
        >>> p.sum(axis=1)  # one for every query
    """
    p_lm = softmax(h_sm @ w_sm.T)
    knn = p_knn(similarity(w_ds, h_ds, metric), tokens, len(w_sm), k, tau)
    return (1 - lam) * p_lm + lam * knn
