"""The demo's table in Markdown, from its JSON, for documents that show a run. Knows nothing of pages."""

from collections.abc import Mapping
from typing import Any

from knnlm.report import formats

_HEAD = ("key", "metric", "search", "scores", "LM", "mixed", "change (95% interval)", "oracle", "λ", "τ", "recall")


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
