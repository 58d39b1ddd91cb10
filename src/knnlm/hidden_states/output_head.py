"""W_sm and what a model does after it: hidden states to logits, exactly as the model returns them.

Some families divide, multiply or cap their logits. Each is one line here, chosen by the
configuration. A reader checks the result numerically when it attaches, with large states too,
because a cap does not show on small ones."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from knnlm.errors import KnnlmError

_ROWS_AT_ONCE = 1024
_IN_CACHE = 1 << 20  # logits that stay in a processor's cache while they are summed several times


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


def logit_blocks(model: Any, ffn: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """The logits of many states, some rows at a time: few enough to be read again quickly.

    Args:
        model: A causal LM of transformers.
        ffn: States h_sm (n, D).

    Yields:
        Rows, and their logits in float32.
    """
    row = 0
    for states in ffn.split(_ROWS_AT_ONCE):
        logits = model_logits(model, states).float()
        for block in logits.split(max(1, _IN_CACHE // logits.shape[1])):
            yield slice(row, row + len(block)), block
            row += len(block)


def target_logprobs(
    model: Any, ffn: torch.Tensor, targets: torch.Tensor, temperatures: Sequence[float]
) -> torch.Tensor:
    """log softmax(W_sm·h_sm / T)[target] at one or several T, in one pass over the logits.

    Args:
        model: A causal LM of transformers.
        ffn: States h_sm (n, D).
        targets: Token ids (n,), int64.
        temperatures: Each T.

    Returns:
        Log-probabilities (temperatures, n).
    """
    logs = torch.empty(len(temperatures), len(ffn), dtype=torch.float32, device=ffn.device)
    for rows, logits in logit_blocks(model, ffn):
        own = logits.gather(1, targets[rows, None])[:, 0]
        for number, temperature in enumerate(temperatures):
            if temperature == 1:
                logs[number, rows] = own - logits.logsumexp(1)
            else:
                logs[number, rows] = own / temperature - (logits / temperature).logsumexp(1)
    return logs
