"""Made-up hidden states, clustered as real ones are, in a datastore's column: for sizes that would
take hours to build."""

from pathlib import Path

import numpy as np

from knnlm.datastore import Column, ColumnType

_CLUSTERS, _AT_ONCE = 512, 1 << 14
_INNER = 48
"""Dimensions that clusters spread in: states of an LM fill few of theirs."""


def made_up_states(work: Path, entries: int, width: int, queries: int) -> tuple[Column, np.ndarray]:
    """A column of fp16 states on disk, made once, and queries (fp32) of the same distribution.

    Args:
        work: Folder for the file.
        entries: How many states.
        width: Numbers of a state.
        queries: How many queries.
    """
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((_CLUSTERS, width), np.float32)
    inner = rng.standard_normal((min(_INNER, width), width), np.float32) / 8
    share = rng.dirichlet(np.full(_CLUSTERS, 0.5))

    def some(count: int) -> np.ndarray:
        which = rng.choice(_CLUSTERS, count, p=share)
        spread = rng.standard_normal((count, len(inner)), np.float32) @ inner
        return centers[which] + spread + rng.standard_normal((count, width), np.float32) / 8

    asked = some(queries).astype(np.float16).astype(np.float32)
    file = work / f"states-{entries}x{width}.npy"
    if not file.is_file():
        part = file.with_suffix(".tmp")
        states = np.lib.format.open_memmap(part, "w+", np.float16, (entries, width))
        for start in range(0, entries, _AT_ONCE):
            states[start : start + _AT_ONCE] = some(min(_AT_ONCE, entries - start))
        states.flush()
        del states
        part.rename(file)
    return Column([np.load(file, mmap_mode="r")], ColumnType("<f2", width)), asked
