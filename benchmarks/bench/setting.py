"""What a case is given: how much to do, and datastores to do it with."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from knnlm.datastore import Entries, open_entries


class StorePair(NamedTuple):
    """A datastore, and the entries of another text under the same model, built with --logprobs."""

    name: str
    store: Path
    queries: Path

    def open(self) -> tuple[Entries, Entries]:
        """Both, open for reading."""
        return open_entries(self.store), open_entries(self.queries)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a case is measured.

    Attributes:
        quick: Whether a minute has to do for all cases: small sizes, and only a guard against
            falling far behind.
        work: A folder for what a case makes; it is kept, so that a second run finds it.
        stores: Datastores of real models that were given on the command line.
        large: Whether the sizes go on to ten million entries, where a case says so.
    """

    quick: bool
    work: Path
    stores: tuple[StorePair, ...] = field(default=())
    large: bool = False

    @property
    def repeats(self) -> int:
        """Rounds of a comparison: a whole run has 40 minutes."""
        return 2 if self.quick else 3
