"""The datastore as clusters: centroids instead of entries, and the token frequencies inside each.

    p(v) = Σ_c softmax((C ⊗ h + b) / τ)_c · M[v, c]
    M[v, c] = share of cluster c's entries that hold v

Our `centroids` are the paper's clustered W_ds; `bias` is b, zero unless it was learned. Of M only
what is not zero is kept, sorted by token: `cluster_ids` says in which cluster, `log_shares` log M,
and `counts` how many clusters each token is in. In log space; a token that no cluster holds has log
p = -inf, as one that no neighbor holds has."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.head import check_counts, row_scores
from knnlm.components.learned import LearnedComponent, MetricFields
from knnlm.similarity import Metric
from knnlm.typed_json import FieldError

_NUMBERS = 1 << 24  # of the votes that are spread over tokens at once


@dataclass(frozen=True, eq=False)
class Clusters(LearnedComponent):
    """A datastore compressed into clusters."""

    kind: ClassVar[str] = "clusters"
    saved_fields: ClassVar[Any] = MetricFields
    whole_numbers: ClassVar[tuple[str, ...]] = ("cluster_ids", "counts")
    block: ClassVar[int] = 512

    keys: tuple[str, ...]
    centroids: torch.Tensor
    """(C, D)"""
    bias: torch.Tensor
    """(C,)"""
    cluster_ids: torch.Tensor
    """(E,) int64: the clusters that hold token 0, then those that hold token 1, …"""
    log_shares: torch.Tensor
    """(E,) log M of each."""
    counts: torch.Tensor
    """(V,) int64: how many clusters hold each token, E in all."""
    metric: Metric
    tau: float

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return len(self.counts)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token: those of the centroids, and of what is not zero in M."""
        return self.centroids.numel() + len(self.cluster_ids)

    @property
    def width(self) -> int:
        """Width of the hidden state."""
        return self.centroids.shape[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have to fit the others."""
        clusters, held = len(self.centroids), int(self.counts.sum())
        return {
            "centroids": (clusters, self.width),
            "bias": (clusters,),
            "cluster_ids": (held,),
            "log_shares": (held,),
            "counts": (len(self.counts),),
        }

    def check_parts(self) -> None:
        """Tokens are held by clusters that exist, with shares up to 1, and the tensors fit
        together."""
        check_counts(self.counts, least=0, most=len(self.centroids))
        ids = self.cluster_ids
        if ids.dtype != torch.int64 or not 0 <= int(ids.min()) <= int(ids.max()) < len(self.bias):
            raise FieldError("cluster_ids", "names a cluster that does not exist")
        if float(self.log_shares.max()) > 0:
            raise FieldError("log_shares", "holds a share above 1")
        super().check_parts()

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, D), largest weight taken out
        first."""
        weights = self._scores(states.float()).log_softmax(1)
        vocabulary = torch.arange(self.vocab_size, device=states.device)
        tokens = torch.repeat_interleave(vocabulary, self.counts)
        logs = []
        for some in weights.split(max(1, _NUMBERS // max(1, len(tokens)))):
            best = some.max(1, keepdim=True).values
            votes = (some[:, self.cluster_ids] + self.log_shares - best).double().exp()
            mass = torch.zeros(
                len(some), self.vocab_size, dtype=torch.float64, device=states.device
            )
            logs.append(mass.index_add(1, tokens, votes).log().float() + best)
        return torch.cat(logs)

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,): the rows of M that are asked for are spread out, and no others."""
        scores = self._scores(states)
        ends = self.counts.cumsum(0)
        counts = self.counts[targets]
        rows = torch.repeat_interleave(torch.arange(len(targets), device=targets.device), counts)
        first = torch.repeat_interleave(
            ends[targets] - counts - (counts.cumsum(0) - counts), counts
        )
        positions = first + torch.arange(len(rows), device=targets.device)
        held = torch.full(scores.shape, -math.inf, dtype=scores.dtype, device=scores.device)
        held[rows, self.cluster_ids[positions]] = self.log_shares[positions].to(scores.dtype)
        return scores.logsumexp(1) - (scores + held).logsumexp(1)

    def _scores(self, states: torch.Tensor) -> torch.Tensor:
        return row_scores(self.centroids, states, self.metric, self.tau, self.bias)


class TokenShares(NamedTuple):
    """What of M is not zero (the fields of `Clusters` of the same names)."""

    cluster_ids: torch.Tensor
    log_shares: torch.Tensor
    counts: torch.Tensor


def token_shares(
    cluster_of: NDArray[np.integer], tokens: NDArray[np.integer], clusters: int, vocab_size: int
) -> TokenShares:
    """M from the cluster and the token of every entry of a datastore."""
    pairs, times = np.unique(tokens.astype(np.int64) * clusters + cluster_of, return_counts=True)
    sizes = np.bincount(cluster_of, minlength=clusters)
    cluster_ids, held = pairs % clusters, pairs // clusters
    log_shares = np.log(times / sizes[cluster_ids]).astype(np.float32)
    counts = np.bincount(held, minlength=vocab_size).astype(np.int64)
    return TokenShares(
        torch.from_numpy(cluster_ids), torch.from_numpy(log_shares), torch.from_numpy(counts)
    )
