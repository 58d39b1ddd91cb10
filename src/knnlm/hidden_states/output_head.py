"""W_sm and what a model does after it: hidden states to logits, exactly as the model returns them.

Some families divide, multiply or cap their logits. Each is one line here, chosen by the
configuration. A reader checks the result numerically when it attaches, with large states too,
because a cap does not show on small ones."""

from typing import Any

import torch

from knnlm.errors import KnnlmError


def output_embedding(model: Any) -> Any:
    """The module that turns hidden states into logits, with W_sm (V, D) as its `weight`.

    Args:
        model: A causal LM of transformers.

    Raises:
        KnnlmError: The model has no output embedding.
    """
    head = model.get_output_embeddings()
    if head is None or getattr(head, "weight", None) is None:
        raise KnnlmError(
            f"{type(model).__name__} has no output embedding, so it predicts no tokens: open it as "
            "a causal LM"
        )
    return head


def model_logits(model: Any, ffn: torch.Tensor) -> torch.Tensor:
    """The model's logits for states that enter its output embedding: W_sm · h_sm, then the model's
    own scale or cap.

    Args:
        model: A causal LM of transformers.
        ffn: States h_sm (…, D).

    Returns:
        Logits (…, V).
    """
    config = model.config.get_text_config()
    logits: torch.Tensor = output_embedding(model)(ffn)
    cap = getattr(config, "final_logit_softcapping", None)
    if config.model_type.startswith("granite"):
        logits = logits / config.logits_scaling
    if config.model_type.startswith("cohere"):
        logits = logits * config.logit_scale
    return torch.tanh(logits / cap) * cap if cap else logits
