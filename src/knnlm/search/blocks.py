"""Neighbors that are read a block of queries at a time, wherever they are kept."""

from typing import Protocol

from knnlm.search.neighbors import Neighbors


class NeighborBlocks(Protocol):
    """The k neighbors of every query of a text."""

    k: int

    def __len__(self) -> int: ...
    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbors of queries start … stop-1."""
        ...


class NeighborsInMemory:
    """Neighbors in memory, readable like cached ones."""

    def __init__(self, near: Neighbors) -> None:
        self.near, self.k = near, int(near.ids.shape[1])

    def __len__(self) -> int:
        return len(self.near.ids)

    def read(self, start: int, stop: int) -> Neighbors:
        """Neighbors of queries start … stop-1."""
        return Neighbors(self.near.ids[start:stop], self.near.scores[start:stop])
