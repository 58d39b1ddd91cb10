"""Tables of the guides, from the JSON records of runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from knnlm.formats import change, change_interval, count, percent, perplexity, significant
from knnlm.report.document import Cell, Column, Table


def adapt_table(record: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row for each model and text that benchmarks/adapt.py measured: retrieval and its
    control."""
    return _table(
        "base LM | text | base LM alone | with kNN | change (95% interval) | calibrated LM | "
        "change | with kNN | change (95% interval)",
        [
            (
                run["model"],
                run["text"],
                perplexity(run["base_ppl"]),
                perplexity(run["interp_ppl"]),
                _change(run["ratio"], run["ratio_ci95"]),
                perplexity(run["calibrated_ppl"]),
                change(run["calibrated_ppl"] / run["base_ppl"]),
                perplexity(run["calibrated_interp_ppl"]),
                _change(run["calibrated_ratio"], run["calibrated_ratio_ci95"]),
            )
            for run in record.values()
        ],
    )


def adapt_sizes_table(record: Mapping[str, Mapping[str, Any]]) -> Table:
    """Of the same runs: how large they were, and what was fitted."""
    return _table(
        "base LM | text | documents | entries | test tokens | λ | softmax temperature | "
        "unigram share",
        [
            (
                run["model"],
                run["text"],
                count(run["documents"]),
                count(run["entries"]),
                count(run["tokens"]),
                significant(run["lambda"]),
                significant(run["softmax_temperature"]),
                percent(run["unigram_share"]),
            )
            for run in record.values()
        ],
    )


def clusters_table(record: Mapping[str, Mapping[str, Any]]) -> Table:
    """The search and every number of clusters that benchmarks/clusters.py measured."""
    rows: list[tuple[str | Cell, ...]] = []
    for name, run in record.items():
        rows.append(_search_row(name, run["search"]))
        rows += [_clusters_row(name, clusters) for clusters in run["clusters"]]
    return _table(
        "base LM | with | multiplications a token | perplexity | mixed | change (95% interval) | "
        "against the search | made in",
        rows,
    )


def _search_row(name: str, search: Mapping[str, Any]) -> tuple[str | Cell, ...]:
    return (
        name,
        f"search (k = {count(search['k'])}, recall {percent(search['recall'])})",
        "",
        perplexity(search["base_ppl"]),
        perplexity(search["interp_ppl"]),
        _change(search["ratio"], search["ratio_ci95"]),
        "",
        "",
    )


def _clusters_row(name: str, clusters: Mapping[str, Any]) -> tuple[str | Cell, ...]:
    return (
        name,
        f"{count(clusters['count'])} clusters",
        count(clusters["multiplications"]),
        perplexity(clusters["base_ppl"]),
        perplexity(clusters["interp_ppl"]),
        _change(clusters["ratio"], clusters["ratio_ci95"]),
        _change(clusters["against"], clusters["against_ci95"]),
        f"{clusters['seconds']:.0f} s",
    )


def _table(names: str, rows: Iterable[Sequence[str | Cell]]) -> Table:
    """A table whose columns, with names separated by " | ", all align left."""
    cells = tuple(
        tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows
    )
    return Table(tuple(Column(name, "word") for name in names.split(" | ")), cells)


def _change(ratio: float, interval: Sequence[float]) -> Cell:
    low, high = interval
    return Cell(change(ratio), change_interval((low, high)))
