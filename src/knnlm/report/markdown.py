"""Tables in Markdown from the JSON of runs, for documents that show them. Knows nothing of
pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from knnlm.report import formats

_HEAD = (
    "key",
    "metric",
    "search",
    "scores",
    "LM",
    "mixed",
    "change (95% interval)",
    "oracle",
    "λ",
    "τ",
    "recall",
)
_ADAPT = (
    "base LM",
    "store",
    "test tokens",
    "perplexity",
    "with the store",
    "change (95% interval)",
    "λ",
    "τ",
    "generation",
    "with retrieval",
    "build / bare passes",
)
_CLUSTERS = (
    "base LM",
    "with",
    "multiplications a token",
    "perplexity",
    "mixed",
    "change (95% interval)",
    "against the search",
    "made in",
)


def demo_table(found: Mapping[str, Any]) -> str:
    """One line for each row of `knnlm demo --json`; the best on validation is bold."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
    for row in found["rows"]:
        cells = _cells(row)
        if row == found["best"]:
            cells = [f"**{cell}**" for cell in cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    low, high = row["ratio_ci95"]
    change = formats.change(row["interp_ppl"] / row["base_ppl"])
    return [
        row["key"],
        row["metric"],
        row["factory"],
        row["score"],
        formats.perplexity(row["base_ppl"]),
        formats.perplexity(row["interp_ppl"]),
        f"{change} ({formats.change_interval(low, high)})",
        formats.perplexity(row["oracle_ppl"]),
        formats.significant(row["lambda"]),
        formats.significant(row["temperature"]),
        formats.percent(row["recall"]),
    ]


def adapt_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """One line for each model that benchmarks/adapt.py measured."""
    lines = ["| " + " | ".join(_ADAPT) + " |", "|" + "---|" * len(_ADAPT)]
    for name, run in found.items():
        low, high = run["ratio_ci95"]
        cells = [
            name,
            f"{formats.count(run['rows'])} rows",
            formats.count(run["tokens"]),
            formats.perplexity(run["base_ppl"]),
            formats.perplexity(run["interp_ppl"]),
            f"{formats.change(run['ratio'])} ({formats.change_interval(low, high)})",
            formats.significant(run["lam"]),
            formats.significant(run["temperature"]),
            f"{run['base_tokens_per_second']:.1f} tokens/s",
            f"{run['knn_tokens_per_second']:.1f} tokens/s ({formats.percent(run['speed_kept'])} "
            "of it)",
            formats.percent(run["build_kept"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def clusters_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A few lines for each model that benchmarks/clusters.py measured: its search, and every number
    of clusters."""
    lines = ["| " + " | ".join(_CLUSTERS) + " |", "|" + "---|" * len(_CLUSTERS)]
    for name, run in found.items():
        search = run["search"]
        pressed = [
            (f"{formats.count(c['count'])} clusters", c, c["multiplications"])
            for c in run["clusters"]
        ]
        looked = (
            f"search (k = {formats.count(search['k'])}, recall {formats.percent(search['recall'])})"
        )
        for what, at, work in [(looked, search, None), *pressed]:
            cells = [
                name,
                what,
                "" if work is None else formats.count(work),
                formats.perplexity(at["base_ppl"]),
                formats.perplexity(at["interp_ppl"]),
                _changed(at["ratio"], at["ratio_ci95"]),
                "" if work is None else _changed(at["against"], at["against_ci95"]),
                "" if work is None else f"{at['seconds']:.0f} s",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _changed(ratio: float, limits: Sequence[float]) -> str:
    return f"{formats.change(ratio)} ({formats.change_interval(*limits)})"
