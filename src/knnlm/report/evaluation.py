"""An evaluation for people: the lines of `knnlm tune` and `knnlm eval`, and a table for notebooks.

Every change is one of perplexity per token; minus is better."""

from typing import NamedTuple

from knnlm import formats
from knnlm.evaluation import Evaluation, TunedSettings
from knnlm.report.document import Cell, Column, Table

_NOTED_SHARE = 0.005  # less is 0 %


def tuning_lines(settings: TunedSettings) -> list[str]:
    """Settings, and what they gave on the validation text."""
    control = settings.calibrated
    lines = [str(settings), settings.validation]
    other = "neighbors" if settings.retrieval is not None else settings.component
    return lines if control is None else [*lines, control.validation(other)]


def overlap_lines(overlap: float | None) -> list[str]:
    """That numbers are of a text which is in the datastore; nothing where it is not.

    Args:
        overlap: Share of the text that is in the datastore, where that was allowed.
    """
    if overlap is None or overlap < _NOTED_SHARE:
        return []
    return [
        f"beware: {overlap:.0%} of this text is in the datastore and retrieves itself, so these "
        "numbers say little about other text"
    ]


class _Row(NamedTuple):
    """A predictor's perplexity, and how it changed from another's."""

    name: str
    ppl: float
    change: str = ""
    interval: str = ""


def _rows(e: Evaluation, settings: TunedSettings) -> list[_Row]:
    """What is compared: the LM alone and mixed, and both again with the calibrated LM."""
    component = "kNN" if settings.retrieval is not None else settings.component
    mixed = _Row(
        f"base LM with {component}", e.interp_ppl, formats.change(e.ratio), _interval(e.ratio_ci95)
    )
    rows = [_Row("base LM", e.base_ppl), mixed]
    if e.calibrated_ppl is None or e.calibrated_interp_ppl is None or e.calibrated_ratio is None:
        return rows
    alone = formats.change(e.calibrated_ppl / e.base_ppl)
    further = f"{formats.change(e.calibrated_ratio)} from the calibrated LM"
    return [
        *rows,
        _Row("calibrated LM", e.calibrated_ppl, alone),
        _Row(
            f"calibrated LM with {component}",
            e.calibrated_interp_ppl,
            further,
            _interval(e.calibrated_ratio_ci95),
        ),
    ]


def evaluation_lines(
    evaluation: Evaluation, settings: TunedSettings, overlap: float | None = None
) -> list[str]:
    """Settings, perplexities with their changes, and what the component does alone."""
    e = evaluation
    shares = f"coverage {e.coverage:.1%}, helping {e.helping:.1%}"
    if e.recall is not None:
        shares += f", recall {e.recall:.3f}"
    alone = "kNN alone" if settings.retrieval is not None else f"{settings.component} alone"
    rows = [*_rows(e, settings), _Row("oracle", e.oracle_ppl)]
    width = max(16, len(alone), *(len(row.name) for row in rows))
    interval = "too little text for an interval, or a token is impossible"
    if e.ratio_ci95_unit is not None:
        interval = f"95 % intervals in brackets, resampling each {e.ratio_ci95_unit}"
    return [
        str(settings),
        f"{e.tokens:,} tokens; perplexity per token ({interval})",
        *overlap_lines(overlap),
        *(f"  {row.name:<{width}} {_numbers(row)}".rstrip() for row in rows),
        f"  {alone:<{width}} {formats.perplexity(e.component_ppl):>8}  ({shares})",
        *_control_lines(e, settings),
    ]


def _numbers(row: _Row) -> str:
    interval = f" [{row.interval}]" if row.interval else ""
    return f"{formats.perplexity(row.ppl):>8}  {row.change}{interval}"


def _control_lines(e: Evaluation, settings: TunedSettings) -> list[str]:
    """What the calibrated LM is, or why there is none."""
    if settings.calibrated is None:
        return ["no calibrated LM to compare with: tune (again) to fit one"]
    return [f"the calibrated LM retrieves nothing: {settings.calibrated}"]


def _interval(ratios: tuple[float, float] | None) -> str:
    return "" if ratios is None else formats.change_interval(ratios)


def evaluation_table(
    evaluation: Evaluation, settings: TunedSettings, overlap: float | None = None
) -> Table:
    """Perplexities of the LM and the calibrated LM, alone and mixed, and the oracle's."""
    rows = [*_rows(evaluation, settings), _Row("oracle", evaluation.oracle_ppl)]
    cells = tuple(
        (Cell(row.name), Cell(formats.perplexity(row.ppl)), Cell(row.change, row.interval))
        for row in rows
    )
    columns = (
        Column("", "sentence"),
        Column("perplexity per token", "number"),
        Column("change (95 % interval)", "number"),
    )
    caption = "; ".join([f"{settings}; {evaluation.tokens:,} tokens", *overlap_lines(overlap)])
    return Table(columns, cells, caption, best=1)
