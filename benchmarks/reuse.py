"""What reusing the neighbors of the last step saves, and what it costs in perplexity.

    .venv/bin/python benchmarks/reuse.py STORE QUERIES [--tokens 4000] [--into FILE]

STORE and QUERIES are datastores of two texts under one model, QUERIES built with --logprobs. The
text is read token by token, as if the model had written it: where at least m of the entries that
follow the last neighbors go on with the token that was read, they vote, else the default index is
searched. λ and τ are tuned for the plain search on the first so many tokens of QUERIES; the next
are reported, documents in order.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from records import keep_record

from knnlm import KNNLM, Datastore
from knnlm.components import KNN, TargetVotes
from knnlm.datastore import Entries, open_entries
from knnlm.evaluation import fit_lambda, mix, perplexity
from knnlm.search import Neighbors, NeighborsInMemory, SuccessorSearch

LEAST = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def votes(knn: KNN, near: Neighbors, text: Entries, rows: slice) -> TargetVotes:
    """p_kNN of some tokens of a text, with these neighbors."""
    return TargetVotes(NeighborsInMemory(near), knn.entries.targets, text.targets[rows])


def tuned(plain: TargetVotes, lm: NDArray[np.float64]) -> tuple[float, float]:
    """λ and τ of the lowest perplexity: λ exactly, τ on a grid."""
    best = (np.inf, 0.0, 0.0)
    for tau in plain.unit * 2.0 ** np.arange(-4, 4.01, 0.25):
        other = plain.logprobs(float(tau))
        lam = fit_lambda(lm, other)
        best = min(best, (-float(mix(lm, other, lam).mean()), lam, float(tau)))
    return best[1], best[2]


def reused(
    knn: KNN, text: Entries, plain: Neighbors, rows: slice, least: int
) -> tuple[Neighbors, SuccessorSearch]:
    """Neighbors of each token, reused as in generation: the search was made already."""
    states, now = text.key(knn.retrieval.key).read(rows.start, rows.stop).astype(np.float32), 0

    def search(_: NDArray[Any], k: int | None = None) -> Neighbors:
        return plain.of(now)

    steps = SuccessorSearch(knn.entries, knn.retrieval, search, least)
    documents, targets = text.document_numbers, text.targets
    near = []
    for now in range(len(states)):
        row = rows.start + now
        begins = now == 0 or documents[row] != documents[row - 1]
        near.append(steps(states[now : now + 1], None if begins else targets[row - 1 : row]))
    ids, scores = (np.concatenate(some) for some in zip(*near, strict=True))
    return Neighbors(ids, scores), steps


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    text, count = open_entries(given.queries), given.tokens
    knn = KNNLM(Datastore.open(given.store), lam=0.5, tau=1.0).component
    assert isinstance(knn, KNN)
    valid, test = slice(0, count), slice(count, 2 * count)
    lm = text.lm_logprob.astype(np.float64)
    states = torch.from_numpy(text.key(knn.retrieval.key).read(0, 2 * count).astype(np.float32))
    near = knn.neighbors(states)
    plain_valid, plain = (Neighbors(near.ids[r], near.scores[r]) for r in (valid, test))
    lam, tau = tuned(votes(knn, plain_valid, text, valid), lm[valid])

    def row(near: Neighbors, least: int | None, saved: float) -> dict[str, Any]:
        some = votes(knn, near, text, test)
        other = some.logprobs(tau)
        return {
            "m": least,
            "searches_saved": round(saved, 4),
            "perplexity": round(perplexity(mix(lm[test], other, lam)), 3),
            "coverage": round(some.coverage, 4),
            "voting": round(float((near.ids >= 0).sum(axis=1).mean()), 1),
        }

    rows = [row(plain, None, 0.0)]
    for least in LEAST:
        some, steps = reused(knn, text, plain, test, least)
        rows.append(row(some, least, 1 - steps.searches / steps.steps))
    record = {
        "entries": len(knn.entries.targets),
        **knn.retrieval.as_json(),
        "tokens": count,
        "documents": len(np.unique(text.document_numbers[test])),
        "lambda": round(lam, 4),
        "temperature": round(tau, 4),
        "base_ppl": round(perplexity(lm[test]), 3),
        "rows": rows,
    }
    print(json.dumps(record, indent=1))
    keep_record(given.into, given.store.name, record)


if __name__ == "__main__":
    main()
