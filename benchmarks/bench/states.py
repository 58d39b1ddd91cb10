"""Made-up hidden states, in a column or in a whole datastore: for sizes that would take hours to
build.

A column has 512 clusters, as real states have some. 1,024 neighbors are then a part of a cluster,
or several whole ones, as the number of states has it. So datastores, which are made in many sizes,
have none: their states are numbers that spread like 1, 1/2, 1/3, …, rotated, and a state has near
neighbors at any size.
"""

import json
from pathlib import Path

import numpy as np

from bench.setting import StorePair
from knnlm.datastore import ENTRIES_KIND, Column, ColumnType, TableWriter
from knnlm.locks import write_lock

_CLUSTERS, _AT_ONCE = 512, 1 << 14
_INNER = 48
"""Dimensions that clusters spread in: states of an LM fill few of theirs."""
_PART = 1 << 18
_DOCUMENT = 1 << 12
_TARGET_BITS = 9
"""A predicted token is made of the signs of so many numbers, those that differ most."""
_PREDICTED = 0.5
"""Share of made-up tokens that their state predicts; the others are random."""


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


def made_up_store(work: Path, entries: int, width: int, queries: int) -> StorePair:
    """A datastore with att states, and the entries of another text of the same distribution.

    Both are made once; what was interrupted resumes.

    Args:
        work: Folder for both.
        entries: Entries of the datastore.
        width: Numbers of a state.
        queries: Entries of the other text.
    """
    pair = StorePair(
        f"made-up, {entries:,} × {width}",
        work / f"made-up-store-{entries}x{width}",
        work / f"made-up-queries-{queries}x{width}",
    )
    _write(pair.store, entries, width, seed=1, logprobs=False)
    _write(pair.queries, queries, width, seed=2, logprobs=True)
    return pair


def _write(path: Path, entries: int, width: int, *, seed: int, logprobs: bool) -> None:
    directions = _directions(width)
    number = ColumnType("<i4", 0)
    columns = {"att": ColumnType("<f2", width), "target": number}
    columns |= {"document": number, "position": number}
    if logprobs:
        columns["lm_logprob"] = ColumnType("<f4", 0)
    meta = {
        "model": {
            "class": "made-up",
            "precision": "float32",
            "vocab_size": 1 << _TARGET_BITS,
            "fingerprint": "made-up",
            "tokenizer": "made-up",
        },
        "text": {"kind": "made-up", "entries": entries, "seed": seed},
        "keys": ["att"],
        "taps": {},
        "att_module": None,
        "window": _DOCUMENT,
        "stride": _DOCUMENT,
        "part_rows": _PART,
    }
    summary = {"words": entries, "documents": -(-entries // _DOCUMENT)}
    summary |= {"model_source": "made-up", "adapter": None}
    with write_lock(path), TableWriter(path, ENTRIES_KIND, columns, meta) as writer:
        if writer.manifest["complete"]:
            return
        for start in range(writer.rows, entries, _PART):
            stop = min(start + _PART, entries)
            rng = np.random.default_rng([seed, start])
            for first in range(start, stop, _AT_ONCE):
                writer.append(_rows(directions, rng, first, min(first + _AT_ONCE, stop), logprobs))
            writer.commit({"documents.json": _documents(start, stop, entries)})
        writer.finish(summary)


def _directions(width: int) -> np.ndarray:
    """A random rotation, of numbers that spread like 1, 1/2, 1/3, …"""
    random = np.random.default_rng(0).standard_normal((width, width))
    rotation = np.linalg.qr(random)[0].astype(np.float32)
    return rotation / np.arange(1, width + 1, dtype=np.float32)[:, None]


def _rows(
    directions: np.ndarray, rng: np.random.Generator, start: int, stop: int, logprobs: bool
) -> dict[str, np.ndarray]:
    count, entry = stop - start, np.arange(start, stop)
    inner = rng.standard_normal((count, len(directions)), np.float32)
    signs = (inner[:, :_TARGET_BITS] > 0) @ (1 << np.arange(_TARGET_BITS))
    random, predicted = rng.integers(0, 1 << _TARGET_BITS, count), rng.random(count) < _PREDICTED
    rows = {
        "att": (inner @ directions).astype("<f2"),
        "target": np.where(predicted, signs, random).astype("<i4"),
        "document": (entry // _DOCUMENT).astype("<i4"),
        "position": (entry % _DOCUMENT + 1).astype("<i4"),
    }
    if logprobs:
        rows["lm_logprob"] = -rng.gamma(1.5, 2, count).astype("<f4")
    return rows


def _documents(start: int, stop: int, entries: int) -> bytes:
    """The documents that begin in these entries: name, tokens, words, first token."""
    begins = range(-(-start // _DOCUMENT) * _DOCUMENT, stop, _DOCUMENT)
    sizes = [min(_DOCUMENT, entries - begin) for begin in begins]
    infos = [[f"{begin // _DOCUMENT}", n + 1, n, 0] for begin, n in zip(begins, sizes, strict=True)]
    return json.dumps(infos).encode()
