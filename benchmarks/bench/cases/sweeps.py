"""A whole sweep over k × τ × λ beside the search whose neighbors it reads.

Both take time in proportion to the number of tokens, so their ratio is that of any number.
"""

import statistics
from typing import Any

import numpy as np

from bench.setting import Setting
from bench.states import made_up_states
from bench.timing import in_turn, spread
from knnlm.components import TargetVotes
from knnlm.datastore import Entries
from knnlm.evaluation import sweep
from knnlm.search import Neighbors, NeighborsInMemory, build_index, exact_search
from knnlm.similarity import as_float32, checked_metric

TITLE = "Sweeps"
_AIM = 0.05
_K, _TOKENS, _TARGET_TOKENS = 1024, 8192, 200_000
_KS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024)
_UNITS = np.geomspace(0.05, 50, 60)
_LAMS = np.linspace(0.005, 1, 200).tolist()
_SEARCHED_EXACTLY = 1024
"""Queries of the timed exact search; its time for each query is that of many."""


def measure(setting: Setting) -> dict[str, Any]:
    """Seconds for 200K tokens of search and sweep, and the share."""
    rows = [_made_up(setting)]
    rows += [_real(pair.name, *pair.open(), setting) for pair in setting.stores]
    return {"sweeps": rows, "tables": [_table(rows)]}


def _table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds for 200,000 tokens, and the share of the search's."""
    return {
        "title": f"At most {_AIM:.0%} of the search is the aim. Coverage is the share of tokens "
        "whose target has a neighbor.",
        "head": ["", "coverage", "sweep, s", "search", "search, s", "share"],
        "rows": [
            [
                row["subject"],
                f"{row['coverage']:.2f}",
                f"{row['sweep_seconds_for_200k'][1]:,.0f}",
                search["search"],
                f"{search['seconds_for_200k'][1]:,.0f}",
                f"{search['share']:.1%}",
            ]
            for row in rows
            for search in row["searches"]
        ],
    }


def _made_up(setting: Setting) -> dict[str, Any]:
    """Made-up states and targets: a tenth of a query's neighbors hold its target."""
    entries, tokens = (30_000, 512) if setting.quick else (500_000, _TOKENS)
    column, queries = made_up_states(setting.work, entries, 256, tokens)
    metric, rng = checked_metric("l2"), np.random.default_rng(0)
    near = exact_search(queries, column, _K, metric)
    words = rng.integers(0, 10, entries).astype(np.int32)
    targets = rng.integers(0, 10, tokens).astype(np.int32)
    lm = -rng.gamma(1.5, 2, tokens)
    some = queries[: min(_SEARCHED_EXACTLY, tokens)]
    searches = {"exact search": (len(some), lambda: exact_search(some, column, _K, metric))}
    name = f"made-up: {entries:,} × {column.type.width}"
    return _timed(name, near, words, targets, lm, searches, setting)


def _real(name: str, store: Entries, text: Entries, setting: Setting) -> dict[str, Any]:
    """Real states, with exact search and the default index (which is built if it is not there)."""
    metric, count = checked_metric("l2"), min(_TOKENS, text.count)
    column, index = store.key("att"), build_index(store, "att", metric)
    queries = as_float32(text.key("att").read(0, count))
    near = index.search(queries, _K)
    some = queries[:_SEARCHED_EXACTLY]
    searches = {
        "exact search": (len(some), lambda: exact_search(some, column, _K, metric)),
        f"index {index.name}": (len(some), lambda: index.search(some, _K)),
    }
    lm = text.lm_logprob[:count].astype(np.float64)
    title = f"{name}, att: {store.count:,} × {column.type.width}"
    return _timed(title, near, store.targets, text.targets[:count], lm, searches, setting)


def _timed(
    name: str,
    near: Neighbors,
    words: np.ndarray,
    targets: np.ndarray,
    lm: np.ndarray,
    searches: dict[str, tuple[int, Any]],
    setting: Setting,
) -> dict[str, Any]:
    """A row: seconds for 200,000 tokens of the sweep, which compares neighbors with targets too."""
    blocks = NeighborsInMemory(near)
    unit = TargetVotes(blocks, words, targets).unit

    def whole() -> Any:
        votes = TargetVotes(blocks, words, targets)
        return sweep(lm, votes, _KS, (_UNITS * unit).tolist(), _LAMS)

    counts = [len(targets), *(count for count, _ in searches.values())]
    works = [whole, *(work for _, work in searches.values())]
    times = in_turn(works, 3)
    per_text = [
        [_TARGET_TOKENS * s / count for s in each]
        for count, each in zip(counts, times, strict=True)
    ]
    return {
        "subject": f"{name}, {len(_LAMS)} λ × {len(_UNITS)} τ × {len(_KS)} k",
        "tokens_timed": len(targets),
        "coverage": round(TargetVotes(blocks, words, targets).coverage, 3),
        "sweep_seconds_for_200k": spread(per_text[0]),
        "searches": [
            {
                "search": search,
                "seconds_for_200k": spread(seconds),
                "share": round(statistics.median(per_text[0]) / statistics.median(seconds), 4),
                "aim": _AIM,
            }
            for search, seconds in zip(searches, per_text[1:], strict=True)
        ],
    }
