"""Several output embeddings per vocabulary entry, whose probabilities are summed.

    p(v) = Σ_j softmax(W·h)[v, j]          so the logit of entry v is log Σ_j exp(W[v, j]·h)

A datastore holds many embeddings per vocabulary entry; this gives the softmax of a base LM several
too. A model with such an output layer returns one logit per vocabulary entry, as any other does.
Stock transformers refuses its weights, whose shape is not the one it expects; `load_model`
recognizes it by its configuration.
"""

from pathlib import Path
from typing import Any

import torch

CONFIG_FIELD = "embeddings_per_word"
"""The field of a model's configuration that says how many there are; written in saved models."""


class SummedEmbeddings(torch.nn.Module):
    """An output layer with several embeddings per vocabulary entry.

    Its weight is W (V·n, D): the n embeddings of an entry one after the other.

    Args:
        width: D, the size of a hidden state.
        vocab_size: V, how many vocabulary entries it predicts.
        per_entry: n, how many embeddings each entry has.
    """

    def __init__(self, width: int, vocab_size: int, per_entry: int) -> None:
        super().__init__()
        self.vocab_size, self.per_entry = vocab_size, per_entry
        self.weight = torch.nn.Parameter(torch.empty(vocab_size * per_entry, width))
        torch.nn.init.normal_(self.weight, std=0.02)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Hidden states (…, D) → logits (…, V)."""
        products = torch.nn.functional.linear(states, self.weight)
        return products.unflatten(-1, (self.vocab_size, self.per_entry)).logsumexp(-1)


def with_summed_embeddings(model: Any, per_entry: int) -> Any:
    """Give a model a new, untrained output layer with several embeddings per vocabulary entry.

    Returns:
        The same model, changed.
    """
    vocab_size, width = model.get_output_embeddings().weight.shape
    model.set_output_embeddings(SummedEmbeddings(width, vocab_size, per_entry))
    setattr(model.config, CONFIG_FIELD, per_entry)
    return model


def load_summed_embeddings(folder: str | Path, config: Any, dtype: Any) -> Any:
    """Open a saved model whose configuration has several embeddings per vocabulary entry."""
    import safetensors.torch
    import transformers

    model = with_summed_embeddings(
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32),
        getattr(config, CONFIG_FIELD),
    )
    model.load_state_dict(safetensors.torch.load_file(Path(folder) / "model.safetensors"))
    return model if dtype == "auto" else model.to(dtype)


def vocabulary_size(head: Any) -> int:
    """How many vocabulary entries an output embedding predicts."""
    return head.vocab_size if isinstance(head, SummedEmbeddings) else int(head.weight.shape[0])
