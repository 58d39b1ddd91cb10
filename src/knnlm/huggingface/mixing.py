"""log p_LM → log P, for the positions of one call of the model: one search for all of them."""

from dataclasses import dataclass
from functools import cached_property

import torch

from knnlm.components import Component
from knnlm.datastore import Entries
from knnlm.evaluation import mix_vocabulary, mix_votes
from knnlm.hidden_states import StateReader
from knnlm.huggingface.steps import Steps

_ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Parts:
    """What mixing needs, made when first used: weights of a saved model arrive after __init__."""

    reader: StateReader
    component: Component
    lam: float
    entries: Entries
    dtype: torch.dtype

    @cached_property
    def stored(self) -> torch.dtype:
        """How the datastore holds hidden states."""
        dtype = getattr(torch, self.entries.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    def rounded(self, states: torch.Tensor) -> torch.Tensor:
        """Hidden states as the datastore holds them: evaluation and generation ask the same."""
        return states.to(self.stored).float()


def mix_in_place(
    parts: Parts, logits: torch.Tensor, states: torch.Tensor, steps: Steps | None
) -> None:
    """Turn log p_LM (B, T, V) into log P: some positions at a time, with one search for them."""
    flat, queries = logits.view(-1, logits.shape[-1]), states.reshape(-1, states.shape[-1])
    for start in range(0, len(flat), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        asked, lm = parts.rounded(queries[rows]), flat[rows]
        votes = parts.component.votes(asked, None if steps is None else steps.neighbors(asked))
        if votes is not None:
            tokens, logs = (torch.from_numpy(v).to(flat.device) for v in votes[:2])
            if steps is not None:
                steps.keep(lm[-1].clone(), votes)
            mix_votes(lm, tokens, logs, parts.lam)
        else:
            other = parts.component.logprobs(asked).to(flat.device)
            if steps is not None:
                steps.keep(lm[-1].clone(), other[-1])
            flat[rows] = mix_vocabulary(lm, other, parts.lam)
