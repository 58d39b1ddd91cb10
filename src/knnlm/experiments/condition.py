"""A condition: one setting of every symbol of the equation, as far as the runner needs to know."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from knnlm.experiments.lms import Checkpoint
from knnlm.experiments.searches import SearchSpec
from knnlm.experiments.workspace import Workspace

W = TypeVar("W", bound=Workspace)


class Condition(ABC, Generic[W]):
    """What is measured, of which LMs, with which searches, and how.

    A condition is a value: its result depends on itself, on the experiment's texts and LMs, and on
    nothing else. It is measured in a workspace of type `W`.

    Example:
        @dataclass(frozen=True)
        class Coverage(Condition[Workspace]):
            k: int

            @property
            def name(self) -> str:
                return f"coverage-{self.k}"

            @property
            def searches(self) -> dict[SearchSpec, int]:
                return {SearchSpec(): self.k}

            def measure(self, workspace: Workspace) -> dict[str, Any]:
                near = workspace.neighbors(SearchSpec(), "test", self.k)
                ...
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, also of its record's file; no two conditions of an experiment share one."""

    @abstractmethod
    def measure(self, workspace: W) -> dict[str, Any]:
        """Its result, as JSON."""

    @property
    def lm(self) -> Checkpoint:
        """Its base LM."""
        return Checkpoint("main")

    @property
    def other_lms(self) -> tuple[Checkpoint, ...]:
        """Further LMs that it needs."""
        return ()

    @property
    def searches(self) -> Mapping[SearchSpec, int]:
        """The searches that it needs, with the k of each: one search of the largest k serves all
        conditions."""
        return {}

    @property
    def made_with(self) -> str | None:
        """A fingerprint of what its result depends on beside its name, the texts and the LMs. A
        record that was made with something else is measured again."""
        return None

    @property
    def kind(self) -> str:
        """What is measured, as its record calls it."""
        return type(self).__name__.lower()

    def describe(self) -> dict[str, Any]:
        """All of its settings, as JSON for its record."""
        return dict(vars(self))
