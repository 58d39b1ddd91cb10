"""What was retrieved, for people: a passage, token by token, with its strongest neighbours in their
own context.

Knows stores and tokenizers; knows nothing of how it will be shown.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.components.knn import weights
from knnlm.datastore.entries import Entries
from knnlm.evaluation.explanation import ExplainedToken, Passage, RetrievedNeighbor
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.tuning import TunedSettings, score
from knnlm.integrations.transformers.model import KNNLMForCausalLM
from knnlm.search.cache import cached_neighbors
from knnlm.text.tokenizer import decode_continuation

LONGEST = 160
SHOWN_HITS = 5
CONTEXT_TOKENS = 24


def passage(store: Entries, queries: Entries, tuned: TunedSettings, tokenizer: Any) -> Passage:
    """The beginning of the document whose gain is the median one: neither the best nor the worst
    case."""
    scored = score(store, queries, tuned)
    mixed = mix(scored.lm, scored.knn, tuned.lam)
    documents = queries.table.columns["document"].all()
    chosen = _median_document(documents, mixed - scored.lm)
    rows = np.flatnonzero(documents == chosen)[:LONGEST]
    start, stop = int(rows[0]), int(rows[-1]) + 1
    near = cached_neighbors(store, queries, tuned.retrieval).read(start, stop)
    log_weights = weights(near.scores, tuned.temperature)
    tokens = tuple(
        ExplainedToken(
            text=decode_continuation(
                tokenizer,
                queries.context(row, 1).tolist(),
                [int(queries.targets[row])],
                special=True,
            ),
            lm_logprob=float(scored.lm[row]),
            component_logprob=float(scored.knn[row]),
            mixed_logprob=float(mixed[row]),
            neighbors=_hits(
                store,
                near.ids[row - start],
                log_weights[row - start],
                int(queries.targets[row]),
                tokenizer,
            ),
        )
        for row in range(start, stop)
    )
    what = tuned.retrieval
    return Passage(
        queries.documents[chosen].name,
        f"{what.key} {what.metric}, {what.search_name} search",
        tokens,
    )


def _median_document(documents: NDArray[np.int32], gains: NDArray[np.float64]) -> int:
    numbers = np.unique(documents)
    means = np.array([gains[documents == d].mean() for d in numbers])
    return int(numbers[np.argsort(means)[len(means) // 2]])


def explained(
    model: KNNLMForCausalLM, tokens: NDArray[np.int64], start: int, tokenizer: Any
) -> tuple[ExplainedToken, ...]:
    """What a kNN-LM thought of tokens[start:] of one text, each with what was retrieved for it."""
    look = model.look(torch.from_numpy(tokens), start)
    return tuple(
        ExplainedToken(
            text=decode_continuation(
                tokenizer, [int(tokens[start + i - 1])], [int(token)], special=True
            ),
            lm_logprob=float(look.lm[i]),
            component_logprob=float(look.knn[i]),
            mixed_logprob=float(look.mixed[i]),
            neighbors=_hits(
                model.store, look.near.ids[i], look.log_weights[i], int(token), tokenizer
            ),
        )
        for i, token in enumerate(tokens[start:])
    )


def _hits(
    store: Entries,
    ids: NDArray[np.int64],
    log_weights: NDArray[np.float32],
    target: int,
    tokenizer: Any,
) -> tuple[RetrievedNeighbor, ...]:
    """The strongest neighbours of one query; they are sorted, so the first are the strongest."""
    hits = []
    for row, log_weight in zip(
        ids[:SHOWN_HITS].tolist(), log_weights[:SHOWN_HITS].tolist(), strict=True
    ):
        if row < 0:
            break
        token, before = int(store.targets[row]), store.context(row, CONTEXT_TOKENS).tolist()
        hits.append(
            RetrievedNeighbor(
                before=tokenizer.decode(before),
                token=decode_continuation(tokenizer, before, [token], special=True),
                weight=math.exp(log_weight),
                document=store.document_of(row),
                is_target=token == target,
            )
        )
    return tuple(hits)
