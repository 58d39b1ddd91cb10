"""What a component is trained to do: the loss of a batch of entries.

CrossEntropy      -log p(target)
InterpolatedLoss  -log( (1-λ) p_LM(target) + λ p(target) )       the paper's interpolated loss
SoftTargetLoss    (1-s) · cross-entropy - s · Σ_v q(v) log p(v)   q: the neighbors' vote
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import LearnedComponent
from knnlm.datastore import Column
from knnlm.errors import UsageError
from knnlm.training.entry_batches import Batch, in_memory


class Objective(ABC):
    """A loss, and what batches must carry for it beside hidden states and targets."""

    @abstractmethod
    def loss(self, component: LearnedComponent, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""

    def columns(self) -> dict[str, Column]:
        """Further columns of the entries."""
        return {}

    def describe(self) -> Any:
        """What tells two objectives apart, as JSON; what they were made of is said elsewhere."""
        return None


class CrossEntropy(Objective):
    """The next token."""

    def loss(self, component: LearnedComponent, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""
        return component.target_losses(batch.states, batch.targets).mean()


@dataclass(frozen=True, eq=False)
class InterpolatedLoss(Objective):
    """The next token under the mixture with the LM."""

    lam: float
    lm_logprobs: NDArray[np.floating]
    """log p_LM of every entry's token."""

    def __post_init__(self) -> None:
        if not 0 < self.lam < 1:
            raise UsageError(
                f"lambda {self.lam} of the interpolated loss is out of range: choose between 0 and "
                "1"
            )

    def columns(self) -> dict[str, Column]:
        """log p_LM."""
        return {"lm": in_memory(np.asarray(self.lm_logprobs, np.float32))}

    def loss(self, component: LearnedComponent, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""
        losses = component.target_losses(batch.states, batch.targets)
        lm_part = batch.more["lm"] + math.log1p(-self.lam)
        return -torch.logaddexp(lm_part, math.log(self.lam) - losses).mean()

    def describe(self) -> Any:
        """Its name and λ."""
        return ["interpolated", self.lam]


@dataclass(frozen=True, eq=False)
class SoftTargetLoss(Objective):
    """Partly the next token, partly what neighbors in other documents voted for."""

    share: float
    """s: the share of the loss that the neighbors' vote has."""
    tokens: Column
    shares: Column
    """The tokens that were voted for, and their share of the vote (soft_targets.py)."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UsageError(
                f"share {self.share} of soft targets in the loss is out of range: choose above 0 "
                "to 1"
            )

    def columns(self) -> dict[str, Column]:
        """The neighbors' vote."""
        return {"words": self.tokens, "shares": self.shares}

    def loss(self, component: LearnedComponent, batch: Batch) -> torch.Tensor:
        """The mean loss of a batch."""
        logs = component.logprobs(batch.states)
        voted = logs.gather(1, batch.more["words"].long())
        soft = -(batch.more["shares"].float() * voted).sum(1).mean()
        hard = -logs.gather(1, batch.targets[:, None]).mean()
        return (1 - self.share) * hard + self.share * soft

    def describe(self) -> Any:
        """Its name and share."""
        return ["soft targets", self.share]
