"""Indexes and rivals: recall, perplexity, speed, latency and memory, at several efforts each.

Recall is of the true 1,024 neighbors of queries from another text. Perplexity is that of the
kNN-LM on a second part of that text, with λ and τ fitted on the first part for each point. What was
measured of an index is kept, so an interrupted study resumes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.index_search import FaissIndex, Searched, installed_rivals
from bench.setting import Setting
from bench.states import made_up_states
from bench.timing import in_turn, seconds
from knnlm.components import TargetVotes
from knnlm.datastore import Column, Entries
from knnlm.evaluation import fit_lambda, mix, perplexity
from knnlm.search import Neighbors, NeighborsInMemory, exact_search, paper_factory, recall
from knnlm.search.factory import augmented_width, default_factory
from knnlm.similarity import Metric, as_float32, checked_metric

TITLE = "Indexes"
_K, _QUERIES, _SINGLE = 1024, 2048, 24
_WANTED = 0.95
_NPROBES = (8, 16, 32, 48, 64, 96, 128)
_MORE_NPROBES = (16, 32, 64, 96, 128, 192, 256)
_EF_SEARCH = (1024, 1536, 2048)
EARLIER_DEFAULT = "IVF{lists},PQ48np"
"""What was built where nobody named an index, before there were measurements."""
_ROUNDS = 3
_SEED = 0


@dataclass(frozen=True)
class _Problem:
    """States to search, queries, and the truth.

    Attributes:
        title: Store, key and metric.
        keys: The stored states.
        metric: "l2" or "ip".
        queries: (Q, D), the first half for tuning and the second for reporting perplexity.
        truth: Their true neighbors.
        perplexity: From neighbors of the queries to that of the kNN-LM; None for made-up states.
        every: Whether every index is built. Graphs take long, so only the first problem has them.
    """

    title: str
    keys: Column
    metric: Metric
    queries: np.ndarray
    truth: Neighbors
    perplexity: Callable[[Neighbors], float] | None
    every: bool


def measure(setting: Setting) -> dict[str, Any]:
    """Every index on every problem."""
    points: list[dict[str, Any]] = []
    for problem in _problems(setting):
        points += _measured(problem, setting)
    return {"points": points, "tables": _tables(points)}


def _problems(setting: Setting) -> Iterator[_Problem]:
    if not setting.stores:
        entries, width = (20_000, 64) if setting.quick else (300_000, 128)
        queries = 128 if setting.quick else _QUERIES
        column, asked = made_up_states(setting.work, entries, width, queries)
        truth = exact_search(asked, column, _K, "l2")
        yield _Problem(
            f"made-up, {entries:,} × {width}, l2", column, "l2", asked, truth, None, True
        )
    for number, pair in enumerate(setting.stores):
        store, text = pair.open()
        for key, name in (("att", "l2"), ("ffn", "ip")):
            rows = _rows(text)
            queries, metric = as_float32(text.key(key).gather(rows)), checked_metric(name)
            truth = exact_search(queries, store.key(key), _K, metric)
            title = f"{pair.name}, {key}, {metric}: {store.count:,} × {queries.shape[1]}"
            score = partial(_perplexity, store, text, rows)
            every = number == 0 and key == "att"
            yield _Problem(title, store.key(key), metric, queries, truth, score, every)


def _rows(text: Entries) -> np.ndarray:
    """Queries: half of them from the first half of the text, half from the second."""
    rng, middle = np.random.default_rng(_SEED), text.count // 2
    halves = (rng.choice(middle, _QUERIES // 2, False) + start for start in (0, middle))
    return np.concatenate([np.sort(half) for half in halves])


def _perplexity(store: Entries, text: Entries, rows: np.ndarray, near: Neighbors) -> float:
    """That of the second half, with λ and τ of the first."""
    lm, targets, half = text.lm_logprob[rows].astype(np.float64), text.targets[rows], len(rows) // 2
    votes = TargetVotes(NeighborsInMemory(near), store.targets, targets)
    best = (np.inf, 0.0, 1.0)
    for tau in votes.unit * 2.0 ** np.arange(-4, 4.01, 0.25):
        other = votes.logprobs(float(tau))
        lam = fit_lambda(lm[:half], other[:half])
        best = min(best, (-float(mix(lm[:half], other[:half], lam).mean()), lam, float(tau)))
    other = votes.logprobs(best[2])
    return perplexity(mix(lm[half:], other[half:], best[1]))


def _indexes(problem: _Problem, setting: Setting) -> Iterator[tuple[str, Callable[[], Searched]]]:
    """What is built, one after the other, and its name in the table."""
    keys, metric = problem.keys, problem.metric
    width = augmented_width(keys.type.width) if metric == "ip" else keys.type.width
    lists = 1 << int(np.log2(np.sqrt(len(keys))))
    half, folder = width // 2, setting.work / "indexes" / _slug(problem.title)

    def ours(
        factory: str, refine: int, family: str, efforts: tuple[int, ...] = _NPROBES
    ) -> tuple[str, Callable[[], Searched]]:
        return family, partial(FaissIndex, keys, metric, factory, refine, family, efforts, folder)

    yield ours(default_factory(len(keys), width), 2, "default, 2 refined")
    yield ours(default_factory(len(keys), width), 3, "default, 3 refined")
    yield ours(default_factory(len(keys), width, small=True), 4, "small, 4 refined")
    if setting.quick:
        return
    yield ours(f"IVF{lists},SQ8", 1, "SQ8")
    yield ours(f"IVF{lists},RaBitQfs", 4, "RaBitQ, 4 refined")
    if not problem.every:
        return
    if keys.type.width % 48 == 0:
        yield ours(EARLIER_DEFAULT.format(lists=lists // 2), 1, "the earlier default", (32,))
    yield ours(f"IVF{lists},SQ6", 1, "SQ6")
    yield ours(f"IVF{4 * lists},PQ{half}x4fs", 2, "4 times the lists, 2 refined", _MORE_NPROBES)
    yield ours(f"OPQ{half},IVF{lists},PQ{half}x4fs", 2, "OPQ, 2 refined")
    for name, made in installed_rivals().items():
        yield name, partial(made, keys, metric)
    yield ours("HNSW16,SQ8", 1, "HNSW of SQ8", _EF_SEARCH)
    yield ours(paper_factory(len(keys), keys.type.width), 1, "the paper's IVFPQ")


def _measured(problem: _Problem, setting: Setting) -> list[dict[str, Any]]:
    """All points of a problem. Those of one index are timed in turn, with the default beside them:
    the ratio to it is what counts."""
    points: list[dict[str, Any]] = []
    base: tuple[Callable[[], Searched], int] | None = None
    for name, build in _indexes(problem, setting):
        file = setting.work / "indexes" / f"{_slug(problem.title)}-{_slug(name)}.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(_points(problem, setting, build, base)))
        rows = json.loads(file.read_text())
        if base is None and rows[-1]["recall"] >= _WANTED:
            base = (build, rows[-1]["effort"])
        points += rows
        print(f"    {problem.title}: {name}", *map(_line, rows), sep="\n      ", flush=True)
    return points


def _points(
    problem: _Problem,
    setting: Setting,
    build: Callable[[], Searched],
    base: tuple[Callable[[], Searched], int] | None,
) -> list[dict[str, Any]]:
    """One index at each effort up to the one that reaches the recall."""
    try:
        index = build()
    except Exception as error:  # a rival that cannot be built must not end the study
        print(f"      {type(error).__name__}: {error}")
        return [{"store": problem.title, "failed": str(error).splitlines()[0], "recall": 0.0}]
    rows: list[dict[str, Any]] = []
    for effort in index.efforts:
        rows.append(_quality(problem, index, effort))
        if rows[-1]["recall"] >= _WANTED:
            break
    works = [partial(index.search, problem.queries, _K, row["effort"]) for row in rows]
    if base is not None:
        default, effort = base[0](), base[1]
        works.append(partial(default.search, problem.queries, _K, effort))
    times = in_turn(works, 1 if setting.quick else _ROUNDS, warm=False)
    for row, each in zip(rows, times, strict=False):
        row["queries_per_second"] = round(len(problem.queries) / float(np.median(each)), 1)
        if base is not None:
            ratios = np.array(times[-1]) / np.array(each)
            row["speed_beside_default"] = round(float(np.median(ratios)), 3)
        row["one_query_ms"] = round(1000 * _latency(problem, index, row["effort"]), 2)
    return rows


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def _quality(problem: _Problem, index: Searched, effort: int) -> dict[str, Any]:
    near = index.search(problem.queries, _K, effort)
    score = None if problem.perplexity is None else round(problem.perplexity(near), 3)
    return {
        "store": problem.title,
        "index": index.name,
        "family": index.family,
        "effort": effort,
        **index.settings(effort),
        "recall": round(recall(near, problem.truth), 4),
        "perplexity": score,
        "bytes_per_entry": round(index.bytes_per_entry, 1),
        "build_seconds": round(index.build_seconds, 1),
    }


def _latency(problem: _Problem, index: Searched, effort: int) -> float:
    queries = problem.queries[:: len(problem.queries) // _SINGLE][:_SINGLE]
    times = [seconds(partial(index.search, q[None], _K, effort)) for q in queries]
    return float(np.median(times))


def _line(row: dict[str, Any]) -> str:
    return ", ".join(f"{n} {v}" for n, v in row.items() if n not in ("store", "index", "family"))


def _tables(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each problem, each index at the least effort that reaches the recall, or at its most."""
    head = ["", "effort", "recall", "queries/s", "beside the default", "one query, ms"]
    head += ["bytes an entry", "build, s", "perplexity"]
    return [
        {
            "title": f"{store}. Each index with the least effort that reaches a recall of "
            f"{_WANTED:g}, or with the most that was tried.",
            "head": head,
            "rows": [_row(p) for p in _last(points, store).values() if "failed" not in p],
        }
        for store in dict.fromkeys(point["store"] for point in points)
    ]


def _last(points: list[dict[str, Any]], store: str) -> dict[str, dict[str, Any]]:
    return {p.get("family", "failed"): p for p in points if p["store"] == store}


def _row(point: dict[str, Any]) -> list[Any]:
    beside, score = point.get("speed_beside_default"), point["perplexity"]
    (effort, *_) = (f"{n} {point[n]}" for n in ("nprobe", "efSearch", "effort") if n in point)
    return [
        point["family"]
        if point["index"] == point["family"]
        else f"{point['family']}: {point['index']}",
        effort,
        f"{point['recall']:.3f}",
        f"{point['queries_per_second']:,.0f}",
        "" if beside is None else f"{beside:.2f}",
        f"{point['one_query_ms']:.1f}",
        f"{point['bytes_per_entry']:,.0f}",
        f"{point['build_seconds']:,.0f}",
        "" if score is None else f"{score:,.2f}",
    ]
