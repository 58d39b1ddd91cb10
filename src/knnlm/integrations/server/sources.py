"""Neighbors for people: the passage that each one comes from, with its share of the vote."""

import math
from typing import Any

from knnlm.components import log_weights
from knnlm.datastore import Entries
from knnlm.search import Neighbors
from knnlm.text import decode_continuation

CONTEXT_TOKENS, TOKENS_AFTER = 24, 12


def described(
    entries: Entries, tokenizer: Any, near: Neighbors, tau: float, count: int, target: int | None
) -> list[dict[str, Any]]:
    """The strongest neighbors of one position.

    Args:
        entries: The datastore.
        tokenizer: Its model's.
        near: All neighbors that vote (1, k), nearest first.
        tau: The retrieval temperature τ.
        count: How many to describe.
        target: The token that was predicted.
    """
    weights = log_weights(near.scores, tau)[0]
    return [
        {
            **passage(entries, tokenizer, entry),
            "score": float(near.scores[0, rank]),
            "weight": math.exp(float(weights[rank])),
            "is_target": int(entries.targets[entry]) == target,
        }
        for rank, entry in enumerate(near.ids[0, :count].tolist())
        if entry >= 0
    ]


def passage(entries: Entries, tokenizer: Any, entry: int) -> dict[str, Any]:
    """An entry's token with the text around it and its document. `cut_before` and `cut_after` say
    whether the document has more text there, which may begin or end within a word."""
    token = int(entries.targets[entry])
    before = entries.context(entry, CONTEXT_TOKENS).tolist()
    after = entries.continuation(entry, TOKENS_AFTER).tolist()
    return {
        "entry": entry,
        "token": token,
        "text": decode_continuation(tokenizer, before, [token], special=True),
        "before": tokenizer.decode(before),
        "after": decode_continuation(tokenizer, [*before, token], after),
        "cut_before": len(before) == CONTEXT_TOKENS,
        "cut_after": len(after) == TOKENS_AFTER,
        "document": entries.document_of(entry),
    }
