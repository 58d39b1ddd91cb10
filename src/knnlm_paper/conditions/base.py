"""Rows as the runner of experiments sees them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from knnlm.experiments.condition import Condition
from knnlm.experiments.lms import Checkpoint
from knnlm.experiments.runner import grouped_by_lm
from knnlm.experiments.searches import SearchSpec, largest_k
from knnlm_paper.apprentice import made_with
from knnlm_paper.experiments.baselines import exactly, paper_arm
from knnlm_paper.measure import Bench
from knnlm_paper.rows import Arm, Combined, Evaluate, Learned, Recipe, Row, lms_of
from knnlm_paper.scales import Scale
from knnlm_paper.workshop import Workshop, search_of


@dataclass(frozen=True)
class RowCondition(Condition[Workshop]):
    """A row at a scale; `bench` gives what rows of one workshop share."""

    row: Row
    scale: Scale
    bench: Callable[[Workshop], Bench]

    @property
    def name(self) -> str:
        """The row's."""
        return self.row.name

    @property
    def lm(self) -> Checkpoint:
        """The row's."""
        return Checkpoint(*self.row.lm)

    @property
    def other_lms(self) -> tuple[Checkpoint, ...]:
        """Those of an ensemble."""
        return tuple(Checkpoint(*lm) for lm in lms_of(self.row)[:-1])

    @property
    def searches(self) -> dict[SearchSpec, int]:
        """Those of the row's arms, and of arms whose τ it uses."""
        return most_neighbours([self.row], self.scale)

    @property
    def made_with(self) -> str | None:
        """How things are learned at this scale, where the row learns something."""
        return made_with(self.scale) if isinstance(self.row, Learned | Combined) else None

    @property
    def kind(self) -> str:
        """The row's class."""
        return type(self.row).__name__.lower()

    def describe(self) -> dict[str, Any]:
        """The row's fields."""
        return asdict(self.row)

    def measure(self, workspace: Workshop) -> dict[str, Any]:
        """The row's results."""
        return self.bench(workspace).measure(self.row)


def unique_rows(recipes: Iterable[Recipe]) -> list[Row]:
    """The rows of several recipes, each once, those of one LM together so that it is opened
    once."""
    return grouped_by_lm(row for recipe in recipes for row in recipe.rows)


def most_neighbours(rows: Iterable[Row], scale: Scale) -> dict[SearchSpec, int]:
    """How many neighbours each search must find to serve all rows; the τ that arms share is the
    paper's arm's."""
    arms: list[Arm] = []
    for row in rows:
        arms += row.arms
        if isinstance(row, Evaluate):
            arms.append(replace(paper_arm(scale, row.lm[0]), step=row.lm[1]))
        if any(
            scale.other(lm) is None and scale.lm(lm).teacher == "knn-lm" for lm, _ in lms_of(row)
        ):
            arms.append(exactly(paper_arm(scale)))  # whose τ and λ the teacher has
    return largest_k({search_of(arm): arm.k} for arm in arms)
