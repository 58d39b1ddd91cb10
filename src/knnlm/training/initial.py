"""What can be learned in the place of the store, as data, and how each begins.

| kind         | what                                              | begins as                                       |
|--------------|---------------------------------------------------|-------------------------------------------------|
| `embeddings` | n rows a word, or as many as words deserve        | W_sm (L2: its half), and noise where n > 1      |
| `softmaxes`  | R views of the state over one output embedding    | W_sm behind views that change nothing, and noise |
| `network`    | a small network over att and ffn together         | the LM itself                                   |
| `clusters`   | centroids of the store's rows and what they weigh  | k-means of the store (clustering.py)            |

Each is a torch module whose `component()` is the component that it is so far. Knows nothing of
rows, stores or loops."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.clusters import Clusters
from knnlm.components.head import Head
from knnlm.components.mixture_of_softmaxes import MixtureOfSoftmaxes
from knnlm.components.mlp import MLP
from knnlm.errors import UsageError, unknown
from knnlm.similarity import Metric

Kind = Literal["embeddings", "softmaxes", "network", "clusters"]
_MOST: dict[Kind, int] = {
    "embeddings": 64,
    "softmaxes": 16,
    "network": 1 << 16,
    "clusters": 1 << 24,
}
NOISE = 0.3
"""Of the spread of W_sm: copies that begin almost equal stay so for as long as learning lasts, and
add nothing."""


@dataclass(frozen=True, kw_only=True)
class ComponentSpec:
    """What is learned. `size` is n, R, the inner width or the number of clusters, as the kind has
    it."""

    kind: Kind = "embeddings"
    keys: tuple[str, ...] = ("att",)
    size: int = 1
    metric: Metric = "ip"
    own_embedding: bool = True
    """Whether a mixture of softmaxes or a network may change its copy of W_sm."""

    def __post_init__(self) -> None:
        most = _MOST[checked_kind(self.kind)]
        if not 1 <= self.size <= most:
            raise UsageError(f"size {self.size} of {self.kind} is out of range: choose 1 to {most}")
        if self.kind != "network" and len(self.keys) != 1:
            raise UsageError(f"{self.kind} read one state: choose att or ffn")


def checked_kind(kind: str) -> Kind:
    """A kind that exists."""
    for known in _MOST:
        if kind == known:
            return known
    raise unknown("kind of substitute", kind, _MOST)


def begin(
    what: ComponentSpec,
    w_sm: torch.Tensor,
    counts: NDArray[np.integer] | None = None,
    seed: int = 0,
) -> "_Embeddings | _Softmaxes | _Network":
    """The module to learn, from the LM's output embedding. `counts` are the rows of each word where
    they are not all `size`."""
    if what.kind == "clusters":
        raise ValueError("clusters begin from a store: initial_clusters")
    generator = torch.Generator().manual_seed(seed)
    w_sm = w_sm.detach().float().cpu()
    if what.kind == "embeddings":
        rows = np.full(len(w_sm), what.size) if counts is None else counts
        return _Embeddings(what, w_sm, torch.from_numpy(np.asarray(rows, np.int64)), generator)
    if what.kind == "softmaxes":
        return _Softmaxes(what, w_sm, generator)
    return _Network(what, w_sm, generator)


def initial_clusters(found: Clusters) -> "_Clusters":
    """The module to learn from clusters: where their centroids are and what each weighs; M
    stays."""
    return _Clusters(found)


def rows_for_words(weights: Sequence[float] | NDArray[np.number], total: int) -> NDArray[np.int64]:
    """1 + ⌊log_b f⌋ rows for each word of weight f, b such that they come nearest to `total` from
    below.

    The paper's adaptive sizes: f is a word's frequency or its total training loss; words below 1
    have one row."""
    logs = np.log(np.maximum(np.asarray(weights, np.float64), 1.0))
    if total < len(logs):
        raise UsageError(f"{total:,} rows are fewer than the {len(logs):,} words: each needs one")

    def rows(scale: float) -> NDArray[np.int64]:
        return 1 + np.floor(logs * scale).astype(np.int64)

    low, high = 0.0, 1.0
    while rows(high).sum() <= total and high < 1e9:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rows(middle).sum() <= total else (low, middle)
    return rows(low)


class _Embeddings(torch.nn.Module):
    counts: torch.Tensor

    def __init__(
        self,
        what: ComponentSpec,
        w_sm: torch.Tensor,
        counts: torch.Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.what = what
        self.register_buffer("counts", counts)
        weight = (w_sm / 2 if what.metric == "l2" else w_sm).repeat_interleave(
            counts, 0
        )  # 2w·h is then the LM's w·h
        several = (counts > 1).repeat_interleave(counts)[:, None]
        self.weight = torch.nn.Parameter(weight + several * _noise(weight, w_sm, generator))

    def component(self) -> Head:
        return Head(self.what.keys, self.weight, self.counts, self.what.metric, 1.0)


class _Softmaxes(torch.nn.Module):
    def __init__(self, what: ComponentSpec, w_sm: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.what, width = what, w_sm.shape[1]
        self.embedding = torch.nn.Parameter(w_sm.clone(), requires_grad=what.own_embedding)
        views = torch.eye(width).repeat(what.size, 1, 1)
        self.views = torch.nn.Parameter(
            views + torch.randn(views.shape, generator=generator) * NOISE / width**0.5
        )
        self.view_bias = torch.nn.Parameter(torch.zeros(what.size, width))
        self.gate = torch.nn.Parameter(
            torch.randn(what.size, width, generator=generator) * NOISE / width**0.5
        )
        self.gate_bias = torch.nn.Parameter(torch.zeros(what.size))

    def component(self) -> MixtureOfSoftmaxes:
        return MixtureOfSoftmaxes(
            self.what.keys, self.embedding, self.views, self.view_bias, self.gate, self.gate_bias
        )


class _Network(torch.nn.Module):
    def __init__(self, what: ComponentSpec, w_sm: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.what, width = what, w_sm.shape[1]
        states = width * len(what.keys)
        self.embedding = torch.nn.Parameter(w_sm.clone(), requires_grad=what.own_embedding)
        parts = [
            torch.eye(width) if key == what.keys[-1] else torch.zeros(width, width)
            for key in what.keys
        ]
        self.direct = torch.nn.Parameter(torch.cat(parts, dim=1))
        self.inner = torch.nn.Parameter(
            torch.randn(what.size, states, generator=generator) / states**0.5
        )
        self.inner_bias = torch.nn.Parameter(torch.zeros(what.size))
        self.outer = torch.nn.Parameter(torch.zeros(width, what.size))

    def component(self) -> MLP:
        return MLP(
            self.what.keys, self.embedding, self.direct, self.inner, self.inner_bias, self.outer
        )


class _Clusters(torch.nn.Module):
    def __init__(self, found: Clusters) -> None:
        super().__init__()
        self.found = found
        self.centroids = torch.nn.Parameter(found.centroids.clone())
        self.bias = torch.nn.Parameter(found.bias.clone())

    def component(self) -> Clusters:
        return self.found._replace(centroids=self.centroids, bias=self.bias)


def _noise(like: torch.Tensor, w_sm: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator) * NOISE * w_sm.std()
