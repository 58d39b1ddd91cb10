"""How each kind of component starts (kinds.py lists them).

| kind                   | component                                            | starts as                                     |
|------------------------|------------------------------------------------------|-----------------------------------------------|
| `head`                 | n embeddings for each vocabulary entry, or as needed | W_sm (L2: half of it), with noise where n > 1 |
| `mixture-of-softmaxes` | R projections over one output embedding              | W_sm, projections near the identity           |
| `mlp`                  | a small MLP over att and ffn together                | the LM itself                                 |
| `clusters`             | centroids of the entries, and what they weigh        | k-means of the entries (clustering.py)        |

Each is a torch module whose `component()` is the component as it is so far.
"""  # noqa: E501  # a table

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import MLP, Clusters, Head, LearnedComponent, MixtureOfSoftmaxes
from knnlm.errors import UsageError
from knnlm.similarity import Metric
from knnlm.training.kinds import ComponentSpec

NOISE = 0.3
"""Of the spread of W_sm: copies that start almost equal stay so for all of training and add
nothing."""


class LearnableModule(torch.nn.Module, ABC):
    """A torch module that is a component at every moment of its training."""

    @abstractmethod
    def component(self) -> LearnedComponent:
        """The component as it is now; it shares the module's parameters."""


def initial_module(
    spec: ComponentSpec,
    w_sm: torch.Tensor,
    counts: NDArray[np.integer] | None = None,
    seed: int = 0,
) -> LearnableModule:
    """The module to train, before its first update.

    Args:
        spec: Which component; not clusters, which start from a datastore (`initial_clusters`).
        w_sm: The LM's output embedding (V, D).
        counts: Embeddings of each vocabulary entry, where they are not all `spec.size`.
        seed: Of the noise.
    """
    generator = torch.Generator().manual_seed(seed)
    w_sm = w_sm.detach().float().cpu()
    match spec.kind:
        case "head":
            rows = np.full(len(w_sm), spec.size) if counts is None else counts
            return _Head(spec, w_sm, torch.from_numpy(np.asarray(rows, np.int64)), generator)
        case "mixture-of-softmaxes":
            return _MixtureOfSoftmaxes(spec, w_sm, generator)
        case "mlp":
            return _MLP(spec, w_sm, generator)
        case "clusters":
            raise ValueError("clusters start from a datastore: use initial_clusters")
        case _:
            assert_never(spec.kind)


def initial_clusters(clusters: Clusters) -> LearnableModule:
    """The module to train from clusters: their centroids and biases; M stays as it is."""
    return _Clusters(clusters)


def embeddings_by_weight(
    weights: Sequence[float] | NDArray[np.number], total: int
) -> NDArray[np.int64]:
    """1 + ⌊log_b f⌋ embeddings for a vocabulary entry of weight f.

    b is such that they come nearest to `total` from below. The paper's adaptive sizes: f is an
    entry's frequency or its total training loss; entries of weight below 1 have one embedding.
    """
    logs = np.log(np.maximum(np.asarray(weights, np.float64), 1.0))
    if total < len(logs):
        raise UsageError(
            f"{total:,} embeddings are fewer than the {len(logs):,} vocabulary entries: each needs "
            "one"
        )

    def counts(scale: float) -> NDArray[np.int64]:
        return 1 + np.floor(logs * scale).astype(np.int64)

    low, high = 0.0, 1.0
    while counts(high).sum() <= total and high < 1e9:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() <= total else (low, middle)
    return counts(low)


class _Head(LearnableModule):
    counts: torch.Tensor

    def __init__(
        self,
        spec: ComponentSpec,
        w_sm: torch.Tensor,
        counts: torch.Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.spec = spec
        self.register_buffer("counts", counts)
        weight = _start_of_head(w_sm, spec.metric).repeat_interleave(counts, 0)
        several = (counts > 1).repeat_interleave(counts)[:, None]
        noise = torch.randn(weight.shape, generator=generator) * NOISE * w_sm.std()
        self.weight = torch.nn.Parameter(weight + several * noise)

    def component(self) -> Head:
        return Head(self.spec.keys, self.weight, self.counts, self.spec.metric, 1.0)


def _start_of_head(w_sm: torch.Tensor, metric: Metric) -> torch.Tensor:
    """Embeddings that score as W_sm does."""
    match metric:
        case "l2":
            return w_sm / 2  # its 2w·h is then the LM's w·h
        case "ip":
            return w_sm
        case _:
            assert_never(metric)


class _MixtureOfSoftmaxes(LearnableModule):
    def __init__(self, spec: ComponentSpec, w_sm: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.spec, width = spec, w_sm.shape[1]
        scale = NOISE / width**0.5
        self.embedding = torch.nn.Parameter(w_sm.clone(), requires_grad=spec.own_embedding)
        projections = torch.eye(width).repeat(spec.size, 1, 1)
        self.projections = torch.nn.Parameter(
            projections + torch.randn(projections.shape, generator=generator) * scale
        )
        self.projection_bias = torch.nn.Parameter(torch.zeros(spec.size, width))
        self.gate = torch.nn.Parameter(torch.randn(spec.size, width, generator=generator) * scale)
        self.gate_bias = torch.nn.Parameter(torch.zeros(spec.size))

    def component(self) -> MixtureOfSoftmaxes:
        return MixtureOfSoftmaxes(
            self.spec.keys,
            self.embedding,
            self.projections,
            self.projection_bias,
            self.gate,
            self.gate_bias,
        )


class _MLP(LearnableModule):
    def __init__(self, spec: ComponentSpec, w_sm: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__()
        self.spec, width = spec, w_sm.shape[1]
        all_widths = width * len(spec.keys)
        self.embedding = torch.nn.Parameter(w_sm.clone(), requires_grad=spec.own_embedding)
        parts = [
            torch.eye(width) if key == spec.keys[-1] else torch.zeros(width, width)
            for key in spec.keys
        ]
        self.direct = torch.nn.Parameter(torch.cat(parts, dim=1))
        inner = torch.randn(spec.size, all_widths, generator=generator) / all_widths**0.5
        self.inner = torch.nn.Parameter(inner)
        self.inner_bias = torch.nn.Parameter(torch.zeros(spec.size))
        self.outer = torch.nn.Parameter(torch.zeros(width, spec.size))

    def component(self) -> MLP:
        return MLP(
            self.spec.keys, self.embedding, self.direct, self.inner, self.inner_bias, self.outer
        )


class _Clusters(LearnableModule):
    def __init__(self, clusters: Clusters) -> None:
        super().__init__()
        self.clusters = clusters
        self.centroids = torch.nn.Parameter(clusters.centroids.clone())
        self.bias = torch.nn.Parameter(clusters.bias.clone())

    def component(self) -> Clusters:
        return replace(self.clusters, centroids=self.centroids, bias=self.bias)
