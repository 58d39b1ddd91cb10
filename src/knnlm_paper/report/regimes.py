"""When each reason holds: the main effects in every LM that was measured, from barely trained to
overfitted, narrow to wide."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from knnlm.experiments.base_lms import Checkpoint
from knnlm.report.document import Cell, Column, Table
from knnlm_paper.claims import Claim, Finding
from knnlm_paper.claims.claim import CALIBRATED, OWN_TAU, Term, better, gain
from knnlm_paper.claims.deciding import decide
from knnlm_paper.conditions import KNN
from knnlm_paper.experiments import regimes
from knnlm_paper.report.changes import change_cell, percent
from knnlm_paper.results import Results
from knnlm_paper.retrieval import exactly, paper_retrieval


class Regime(NamedTuple):
    """One LM at one stage of its training."""

    lm: Checkpoint
    label: str
    ppl: float
    calibrated_ppl: float
    neighbors: Finding
    """Over the LM."""
    over_calibrated: Finding
    att: Finding
    """att instead of ffn, exact search, each at its own τ."""
    by_index: Finding
    """An index instead of exact search, each at its own τ."""

    @property
    def calibration(self) -> float:
        """What calibrating the LM changes, per token."""
        return self.calibrated_ppl / self.ppl - 1


def all_regimes(results: Results) -> list[Regime]:
    """Every LM and stage that was measured, the least trained first."""
    points = [Checkpoint(*point) for point in regimes.points(results.scale)]
    points += [Checkpoint(lm) for lm in results.scale.seeds[1:]]
    return [
        regime for point in dict.fromkeys(points) if (regime := _regime(results, point)) is not None
    ]


def _regime(results: Results, lm: Checkpoint) -> Regime | None:
    index = paper_retrieval(results.scale, lm.name, lm.step)
    exact = exactly(index)
    measured = results.find(KNN(exact))
    if measured is None:
        return None
    # the effects of this LM alone, whatever seeds others have
    alone = Results(replace(results.scale, seeds=(lm.name,)), results.records)

    def finding(terms: tuple[Term, ...]) -> Finding:
        return decide(Claim(topic="regime", sentence="", source="", terms=terms), alone)

    return Regime(
        lm,
        _label(lm, measured.lm.step),
        measured.base.ppl,
        measured.base.calibrated_ppl,
        finding(gain(exact, OWN_TAU)),
        finding(gain(exact, CALIBRATED)),
        finding(better(exact, replace(exact, state="ffn"), OWN_TAU)),
        finding(better(index, exact, OWN_TAU)),
    )


def _label(lm: Checkpoint, best_step: int | None) -> str:
    if lm.step is not None:
        return f"{lm.name}, {lm.step:,} updates"
    return lm.name if best_step is None else f"{lm.name} (best, {best_step:,} updates)"


def regimes_table(every: Sequence[Regime]) -> Table:
    """One line for each, all of it per token."""
    columns = (
        "LM",
        "perplexity",
        "calibration",
        "neighbors",
        "neighbors, over the calibrated LM",
        "att instead of ffn",
        "an index instead of exact search",
    )
    rows = tuple(
        (
            Cell(regime.label),
            Cell(f"{regime.ppl:.1f}"),
            Cell(percent(regime.calibration)),
            *(
                change_cell(finding, per="token")
                for finding in (
                    regime.neighbors,
                    regime.over_calibrated,
                    regime.att,
                    regime.by_index,
                )
            ),
        )
        for regime in every
    )
    note = (
        "Perplexities and changes are per token, changes with 95 % intervals over documents; minus "
        "is better."
    )
    return Table(tuple(Column(name) for name in columns), rows, note)
