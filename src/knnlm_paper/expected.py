"""What the paper printed (expected.yaml), by label. Knows nothing of what came out here."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import yaml

PAPER_TOKENS_PER_WORD = 112_735_284 / 103_227_021
"""Of WikiText-103's training text with the paper's tokenizer, by the counts in its code: its
perplexities are per word."""


class Published(NamedTuple):
    """A row of one of the paper's tables. `base` is its base LM's perplexity, `cells` every number
    of the row."""

    label: str
    where: str
    name: str
    base: float | None
    cells: Mapping[str, float]
    setting: Mapping[str, str]
    """As a `Retrieval` has them."""
    fields: Mapping[str, Any]
    """The row as it is in the file."""

    @property
    def change(self) -> float:
        """Relative change of perplexity against its base LM: what compares across scales."""
        assert self.base is not None
        return self.cells["interp"] / self.base - 1


@cache
def published() -> dict[str, tuple[Published, ...]]:
    """All rows, by the \\label of their table."""
    text = resources.files("knnlm_paper").joinpath("expected.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return {
        label: tuple(_row(label, table, row) for row in table["rows"])
        for label, table in tables.items()
    }


def printed(label: str, **setting: str) -> Published | None:
    """The row of a table whose settings are these, if the paper has it."""
    return next((row for row in published()[label] if dict(row.setting) == setting), None)


def printed_row(label: str, **fields: object) -> Published:
    """The first row of a table with these fields."""
    return next(
        row for row in published()[label] if all(row.fields.get(k) == v for k, v in fields.items())
    )


def _row(label: str, table: Mapping[str, Any], row: Mapping[str, Any]) -> Published:
    cells = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    where = str(row.get("where", table["where"]))
    base = row.get("base", table.get("base"))
    return Published(label, where, str(row["name"]), base, cells, row.get("setting", {}), row)
