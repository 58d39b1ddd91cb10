"""The paper's tables of settings, ours beside them.

A line is a setting that the paper prints: its perplexity there and its change against its LM; and
the same setting here, with every number tuned: perplexity, the change with its interval, and the
change over the calibrated LM. All of it is per word, as the paper's numbers are.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from knnlm.report.document import Cell, Column, Table
from knnlm_paper.claims import Claim
from knnlm_paper.claims.claim import CALIBRATED, OWN_TAU, At, gain
from knnlm_paper.claims.deciding import decide
from knnlm_paper.conditions import KNN, Learned, PaperCondition
from knnlm_paper.expected import Published, published
from knnlm_paper.experiments.ensembling import with_one
from knnlm_paper.report.changes import change_cell, percent
from knnlm_paper.results import Results
from knnlm_paper.retrieval import Retrieval, exactly, paper_retrieval
from knnlm_paper.scales import Scale

_COLUMNS = (
    "setting",
    "paper: perplexity",
    "paper: change",
    "here: perplexity",
    "here: change",
    "here: change, over the calibrated LM",
)
_NOTE = "Perplexities and changes are per word."
_SIZINGS = {"Equal Per Word": "equal", "Loss Weighted": "loss", "Freq. Weighted": "frequency"}


class Setting(NamedTuple):
    """A line: its name, what the paper printed, and what was measured here."""

    name: str
    theirs: Published | None
    ours: PaperCondition[Any] | None


def settings_table(results: Results, label: str) -> Table:
    """The table of one of the paper's labels; empty where it has none, or nothing was measured."""
    lines = SETTINGS[label](results.scale) if label in SETTINGS else []
    measured = [line for line in lines if line.ours is not None and line.ours in results]
    rows = tuple(_row(results, line) for line in lines) if measured else ()
    return Table(tuple(Column(name) for name in _COLUMNS), rows, _NOTE)


def _row(results: Results, line: Setting) -> tuple[Cell, ...]:
    theirs, ours = line.theirs, line.ours
    printed = (
        ("", "") if theirs is None else (f"{theirs.cells['interp']:g}", percent(theirs.change))
    )
    if ours is None or ours not in results:
        return tuple(map(Cell, (line.name, *printed, "", "", "")))
    return (
        Cell(line.name),
        *map(Cell, printed),
        Cell(f"{results.mean_word_ppl(ours, 'own_tau'):.1f}"),
        *(_gain(results, ours, at) for at in (OWN_TAU, CALIBRATED)),
    )


def _gain(results: Results, condition: PaperCondition[Any], at: At) -> Cell:
    claim = Claim(topic="setting", sentence="", source="", terms=gain(condition, at))
    return change_cell(decide(claim, results))


def _retrievals(label: str, scale: Scale) -> list[Setting]:
    lines = []
    for row in published()[label]:
        setting: dict[str, Any] = dict(row.setting)
        retrieval = Retrieval(k=scale.k, factory=scale.factory, **setting)
        lines.append(Setting(retrieval.label, row, KNN(retrieval)))
    return lines


def _baselines(scale: Scale) -> list[Setting]:
    exact = [KNN(exactly(line.ours.retrieval)) for line in _retrievals("tab:knn_baselines", scale)]  # type: ignore[union-attr]
    return [
        *_retrievals("tab:knn_baselines", scale),
        *(Setting(each.retrieval.label, None, each) for each in exact),
    ]


def _recompute(scale: Scale) -> list[Setting]:
    return _retrievals("tab:knn_recompute", scale)


def _other_lms(scale: Scale) -> list[Setting]:
    theirs = [
        Setting(f"{row.name} ({row.fields['parameters']}{_unit(row)})", row, None)
        for row in published()["tab:knn_other_models"]
    ]
    ours = [*scale.widths, *(other.name for other in scale.others)]
    return theirs + [Setting(lm, None, KNN(paper_retrieval(scale, lm))) for lm in ours]


def _unit(row: Published) -> str:
    """What perplexity is per, where the paper itself has another unit than everywhere else."""
    return f", per {row.fields['per']}" if "per" in row.fields else ""


def _heads(scale: Scale) -> list[Setting]:
    lines = []
    for row in published()["tab:input_representation"]:
        state = row.fields["key"]
        knn = KNN(Retrieval(state=state, metric="ip", k=scale.k, factory=scale.factory))
        ours = Learned(state=state) if row.fields["size"] == 1 else knn
        lines.append(Setting(ours.label, row, ours))
    return lines


def _capacity(scale: Scale) -> list[Setting]:
    lines = []
    for row in published()["tab:softmax_bottleneck"]:
        ours = Learned(state=row.fields["key"], size=row.fields["size"])
        lines.append(Setting(ours.label, row, ours))
    return lines


def _adaptive(scale: Scale) -> list[Setting]:
    lines = []
    for row in published()["tab:adaptive_results"]:
        state, sizing = row.fields["key"], _SIZINGS[row.name]
        ours = Learned(state=state, size=scale.learning.adaptive, sizing=sizing)  # type: ignore[arg-type]
        lines.append(Setting(ours.label, row, ours))
    return lines


def _softmaxes(scale: Scale) -> list[Setting]:
    lines = []
    for row in published()["tab:mos_results"]:
        ours = Learned(
            state=row.fields["key"],
            component="mixture-of-softmaxes",
            size=row.fields["mixtures"],
            own_embedding="embed" in row.name,
        )
        lines.append(Setting(ours.label, row, ours))
    return lines


def _ensembles(scale: Scale) -> list[Setting]:
    lms = {scale.lm(lm).preset.embeddings: lm for lm in reversed(scale.ruled_out.ensemble)}
    rows: Sequence[Published] = published()["tab:ensembling"]
    return [
        Setting(f"{row.name} ({lms[size]} here)", row, with_one(lms[size]))
        for row in rows
        if (size := row.fields["size"]) in lms
    ]


def _memorized(scale: Scale) -> list[Setting]:
    theirs = [Setting(row.name, row, None) for row in published()["tab:overfit"]]
    return theirs + [
        Setting(f"memorizing for {step:,} updates", None, with_one("memorised", step))
        for step in scale.lm("memorised").preset.keep
    ]


SETTINGS: dict[str, Callable[[Scale], list[Setting]]] = {
    "tab:knn_baselines": _baselines,
    "tab:knn_recompute": _recompute,
    "tab:knn_other_models": _other_lms,
    "tab:input_representation": _heads,
    "tab:softmax_bottleneck": _capacity,
    "tab:adaptive_results": _adaptive,
    "tab:mos_results": _softmaxes,
    "tab:ensembling": _ensembles,
    "tab:overfit": _memorized,
}
"""Which of the paper's labels have a table, and its lines."""
