"""Datastores made from datastores: a random part, zero entries added, states normalized or reduced.

They are tables like any other and go through the same search, caches and checks; their manifests
say what was done (`derived`) and to which datastore. Only experiments make them: `knnlm build`
cannot write an entry that no model saw."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import ENTRIES_KIND, Column, ColumnType, Entries, TableWriter, open_entries
from knnlm.locks import write_lock

_BLOCK = 1 << 16
_PCA_ENTRIES = 1 << 17
_EPSILON = 1e-5

Change = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def derive(
    source: Entries,
    out: Path,
    keys: Sequence[str],
    note: Mapping[str, Any],
    *,
    ids: NDArray[np.integer] | None = None,
    zeros: int = 0,
    change: Change | None = None,
    width: int | None = None,
) -> Entries:
    """Write entries made from `source` into the folder `out`; an interrupted derivation there is
    continued.

    Args:
        source: The entries to begin with.
        out: The folder to write.
        keys: The states to keep.
        note: What is done, for the manifest.
        ids: The entries to keep, ascending; None keeps all.
        zeros: How many all-zero entries follow them.
        change: What is done to the states, a block at a time.
        width: The width of the changed states, where it differs.
    """
    states = {key: source.key(key) for key in keys}
    others = {n: c for n, c in source.columns.items() if n not in source.keys}
    columns = {key: ColumnType(c.type.dtype, width or c.type.width) for key, c in states.items()}
    columns |= {name: other.type for name, other in others.items()}
    meta = {**source.meta, "keys": list(keys), "derived": dict(note), "from": source.fingerprint}
    count = source.count if ids is None else len(ids)
    with write_lock(out), TableWriter(out, ENTRIES_KIND, columns, meta) as writer:
        while not writer.manifest["complete"]:
            start = writer.rows
            stop = min(start + _BLOCK, count)
            block = np.arange(start, stop) if ids is None else ids[start:stop]
            if len(block):
                changed = {key: _changed(c, block, change) for key, c in states.items()}
                kept = {name: other.gather(block) for name, other in others.items()}
                writer.append({**changed, **kept})
                writer.commit()
            elif start < count + zeros:
                empty = min(_BLOCK, count + zeros - start)
                writer.append({n: np.zeros(c.shape(empty), c.dtype) for n, c in columns.items()})
                writer.commit()
            else:
                words = round(source.words * count / source.count)  # in proportion to the tokens
                summary = {**source.table.manifest["summary"], "words": words}
                summary.pop("forgotten", None)
                writer.finish(summary)
    return open_entries(out)


def _changed(column: Column, ids: NDArray[np.integer], change: Change | None) -> NDArray[Any]:
    states = column.gather(ids)
    return states if change is None else change(states.astype(np.float32)).astype(column.type.dtype)


def subsample(count: int, fraction: float, draw: int) -> NDArray[np.int64]:
    """Random ids below `count` without replacement, ascending; each draw is another part."""
    rng = np.random.default_rng(draw)
    size = max(1, round(count * fraction))
    return np.sort(rng.choice(count, size=size, replace=False)).astype(np.int64)


def normalized(states: NDArray[np.float32]) -> NDArray[np.float32]:
    """LayerNorm without gain or bias."""
    centered = states - states.mean(axis=1, keepdims=True)
    variance = (centered**2).mean(axis=1, keepdims=True)
    return np.asarray(centered / np.sqrt(variance + _EPSILON))


def principal_components(source: Entries, key: str, width: int) -> Change:
    """The projection on the first `width` principal components, fitted on some of the states."""
    column = source.key(key)
    ids = subsample(source.count, min(1.0, _PCA_ENTRIES / source.count), draw=0)
    pca = faiss.PCAMatrix(column.type.width, width)
    pca.train(column.gather(ids).astype(np.float32))
    return lambda states: np.asarray(pca.apply(np.ascontiguousarray(states)), np.float32)
