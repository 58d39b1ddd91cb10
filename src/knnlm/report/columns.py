"""The columns of the result table: name, explanation, and how a row fills them.

One list for page and terminal, so that a number has the same name and the same digits in both.
"""

from collections.abc import Callable
from typing import NamedTuple

from knnlm.report import formats, words
from knnlm.report.content import Row


class Cell(NamedTuple):
    """What stands in a cell, and a smaller note below it."""

    text: str
    note: str = ""


class Column(NamedTuple):
    """`brief` columns are the ones a terminal has room for."""

    group: str
    name: str
    help: str
    cell: Callable[[Row], Cell]
    numeric: bool = True
    brief: bool = False


def columns() -> tuple[Column, ...]:
    """All columns, from left to right; equal groups are adjacent."""
    return (*_setting(), *_per_token(), *_per_word(), *_knobs(), *_neighbours())


def _setting() -> tuple[Column, ...]:
    where = "Setting"
    return (
        Column(
            where,
            "Key",
            "Which vector stands for a context: att is what the last block's feed-forward layer "
            "reads, ffn is what the output layer reads.",
            lambda row: Cell(row.key),
            numeric=False,
            brief=True,
        ),
        Column(
            where,
            "Metric",
            "How two vectors are compared: l2 is squared Euclidean distance, ip is the inner "
            "product.",
            lambda row: Cell(row.metric),
            numeric=False,
            brief=True,
        ),
        Column(
            where,
            "Search",
            "How neighbours are found: exact compares with every stored context, "
            "anything else is an approximate index.",
            lambda row: Cell(row.mask),
            numeric=False,
            brief=True,
        ),
        Column(
            where,
            "Scores",
            "What the vote uses: exact is the true similarity of each neighbour found, "
            "index is the index's own, possibly rounded one.",
            lambda row: Cell(row.score),
            numeric=False,
            brief=True,
        ),
    )


def _per_token() -> tuple[Column, ...]:
    where = "Perplexity per token"
    return (
        Column(
            where,
            "LM",
            f"The language model alone. {words.PERPLEXITY}",
            lambda row: Cell(formats.perplexity(row.base_ppl)),
            brief=True,
        ),
        Column(
            where,
            "kNN alone",
            "The neighbours' vote alone. It is ∞ as soon as one token was not among the tokens "
            "of its neighbours; below it, the share of tokens that were (coverage).",
            lambda row: Cell(
                formats.perplexity(row.component_ppl), f"covers {formats.percent(row.coverage)}"
            ),
        ),
        Column(
            where,
            "Mixed",
            "Language model and neighbours together: the result.",
            lambda row: Cell(formats.perplexity(row.interp_ppl)),
            brief=True,
        ),
        Column(
            where,
            "Change",
            "From LM to Mixed, with the 95 % interval of a paired bootstrap below.",
            lambda row: Cell(formats.change(row.interp_ppl / row.base_ppl), words.between(row)),
            brief=True,
        ),
        Column(
            where,
            "Oracle",
            "If one could know for each token which of the two is better and use that one: a "
            "bound, not a method.",
            lambda row: Cell(formats.perplexity(row.oracle_ppl)),
        ),
    )


def _per_word() -> tuple[Column, ...]:
    where = "Per word"
    return (
        Column(
            where,
            "LM",
            "The language model alone, per word: comparable between tokenizers.",
            lambda row: Cell(formats.perplexity(row.base_word_ppl)),
        ),
        Column(
            where,
            "Mixed",
            "Language model and neighbours together, per word.",
            lambda row: Cell(formats.perplexity(row.interp_word_ppl)),
        ),
    )


def _knobs() -> tuple[Column, ...]:
    where = "Knobs"
    return (
        Column(
            where,
            "λ",
            "The weight of the neighbours in the mixture, chosen on the validation text.",
            lambda row: Cell(formats.significant(row.lam)),
            brief=True,
        ),
        Column(
            where,
            "τ",
            "The temperature that divides the neighbours' scores, chosen on the validation text; "
            "below it, the same in units of the spread of those scores.",
            lambda row: Cell(
                formats.significant(row.temperature),
                f"{formats.significant(row.temperature_units)} spread",
            ),
        ),
        Column(where, "k", "How many neighbours vote.", lambda row: Cell(formats.count(row.k))),
    )


def _neighbours() -> tuple[Column, ...]:
    where = "Neighbours"
    return (
        Column(
            where,
            "Helping",
            "Share of tokens to which the neighbours gave more probability than the language "
            "model.",
            lambda row: Cell(formats.percent(row.helping)),
        ),
        Column(
            where,
            "Recall",
            "Share of the true nearest neighbours that the search found.",
            lambda row: Cell(formats.percent(row.recall)),
            brief=True,
        ),
        Column(
            where,
            "Time",
            "Time this setting took.",
            lambda row: Cell(formats.duration(row.seconds)),
        ),
    )
