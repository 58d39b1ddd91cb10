"""The columns of the demo's table as data: heading, explanation, and the field that fills it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from knnlm.formats import (
    NOTHING,
    change,
    change_interval,
    count,
    duration,
    percent,
    perplexity,
    significant,
)
from knnlm.report.document import Cell, Column, Kind, Table
from knnlm.report.results import ConditionResult
from knnlm.report.sentences import PERPLEXITY


def _perplexity_or_none(value: float | None) -> str:
    return NOTHING if value is None else perplexity(value)


def _change_or_none(ratio: float | None) -> str:
    return NOTHING if ratio is None else change(ratio)


class _Filled(NamedTuple):
    """A column, the field of a `ConditionResult` that it shows, and how that is written."""

    name: str
    field: str
    write: Callable[[Any], str]
    help: str
    brief: bool = False
    note: Callable[[ConditionResult], str] | None = None


_GROUPS: dict[str, tuple[_Filled, ...]] = {
    "Condition": (
        _Filled(
            "Key",
            "key",
            str,
            "The hidden state that stands for a context: att is what the last block's feed-forward "
            "layer reads, ffn is what the output layer reads.",
            brief=True,
        ),
        _Filled(
            "Metric",
            "metric",
            str,
            "How two hidden states are compared: l2 is squared Euclidean distance, ip is the inner "
            "product.",
            brief=True,
        ),
        _Filled(
            "Search",
            "search",
            str,
            "How neighbors are found: exact compares with every entry of the datastore, anything "
            "else is an approximate index.",
            brief=True,
        ),
        _Filled(
            "Scores",
            "score",
            str,
            "Which similarities weigh the neighbors: exact ones are computed from the hidden "
            "states, index ones are the index's own, possibly rounded.",
        ),
    ),
    "Perplexity per token": (
        _Filled(
            "LM", "base_ppl", perplexity, f"The language model alone. {PERPLEXITY}", brief=True
        ),
        _Filled(
            "kNN alone",
            "component_ppl",
            perplexity,
            "The neighbors alone. It is ∞ as soon as one token was not among the tokens of its "
            "neighbors; below it, the share of tokens that were (coverage).",
            note=lambda result: f"covers {percent(result.coverage)}",
        ),
        _Filled(
            "Mixed",
            "interp_ppl",
            perplexity,
            "Language model and neighbors together: the result.",
            brief=True,
        ),
        _Filled(
            "Change",
            "ratio",
            change,
            "From LM to Mixed, with the 95 % interval of a paired bootstrap below.",
            brief=True,
            note=lambda result: change_interval(result.ratio_ci95),
        ),
        _Filled(
            "Oracle",
            "oracle_ppl",
            perplexity,
            "If one could know for each token which of the two is better and use that one: a "
            "bound, not a method.",
        ),
    ),
    "Calibrated LM": (
        _Filled(
            "Alone",
            "calibrated_ppl",
            _perplexity_or_none,
            "The language model with its own softmax temperature and a share of unigrams, both "
            "fitted on the validation text. Nothing is retrieved: what it gains over LM, neighbors "
            "cannot claim.",
        ),
        _Filled(
            "Mixed",
            "calibrated_interp_ppl",
            _perplexity_or_none,
            "The calibrated LM and the neighbors together, with their own λ and τ.",
        ),
        _Filled(
            "vs calibrated",
            "calibrated_ratio",
            _change_or_none,
            "From the calibrated LM alone to the mixture with it: what only the neighbors can do.",
            brief=True,
            note=lambda result: change_interval(result.calibrated_ratio_ci95),
        ),
    ),
    "Tuned": (
        _Filled(
            "λ",
            "lam",
            significant,
            "The interpolation weight of the neighbors, tuned on the validation text.",
        ),
        _Filled(
            "τ",
            "tau",
            significant,
            "The retrieval temperature that divides the neighbors' scores, tuned on the validation "
            "text; below it, the same in units of the spread of those scores.",
            note=lambda result: (
                "" if result.tau_units is None else f"{significant(result.tau_units)} spread"
            ),
        ),
        _Filled("k", "k", count, "How many neighbors are retrieved for each token."),
    ),
    "Neighbors": (
        _Filled(
            "Helping",
            "helping",
            percent,
            "Share of tokens to which the neighbors gave more probability than the language model.",
        ),
        _Filled(
            "Recall",
            "recall",
            percent,
            "Share of the exact nearest neighbors that the search returned.",
            brief=True,
        ),
        _Filled("Time", "seconds", duration, "Time to tune and evaluate this condition."),
    ),
}


def conditions_table(results: tuple[ConditionResult, ...], best: int | None) -> Table:
    """One row for each condition, the best one highlighted."""
    fills = [(group, filled) for group, fills in _GROUPS.items() for filled in fills]
    columns = tuple(
        Column(filled.name, _kind(filled), filled.help, group, filled.brief)
        for group, filled in fills
    )
    rows = tuple(tuple(_cell(filled, result) for _, filled in fills) for result in results)
    return Table(columns, rows, best=best)


def _kind(filled: _Filled) -> Kind:
    return "word" if filled.write is str else "number"


def _cell(filled: _Filled, result: ConditionResult) -> Cell:
    note = filled.note(result) if filled.note else ""
    return Cell(filled.write(getattr(result, filled.field)), note)
