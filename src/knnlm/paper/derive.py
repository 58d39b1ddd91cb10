"""Stores made from stores: a random part, zero rows mixed in, states normalised or reduced. Tables
like any other.

Derived stores go through the same search, caches and checks as real ones; their manifests say what
was done (`derived`) and to which store. Only experiments make them: `knnlm build` cannot write a
row that no model saw."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.entries import KIND, Entries, open_entries
from knnlm.datastore.table import Column, ColumnType
from knnlm.datastore.table_writer import TableWriter
from knnlm.files import write_lock

_ROWS = 1 << 16
_PCA_ROWS = 1 << 17
_EPSILON = 1e-5

Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def derive(
    source: Entries,
    out: Path,
    keys: Sequence[str],
    note: Mapping[str, Any],
    *,
    rows: NDArray[np.integer] | None = None,
    zeros: int = 0,
    change: Change | None = None,
    width: int | None = None,
) -> Entries:
    """`source` with only `rows` (ascending), its states `keys` changed to `width`, and then `zeros`
    zero rows."""
    states = {key: source.key(key) for key in keys}
    others = {n: c for n, c in source.table.columns.items() if n not in source.keys}
    columns = {key: ColumnType(c.type.dtype, width or c.type.width) for key, c in states.items()}
    columns |= {name: other.type for name, other in others.items()}
    meta = {**source.meta, "keys": list(keys), "derived": dict(note), "from": source.fingerprint}
    count = source.count if rows is None else len(rows)
    with write_lock(out), TableWriter(out, KIND, columns, meta) as writer:
        while not writer.manifest["complete"]:
            place = writer.rows
            stop = min(place + _ROWS, count)
            ids = np.arange(place, stop) if rows is None else rows[place:stop]
            if len(ids):
                found = {key: _changed(c, ids, change) for key, c in states.items()}
                writer.append(
                    {**found, **{name: other.gather(ids) for name, other in others.items()}}
                )
                writer.commit()
            elif place < count + zeros:
                empty = min(_ROWS, count + zeros - place)
                writer.append({n: np.zeros(c.shape(empty), c.dtype) for n, c in columns.items()})
                writer.commit()
            else:
                words = round(source.words * count / source.count)  # a token's share of them
                writer.finish({**source.table.manifest["summary"], "words": words})
    return open_entries(out)


def _changed(column: Column, ids: NDArray[np.integer], change: Change | None) -> NDArray[Any]:
    rows = column.gather(ids)
    return rows if change is None else change(rows.astype(np.float32)).astype(column.type.dtype)


def subsample(rows: int, fraction: float, draw: int) -> NDArray[np.int64]:
    """Random rows without replacement, ascending; each draw is another part of the store."""
    rng = np.random.default_rng(draw)
    found: NDArray[np.int64] = np.sort(
        rng.choice(rows, size=max(1, round(rows * fraction)), replace=False)
    )
    return found


def zero_rows(rows: int, share: float) -> int:
    """How many zero rows make up `share` of the whole."""
    return round(rows * share / (1 - share))


def normalized(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """LayerNorm without gain or bias."""
    centred = states - states.mean(axis=1, keepdims=True)
    found: NDArray[np.float32] = centred / np.sqrt(
        (centred**2).mean(axis=1, keepdims=True) + _EPSILON
    )
    return found


def principal_components(source: Entries, key: str, width: int) -> Change:
    """The projection on the first `width` principal components of the stored states, fitted on some
    of them."""
    column = source.key(key)
    ids = subsample(source.count, min(1.0, _PCA_ROWS / source.count), draw=0)
    pca = faiss.PCAMatrix(column.type.width, width)
    pca.train(column.gather(ids).astype(np.float32))
    return lambda states: np.asarray(pca.apply(np.ascontiguousarray(states)), np.float32)
