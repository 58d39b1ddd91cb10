"""Indexes as the study of them sees them: built, tuned by one number, and searched.

Ours are made with the library's own pieces, so that nprobe and refine can be tried without building
again, and their files are kept. Rivals are taken where they are installed (`.venv/bin/pip install
hnswlib usearch scann`); they keep a copy of the states in memory.
"""

import importlib.util
import json
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from knnlm.datastore import Column
from knnlm.search.factory import design_index
from knnlm.search.faiss_index import (
    IndexedStates,
    add_entries,
    set_nprobe,
    trained_index,
    write_index,
)
from knnlm.search.index import Index
from knnlm.search.neighbors import Neighbors, top_k
from knnlm.similarity import Metric, as_float32

_THREADS = faiss.omp_get_max_threads()
_EF_CONSTRUCTION = 100
_LINKS = 16


class Searched(ABC):
    """An index, built.

    Attributes:
        name: What it is.
        family: Which line of the plot it belongs to.
        build_seconds: What building took.
        bytes_per_entry: What it keeps in memory for each entry, beside the datastore's own file.
        efforts: The numbers that are tried, from little to much.
    """

    name: str
    family: str
    build_seconds: float
    bytes_per_entry: float
    efforts: tuple[int, ...]

    @abstractmethod
    def search(self, queries: np.ndarray, k: int, effort: int) -> Neighbors:
        """The k nearest of each query, with so much effort."""

    def settings(self, effort: int) -> dict[str, int]:
        """What the effort means."""
        return {"effort": effort}


class FaissIndex(Searched):
    """A FAISS index as the library makes it.

    Args:
        keys: The stored states.
        metric: "l2" or "ip".
        factory: FAISS's string.
        refine: Candidates that are scored again for each neighbor; 1 is none.
        family: Which line of the plot it belongs to.
        efforts: nprobe, or efSearch of a graph.
        folder: Where the index is kept, so that a second run need not build it.
    """

    def __init__(
        self,
        keys: Column,
        metric: Metric,
        factory: str,
        refine: int,
        family: str,
        efforts: tuple[int, ...],
        folder: Path,
    ) -> None:
        design = design_index(
            len(keys), keys.type.width, metric, factory=factory, nprobe=1, refine=refine, recall=0
        )
        self.name = design.factory + (f", {refine} refined" if refine > 1 else "")
        self.family, self.efforts, self.refine = family, efforts, refine
        self.graph = "HNSW" in design.factory
        kept = folder / f"{design.factory}-{metric}-{keys.type.width}x{len(keys)}"
        file, times = kept / "index.faiss", kept / "seconds.json"
        if not times.is_file():
            kept.mkdir(parents=True, exist_ok=True)
            began = time.monotonic()
            states = IndexedStates(keys, metric, augmented=design.augmented)
            built = trained_index(states, design.factory, 0, kept)
            add_entries(built, states)
            took = time.monotonic() - began
            write_index(built, file)
            times.write_text(json.dumps(took))
        self.build_seconds = float(json.loads(times.read_text()))
        self.bytes_per_entry = file.stat().st_size / len(keys)
        built = faiss.read_index(str(file))
        manifest = {"metric": metric, "refine": refine, "recall": 0.0, "recall_k": 0}
        self.index = Index(self.name, manifest, built, keys)

    def search(self, queries: np.ndarray, k: int, effort: int) -> Neighbors:
        """The library's own search."""
        if self.graph:
            self.index.faiss.hnsw.efSearch = effort
        else:
            set_nprobe(self.index.faiss, effort)
        return self.index.search(queries, k)

    def settings(self, effort: int) -> dict[str, int]:
        """nprobe (or efSearch) and refine."""
        return {"efSearch" if self.graph else "nprobe": effort, "refine": self.refine}


class Hnswlib(Searched):
    """hnswlib, fp32 in memory."""

    name, family = "M 16", "hnswlib"
    efforts = (1024, 1536, 2048)

    def __init__(self, keys: Column, metric: Metric) -> None:
        import hnswlib

        began = time.monotonic()
        self.graph = hnswlib.Index(space=metric, dim=keys.type.width)
        self.graph.init_index(len(keys), M=_LINKS, ef_construction=_EF_CONSTRUCTION, random_seed=0)
        self.graph.set_num_threads(_THREADS)
        self.graph.add_items(as_float32(keys.all()), np.arange(len(keys)))
        self.build_seconds = time.monotonic() - began
        self.bytes_per_entry = self.graph.index_file_size() / len(keys)

    def search(self, queries: np.ndarray, k: int, effort: int) -> Neighbors:
        """With ef = effort."""
        self.graph.set_ef(effort)
        ids, distances = self.graph.knn_query(queries, k)
        return top_k(ids.astype(np.int64), -distances, k)


class Usearch(Searched):
    """usearch, fp16 in memory."""

    name, family = "fp16, M 16", "usearch"
    efforts = (1024, 1536, 2048)

    def __init__(self, keys: Column, metric: Metric) -> None:
        from usearch.index import Index as Graph

        began = time.monotonic()
        self.graph = Graph(
            ndim=keys.type.width,
            metric={"l2": "l2sq", "ip": "ip"}[metric],
            dtype="f16",
            connectivity=_LINKS,
            expansion_add=_EF_CONSTRUCTION,
        )
        self.graph.add(np.arange(len(keys)), keys.all(), threads=_THREADS)
        self.build_seconds = time.monotonic() - began
        self.bytes_per_entry = self.graph.memory_usage / len(keys)

    def search(self, queries: np.ndarray, k: int, effort: int) -> Neighbors:
        """With expansion = effort."""
        self.graph.expansion_search = effort
        near = self.graph.search(queries.astype(np.float16), k, threads=_THREADS)
        keys, distances = (np.atleast_2d(a) for a in (near.keys, near.distances))
        return top_k(keys.astype(np.int64), -distances.astype(np.float32), k)


class Scann(Searched):
    """ScaNN: lists, 4-bit codes, candidates scored again from its own fp32 copy."""

    name, family = "ScaNN", "ScaNN"
    efforts = (32, 64, 96, 160)

    def __init__(self, keys: Column, metric: Metric) -> None:
        import scann

        self.metric, began, states = metric, time.monotonic(), as_float32(keys.all())
        distance = {"l2": "squared_l2", "ip": "dot_product"}[metric]
        lists = 1 << int(np.log2(np.sqrt(len(keys))))
        self.searcher = (
            scann.scann_ops_pybind.builder(states, 1024, distance)
            .tree(num_leaves=lists, num_leaves_to_search=64, training_sample_size=250_000)
            .score_ah(2, anisotropic_quantization_threshold=0.2)
            .reorder(3 * 1024)
            .set_n_training_threads(_THREADS)
            .build()
        )
        self.build_seconds = time.monotonic() - began
        width = keys.type.width
        self.bytes_per_entry = 4 * width + width / 4 + 4  # its copy, its codes, its ids: by count

    def search(self, queries: np.ndarray, k: int, effort: int) -> Neighbors:
        """With so many leaves."""
        search = (
            self.searcher.search_batched
            if len(queries) == 1
            else self.searcher.search_batched_parallel
        )
        ids, values = search(queries, k, leaves_to_search=effort)
        scores = -np.abs(values) if self.metric == "l2" else values
        return top_k(ids.astype(np.int64), scores.astype(np.float32), k)


RIVALS: dict[str, type[Any]] = {"hnswlib": Hnswlib, "usearch": Usearch, "scann": Scann}


def installed_rivals() -> dict[str, type[Any]]:
    """Those that are here."""
    return {name: made for name, made in RIVALS.items() if importlib.util.find_spec(name)}
