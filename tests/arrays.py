"""Columns and neighbors in memory, and random cases of the whole equation for hypothesis."""

from typing import Any, Literal, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from knnlm.datastore.table import Column, ColumnType
from knnlm.search.neighbors import Neighbors


def column(values: NDArray[Any], parts: int = 1) -> Column:
    """`values` as a column of `parts` parts."""
    return Column(
        np.array_split(values, parts),
        ColumnType(values.dtype.str, values.shape[1] if values.ndim > 1 else 0),
    )


class InMemory:
    """Neighbors in memory, read like cached ones."""

    def __init__(self, near: Neighbors) -> None:
        self.near, self.k = near, near.ids.shape[1]

    def __len__(self) -> int:
        return len(self.near.ids)

    def read(self, start: int, stop: int) -> Neighbors:
        return Neighbors(self.near.ids[start:stop], self.near.scores[start:stop])


class Case(NamedTuple):
    """A datastore, queries and settings of any shape."""

    w_sm: NDArray[np.float64]
    h_sm: NDArray[np.float64]
    w_ds: NDArray[np.float32]
    h_ds: NDArray[np.float32]
    tokens: NDArray[np.int32]
    targets: NDArray[np.int32]
    k: int
    tau: float
    lam: float
    metric: Literal["l2", "ip"]
    parts: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Random D, N, V, k (often more than N), τ, λ. Whole-number states make many exact ties and
    duplicates."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, n, v, b = (draw(st.integers(1, top)) for top in (9, 60, 12, 5))
    grid = draw(st.booleans())

    def states(rows: int) -> NDArray[np.float32]:
        return (rng.integers(-2, 3, (rows, d)) if grid else rng.standard_normal((rows, d))).astype(
            np.float32
        )

    return Case(
        w_sm=rng.standard_normal((v, d)),
        h_sm=rng.standard_normal((b, d)),
        w_ds=states(n),
        h_ds=states(b),
        tokens=rng.integers(0, v, n).astype(np.int32),
        targets=rng.integers(0, v, b).astype(np.int32),
        k=draw(st.integers(1, 80)),
        tau=draw(st.sampled_from([0.05, 0.3, 1.0, 7.0, 300.0])),
        lam=draw(st.sampled_from([0.0, 1e-6, 0.25, 0.5, 0.999, 1.0])),
        metric=draw(st.sampled_from(["l2", "ip"])),
        parts=draw(st.integers(1, 4)),
    )
