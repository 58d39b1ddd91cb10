"""An experiment: the conditions that answer one question."""

from dataclasses import dataclass
from typing import Any

from knnlm_paper.conditions import PaperCondition


@dataclass(frozen=True)
class Experiment:
    """A name, the paper's labels, and conditions."""

    name: str
    title: str
    labels: tuple[str, ...]
    """The paper's \\label of each table, figure and appendix that this covers, or the number of an
    appendix that has none; nothing where the paper has no such experiment."""
    conditions: tuple[PaperCondition[Any], ...]
