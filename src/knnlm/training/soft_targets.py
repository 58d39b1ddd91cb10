"""Soft targets: what neighbors in other documents vote for, for every entry of a datastore.

    q(v) = Σ_{i: token_i = v} softmax(score/τ)_i     i: the k nearest entries of other documents

kNN as a teacher that has not seen the answer. Of each entry the likeliest tokens are kept and their
probabilities scaled to one; `kept` is what they were in sum. A table on disk, made once, resumed
where it stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import pad

from knnlm.components import log_weights
from knnlm.datastore import ColumnType, Entries, Table, TableWriter, open_table
from knnlm.errors import KnnlmError
from knnlm.locks import write_lock
from knnlm.progress import ProgressBar
from knnlm.search import Neighbors, neighbors_in_other_documents
from knnlm.similarity import Metric

KIND = "soft"
KEPT = 64
_ROWS = 512
_COMMIT_ROWS = 1 << 14


def soft_targets(store: Entries, key: str, metric: Metric, k: int, tau: float, out: Path) -> Table:
    """The soft targets of a datastore's entries, in order.

    Returns:
        A table with columns `words` (token ids), `shares` and `kept`.

    Raises:
        KnnlmError: If the datastore holds a single document.
    """
    documents = store.document_count
    if documents < 2:
        raise KnnlmError(
            f"{store.path} holds one document, which has no neighbors elsewhere: give a datastore "
            "of "
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
        ProgressBar("soft targets", store.count, "entries", start=writer.rows) as bar,
    ):
        if not writer.manifest["complete"]:
            for _, near in neighbors_in_other_documents(store, key, k, metric, start=writer.rows):
                writer.append(_likeliest(store, near, tau))
                bar.advance(len(near.ids))
                if writer.pending >= _COMMIT_ROWS:
                    writer.commit()
            writer.finish({})
    return open_table(out, KIND)


def _likeliest(store: Entries, near: Neighbors, tau: float) -> dict[str, Any]:
    """The tokens that neighbors (B, K) voted for, likeliest first; fewer are filled up with
    zeros."""
    tokens = torch.from_numpy(store.targets[near.ids].astype(np.int64))
    votes = torch.from_numpy(log_weights(near.scores, tau)).exp()
    votes.masked_fill_(torch.from_numpy(near.ids < 0), 0)
    words, shares, kept = [], [], []
    for start in range(0, len(tokens), _ROWS):
        block = slice(start, start + _ROWS)
        mass = torch.zeros(len(tokens[block]), store.vocab_size)
        best = mass.scatter_add_(1, tokens[block], votes[block]).topk(
            min(KEPT, store.vocab_size), dim=1
        )
        total = best.values.sum(1, keepdim=True)
        missing = KEPT - best.values.shape[1]
        scaled = best.values / total.clamp_min(torch.finfo(torch.float32).tiny)
        kept.append(total[:, 0])
        shares.append(pad(scaled, (0, missing)))
        words.append(pad(best.indices, (0, missing)))
    return {
        "words": torch.cat(words).numpy().astype(np.int32),
        "shares": torch.cat(shares).numpy().astype(np.float16),
        "kept": torch.cat(kept).numpy(),
    }
