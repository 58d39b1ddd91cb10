"""A condition: one setting of every symbol of the equation, as far as the runner needs to know."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from knnlm.experiments.base_lms import MAIN, Checkpoint
from knnlm.experiments.searches import SearchSpec
from knnlm.typed_json import to_json

if TYPE_CHECKING:
    from knnlm.experiments.workspace import Workspace

W = TypeVar("W", bound="Workspace")
M = TypeVar("M")


class Condition(ABC, Generic[W, M]):
    """What is measured, of which LMs, with which searches, and how.

    A condition is a value, a frozen dataclass: its measurement depends on itself, on the
    experiment's texts and LMs, and on nothing else. It is measured in a workspace of type `W`, and
    its measurement is a frozen dataclass `M` (knnlm/typed_json.py says what their fields may be).
    Import what needs torch inside `measure`: then results can be read without it.

    Example:
        @dataclass(frozen=True)
        class CoverageMeasurement:
            valid: float
            test: float

        @dataclass(frozen=True)
        class Coverage(Condition[Workspace, CoverageMeasurement]):
            measurement_type = CoverageMeasurement
            k: int

            @property
            def name(self) -> str:
                return f"coverage-{self.k}"

            @property
            def searches(self) -> dict[SearchSpec, int]:
                return {SearchSpec(): self.k}

            def measure(self, workspace: Workspace) -> CoverageMeasurement:
                near = workspace.neighbors(SearchSpec(), "test", self.k)
                ...
    """

    kind: ClassVar[str]
    """What is measured, as records call it: the name of the class, "neighbor-counts" of
    NeighborCounts."""
    measurement_type: ClassVar[type[Any]]
    """The dataclass that `measure` returns."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, also of its record's file; no two conditions of an experiment share one."""

    @abstractmethod
    def measure(self, workspace: W) -> M:
        """Its measurement."""

    @property
    def lm(self) -> Checkpoint:
        """Its base LM."""
        return MAIN

    @property
    def other_lms(self) -> tuple[Checkpoint, ...]:
        """Further LMs that it needs."""
        return ()

    @property
    def searches(self) -> Mapping[SearchSpec, int]:
        """The searches that it needs, with the k of each: one search of the largest k serves all
        conditions."""
        return {}

    def made_with(self, workspace: W) -> str | None:
        """A fingerprint of what its measurement depends on beside its name, the texts and the LMs.
        A record that was made with something else is measured again."""
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """All of its fields, as JSON for its record."""
        fields: dict[str, Any] = to_json(self)
        return fields


C = TypeVar("C", bound=Condition[Any, Any])


def grouped_by_lm(conditions: Iterable[C]) -> list[C]:
    """Each condition once, those of one LM together so that it is opened once."""
    unique = {condition.name: condition for condition in conditions}
    order = {lm: i for i, lm in enumerate(dict.fromkeys(c.lm for c in unique.values()))}
    return sorted(unique.values(), key=lambda condition: order[condition.lm])
