"""One of every component, small: of any size in memory, and over a real datastore."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import (
    KNN,
    MLP,
    Clusters,
    Component,
    FullDatastore,
    Head,
    Mixture,
    MixtureOfSoftmaxes,
)
from knnlm.components.clusters import token_shares
from knnlm.datastore.entries import Entries
from knnlm.search.retrieval import Retrieval
from knnlm.similarity import Metric
from tests.arrays import column


class EntriesInMemory(Entries):
    """A datastore of one key that is nowhere on disk."""

    def __init__(
        self,
        states: NDArray[Any],
        tokens: NDArray[np.integer],
        vocab_size: int,
        key: str = "att",
        parts: int = 1,
    ) -> None:
        table: Any = SimpleNamespace(columns={key: column(states, parts)})
        self.table, self.columns, self.count = table, table.columns, len(tokens)
        self.meta = {"keys": [key], "model": {"vocab_size": vocab_size}}
        self.__dict__["targets"] = tokens.astype(np.int32)

    def verify(self, *columns: str) -> int:
        return 0


def random_tensors(seed: int) -> Callable[..., torch.Tensor]:
    """A function from a shape to a random tensor."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator)


def random_head(v: int, d: int, metric: Metric, tau: float, seed: int = 0) -> Head:
    """A head with one to three embeddings of each vocabulary entry."""
    counts = torch.from_numpy(np.random.default_rng(seed).integers(1, 4, v))
    return Head(("att",), random_tensors(seed)(int(counts.sum()), d), counts, metric, tau)


def random_softmaxes(v: int, d: int, tau: float = 1.0, seed: int = 0) -> MixtureOfSoftmaxes:
    t, r = random_tensors(seed), 2
    return MixtureOfSoftmaxes(("ffn",), t(v, d), t(r, d, d), t(r, d), t(r, d), t(r), tau)


def random_mlp(v: int, d: int, tau: float = 1.0, seed: int = 0) -> MLP:
    t, u = random_tensors(seed), 6
    return MLP(("att", "ffn"), t(v, d), t(d, 2 * d), t(u, 2 * d), t(u), t(d, u), tau)


def random_clusters(v: int, d: int, metric: Metric = "l2", tau: float = 1.0) -> Clusters:
    """Three clusters that leave some vocabulary entries out."""
    t = random_tensors(0)
    shares = token_shares(np.array([0, 1, 2, 2, 1]), np.array([v - 1, 1, 2, 3, 3]) % v, 3, v)
    return Clusters(("att",), t(3, d), t(3), *shares, metric, tau)


def every_learned(v: int = 7, d: int = 4) -> list[Component]:
    """One of each kind that is made of tensors, and a mixture of three."""
    head = random_head(v, d, "l2", 1.3)
    softmaxes, mlp, clusters = (
        random_softmaxes(v, d, 0.7),
        random_mlp(v, d, 1.1),
        random_clusters(v, d, "l2", 2.0),
    )
    mixture = Mixture((clusters, softmaxes, mlp), (0.5, 0.2, 0.3))
    return [head, softmaxes, mlp, clusters, mixture]


Make = Callable[[Entries, str, float], Component]


def _retrieved(index: str | None, **fields: Any) -> Retrieval:
    return Retrieval(key="att", index=index, k=12, **fields)


def _mixture(store: Entries, index: str) -> Mixture:
    v, d = store.vocab_size, store.key("att").type.width
    knn = KNN(store, _retrieved(None), 3.0)
    return Mixture((knn, random_mlp(v, d), random_head(v, d, "ip", 4.0)), (0.5, 0.2, 0.3))


def _sizes(store: Entries) -> tuple[int, int]:
    return store.vocab_size, store.key("att").type.width


SIBLINGS: dict[str, Make] = {
    "knn": lambda store, index, tau: KNN(store, _retrieved(None), tau),
    "knn-ip": lambda store, index, tau: KNN(store, _retrieved(None, metric="ip"), tau),
    "knn-index": lambda store, index, tau: KNN(store, _retrieved(index, score="index"), tau),
    "knn-rescored": lambda store, index, tau: KNN(store, _retrieved(index), tau),
    "full-datastore": lambda store, index, tau: FullDatastore(store, "att", "l2", tau),
    "full-datastore-ip": lambda store, index, tau: FullDatastore(store, "ffn", "ip", tau),
    "clusters": lambda store, index, tau: random_clusters(*_sizes(store), "l2", tau),
    "head-l2": lambda store, index, tau: random_head(*_sizes(store), "l2", tau),
    "head-ip": lambda store, index, tau: random_head(*_sizes(store), "ip", tau),
    "softmaxes": lambda store, index, tau: random_softmaxes(*_sizes(store), tau),
    "mlp": lambda store, index, tau: random_mlp(*_sizes(store), tau),
    "mixture-of-learned": lambda store, index, tau: every_learned(*_sizes(store))[-1],
    "mixture-with-knn": lambda store, index, tau: _mixture(store, index),
}
"""Every sibling by name, made from a datastore, the name of an index of it, and τ."""
