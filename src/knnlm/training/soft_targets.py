"""What neighbours in other documents say of every stored row: soft targets to learn from.

    q(w) = Σ_{i: token_i = w} softmax(score/τ)_i          i among the k nearest rows of other documents

Of each row the likeliest words are kept and their probabilities scaled to one; `kept` is what they
were in sum. kNN as a teacher that has not seen the answer. A table on disk, made once, resumed
where it stopped. Knows nothing of what learns from it."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from knnlm.components.knn import weights
from knnlm.datastore.entries import Entries
from knnlm.datastore.table import ColumnType, Table, open_table
from knnlm.datastore.table_writer import TableWriter
from knnlm.errors import KnnlmError
from knnlm.files import write_lock
from knnlm.progress import ProgressBar
from knnlm.search.neighbors import Neighbors
from knnlm.search.other_documents import neighbors_in_other_documents
from knnlm.similarity import Metric

KIND = "soft"
KEPT = 64
_ROWS = 512
_COMMIT_ROWS = 1 << 14


def soft_targets(
    store: Entries,
    key: str,
    metric: Metric,
    k: int,
    tau: float,
    out: Path,
) -> Table:
    """The table (columns `words`, `shares` and `kept`) for a store."""
    documents = store.table.manifest["summary"]["documents"]
    if documents < 2:
        raise KnnlmError(
            f"{store.path} holds one document, which has no neighbours elsewhere: give a store of "
            "several"
        )
    columns = {
        "words": ColumnType("<i4", KEPT),
        "shares": ColumnType("<f2", KEPT),
        "kept": ColumnType("<f4", 0),
    }
    meta = {"store": store.fingerprint, "key": key, "metric": metric, "k": k, "temperature": tau}
    with (
        write_lock(out),
        TableWriter(out, KIND, columns, meta) as writer,
        ProgressBar("neighbours elsewhere", store.count, "rows", start=writer.rows) as meter,
    ):
        if not writer.manifest["complete"]:
            for _, near in neighbors_in_other_documents(store, key, k, metric, start=writer.rows):
                writer.append(_likeliest(store, near, tau))
                meter.advance(len(near.ids))
                if writer.pending >= _COMMIT_ROWS:
                    writer.commit()
            writer.finish({})
    return open_table(out, KIND)


def _likeliest(store: Entries, near: Neighbors, tau: float) -> dict[str, Any]:
    """The words that neighbours (B, K) voted for, likeliest first; where they are fewer than kept,
    shares of zero."""
    tokens = torch.from_numpy(store.targets[near.ids].astype(np.int64))
    votes = (
        torch.from_numpy(weights(near.scores, tau))
        .exp()
        .masked_fill_(torch.from_numpy(near.ids < 0), 0)
    )
    words, shares, kept = [], [], []
    for start in range(0, len(tokens), _ROWS):
        some = slice(start, start + _ROWS)
        mass = torch.zeros(len(tokens[some]), store.vocab_size).scatter_add_(
            1, tokens[some], votes[some]
        )
        best = mass.topk(min(KEPT, store.vocab_size), dim=1)
        pad = KEPT - best.values.shape[1]
        kept.append(best.values.sum(1))
        scaled = best.values / best.values.sum(1, keepdim=True).clamp_min(
            torch.finfo(torch.float32).tiny
        )
        shares.append(torch.nn.functional.pad(scaled, (0, pad)))
        words.append(torch.nn.functional.pad(best.indices, (0, pad)))
    return {
        "words": torch.cat(words).numpy().astype(np.int32),
        "shares": torch.cat(shares).numpy().astype(np.float16),
        "kept": torch.cat(kept).numpy(),
    }
