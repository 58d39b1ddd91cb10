"""An output embedding with several rows for each word, whose probabilities are summed.

    p(w) = Σ_j softmax(W·h)[w, j]          so the logit of a word is log Σ_j exp(W[w, j]·h)

A model with such a head returns one logit for each word, as any other does. Stock transformers
refuses its weights, since their shape is not the one that its class has; `load_model` knows it by
its configuration. Knows no training."""

from pathlib import Path
from typing import Any

import torch

FIELD = "embeddings_per_word"
"""Of the model's configuration."""


class SummedHead(torch.nn.Module):
    """W (V·n, D), the n rows of a word one after the other."""

    def __init__(self, width: int, words: int, rows: int) -> None:
        super().__init__()
        self.words, self.rows = words, rows
        self.weight = torch.nn.Parameter(torch.empty(words * rows, width))
        torch.nn.init.normal_(self.weight, std=0.02)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """States (…, D) → logits (…, V)."""
        found = torch.nn.functional.linear(states, self.weight)
        return found.unflatten(-1, (self.words, self.rows)).logsumexp(-1)


def widen(model: Any, rows: int) -> Any:
    """The model with a new head of that many rows for each word."""
    words, width = model.get_output_embeddings().weight.shape
    model.set_output_embeddings(SummedHead(width, words, rows))
    setattr(model.config, FIELD, rows)
    return model


def load_widened(folder: str | Path, config: Any, dtype: Any) -> Any:
    """The model of a folder whose configuration has several embeddings for each word."""
    import safetensors.torch
    import transformers

    model = widen(
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32),
        getattr(config, FIELD),
    )
    model.load_state_dict(safetensors.torch.load_file(Path(folder) / "model.safetensors"))
    return model if dtype == "auto" else model.to(dtype)


def vocabulary(head: Any) -> int:
    """How many words an output embedding predicts."""
    return head.words if isinstance(head, SummedHead) else int(head.weight.shape[0])
