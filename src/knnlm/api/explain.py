"""What was retrieved, for people: a text token by token, with its neighbors in their context."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components import Component, log_weights
from knnlm.datastore import Entries
from knnlm.evaluation import ExplainedToken, Passage, RetrievedNeighbor, mix
from knnlm.huggingface import KNNLMForCausalLM, TokenScores
from knnlm.search import Retrieval, cached_neighbors
from knnlm.text import decode_continuation, token_texts

LONGEST = 160
SHOWN_NEIGHBORS = 5
CONTEXT_TOKENS = 24


def explain_tokens(
    model: KNNLMForCausalLM,
    tokens: NDArray[np.int64],
    start: int,
    tokenizer: Any,
    scores: TokenScores | None = None,
) -> tuple[ExplainedToken, ...]:
    """What a kNN-LM gave to tokens[start:] of one text, each with what was retrieved for it.

    The model runs, and searches, only if `scores` is not given.
    """
    if scores is None:
        scores = model.score_tokens(torch.from_numpy(tokens), start)
    near, entries = scores.neighbors, model.entries
    weights = None if near is None else log_weights(near.scores, model.component.tau)
    texts = token_texts(tokenizer, tokens[start:].tolist(), tokens[:start].tolist())
    return tuple(
        ExplainedToken(
            text=texts[i],
            lm_logprob=float(scores.lm[i]),
            component_logprob=float(scores.component[i]),
            mixed_logprob=float(scores.mixed[i]),
            neighbors=()
            if near is None or weights is None
            else _strongest(entries, near.ids[i], weights[i], int(token), tokenizer),
        )
        for i, token in enumerate(tokens[start:])
    )


def explain_passage(
    entries: Entries,
    queries: Entries,
    component: Component,
    retrieval: Retrieval,
    lam: float,
    tokenizer: Any,
) -> Passage:
    """The beginning of the document whose gain is the median: neither the best nor the worst."""
    lm = queries.lm_logprob.astype(np.float64)
    other = component.target_logprobs(queries)
    mixed = mix(lm, other, lam)
    documents = queries.document_numbers
    chosen = _median_document(documents, mixed - lm)
    rows = np.flatnonzero(documents == chosen)[:LONGEST]
    start, stop = int(rows[0]), int(rows[-1]) + 1
    near = cached_neighbors(entries, queries, retrieval).read(start, stop)
    weights = log_weights(near.scores, component.tau)
    targets = queries.targets[start:stop].tolist()
    texts = token_texts(tokenizer, targets, queries.context(start, 1).tolist())
    tokens = []
    for row, target, text in zip(range(start, stop), targets, texts, strict=True):
        tokens.append(
            ExplainedToken(
                text=text,
                lm_logprob=float(lm[row]),
                component_logprob=float(other[row]),
                mixed_logprob=float(mixed[row]),
                neighbors=_strongest(
                    entries, near.ids[row - start], weights[row - start], target, tokenizer
                ),
            )
        )
    setting = f"{retrieval.key} {retrieval.metric}, {retrieval.search_name} search"
    return Passage(queries.documents[chosen].name, setting, tuple(tokens))


def _median_document(documents: NDArray[np.int32], gains: NDArray[np.float64]) -> int:
    numbers = np.unique(documents)
    means = np.array([gains[documents == d].mean() for d in numbers])
    return int(numbers[np.argsort(means)[len(means) // 2]])


def _strongest(
    entries: Entries,
    ids: NDArray[np.int64],
    weights: NDArray[np.float32],
    target: int,
    tokenizer: Any,
) -> tuple[RetrievedNeighbor, ...]:
    """The strongest neighbors of one query; they are sorted, so the first are the strongest."""
    neighbors = []
    shown = zip(ids[:SHOWN_NEIGHBORS].tolist(), weights[:SHOWN_NEIGHBORS].tolist(), strict=True)
    for entry, log_weight in shown:
        if entry < 0:
            break
        token, before = (
            int(entries.targets[entry]),
            entries.context(entry, CONTEXT_TOKENS).tolist(),
        )
        neighbors.append(
            RetrievedNeighbor(
                before=tokenizer.decode(before),
                token=decode_continuation(tokenizer, before, [token], special=True),
                weight=math.exp(log_weight),
                document=entries.document_of(entry),
                is_target=token == target,
            )
        )
    return tuple(neighbors)
