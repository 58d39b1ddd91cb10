"""W_sm and what a model does after it: the output embedding's logits as the model itself returns
them.

Some families divide, multiply or cap their logits. Each is one line here, found by the
configuration, and a reader checks the whole numerically, with large states too, since a cap does
not show on small ones. Knows nothing of hooks."""

from typing import Any

import torch

from knnlm.errors import KnnlmError


def output_embedding(model: Any) -> Any:
    """The model's output embedding, or an error if it has none."""
    found = model.get_output_embeddings()
    if found is None or getattr(found, "weight", None) is None:
        raise KnnlmError(
            f"{type(model).__name__} has no output embedding, so it predicts no tokens: open it as "
            "a causal LM"
        )
    return found


def model_logits(model: Any, ffn: torch.Tensor) -> torch.Tensor:
    """The model's logits for states (…, D) that enter its output embedding."""
    config = model.config.get_text_config()
    logits: torch.Tensor = output_embedding(model)(ffn)
    cap = getattr(config, "final_logit_softcapping", None)
    if config.model_type.startswith("granite"):
        logits = logits / config.logits_scaling
    if config.model_type.startswith("cohere"):
        logits = logits * config.logit_scale
    return torch.tanh(logits / cap) * cap if cap else logits
