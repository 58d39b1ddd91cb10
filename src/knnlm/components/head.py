"""Ŵ_ds: a learned head, a few embeddings for each vocabulary entry instead of the datastore.

    p(v) = Σ_{r of v} softmax(Ŵ ⊗ h / τ)_r          that is M · softmax(Ŵ ⊗ h / τ), no mask

The paper's nV × D embeddings, in log space throughout (no clamped probabilities). Embeddings are
sorted by vocabulary entry, and every entry has at least one. Our `weight` is the paper's Ŵ_ds,
`counts` the row sums of its M.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, assert_never, cast

import torch
from torch.autograd.function import once_differentiable

from knnlm.components.learned import LearnedComponent, MetricFields
from knnlm.similarity import Metric
from knnlm.typed_json import FieldError


@dataclass(frozen=True, eq=False)
class Head(LearnedComponent):
    """A learned head."""

    kind: ClassVar[str] = "head"
    saved_fields: ClassVar[Any] = MetricFields
    whole_numbers: ClassVar[tuple[str, ...]] = ("counts",)

    keys: tuple[str, ...]
    weight: torch.Tensor
    """(R, D), fp32."""
    counts: torch.Tensor
    """(V,) int64: embeddings of each vocabulary entry, at least 1, R in all."""
    metric: Metric
    tau: float

    @property
    def vocab_size(self) -> int:
        """How many vocabulary entries it predicts."""
        return len(self.counts)

    @property
    def multiplications(self) -> int:
        """Multiplications for one token."""
        return self.weight.numel()

    @property
    def width(self) -> int:
        """Width of the hidden state."""
        return self.weight.shape[1]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape that each tensor must have to fit the others."""
        return {"weight": (int(self.counts.sum()), self.width), "counts": (len(self.counts),)}

    def logprobs(self, states: torch.Tensor) -> torch.Tensor:
        """log p over the vocabulary (B, V) for hidden states (B, D)."""
        scores = row_scores(self.weight, states.float(), self.metric, self.tau)
        return sum_by_token(scores, self.counts) - scores.logsumexp(1, keepdim=True)

    def check_parts(self) -> None:
        """Every vocabulary entry has an embedding, and the tensors fit together."""
        check_counts(self.counts, least=1, most=len(self.weight))
        super().check_parts()

    def target_losses(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """-log p(target) (B,), differentiable."""
        scores = row_scores(self.weight, states, self.metric, self.tau)
        return softmax_losses(scores, targets, self.counts)


def check_counts(counts: torch.Tensor, least: int, most: int) -> None:
    """Raise a FieldError unless counts of rows are int64 and between these limits."""
    if counts.dtype != torch.int64 or not least <= int(counts.min()) <= int(counts.max()) <= most:
        raise FieldError("counts", f"holds other numbers than {least:,} to {most:,}")


def row_scores(
    weight: torch.Tensor,
    states: torch.Tensor,
    metric: Metric,
    tau: float,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """(Ŵ ⊗ h + b) / τ (B, R).

    Under L2 without ‖h‖², which is the same for every row and so leaves the softmax as it is. τ is
    taken into the smaller arrays: (B, R) is written once.
    """
    match metric:
        case "l2":
            bias = -weight.square().sum(1) if bias is None else bias - weight.square().sum(1)
            states = 2 * states
        case "ip":
            pass
        case _:
            assert_never(metric)
    if tau != 1:
        states = states / tau
    return states @ weight.T if bias is None else torch.addmm(bias / tau, states, weight.T)


def softmax_losses(
    scores: torch.Tensor, targets: torch.Tensor, counts: torch.Tensor | None = None
) -> torch.Tensor:
    """-log p(target) (B,) from row scores (B, R): log Σ over all rows less log Σ over the target's.

    Without `counts` every vocabulary entry has one row.
    """
    if counts is None or len(counts) == scores.shape[1]:
        ids, missing = targets[:, None], None
    else:
        offsets = torch.arange(int(counts.max()), device=scores.device)
        missing = offsets >= counts[targets, None]
        first = (counts.cumsum(0) - counts)[targets, None]
        ids = (first + offsets).masked_fill(missing, 0)
    return cast(torch.Tensor, _SoftmaxLosses.apply(scores, ids, missing))


class _SoftmaxLosses(torch.autograd.Function):
    """The loss and its gradient, softmax less the target's share of it, in one array.

    Memory is slower than arithmetic here, and autograd would pass over several arrays.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, ids: torch.Tensor, missing: torch.Tensor | None
    ) -> torch.Tensor:
        total, own = scores.logsumexp(1), scores.gather(1, ids)
        if missing is not None:
            own = own.masked_fill(missing, -torch.inf)
        own_total = own.logsumexp(1)
        ctx.save_for_backward(scores, total, own, own_total, ids)
        return total - own_total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        scores, total, own, own_total, ids = ctx.saved_tensors
        grad = (scores - total[:, None]).exp_().mul_(slope[:, None])
        own_share = (own - own_total[:, None]).exp()
        return grad.scatter_add_(1, ids, own_share * -slope[:, None]), None, None


def sum_by_token(scores: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """log Σ exp over the rows of each vocabulary entry: (B, R) → (B, V)."""
    if len(counts) == scores.shape[1]:
        return scores
    tokens = torch.repeat_interleave(torch.arange(len(counts), device=scores.device), counts)
    index = tokens.expand(len(scores), -1)
    shape = (len(scores), len(counts))
    best = torch.full(shape, -torch.inf, dtype=scores.dtype, device=scores.device)
    best = best.scatter_reduce(1, index, scores, "amax")
    total = torch.zeros_like(best).scatter_add(1, index, (scores - best.gather(1, index)).exp())
    return best + total.log()
