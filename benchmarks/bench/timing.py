"""Timing two or more ways of doing the same thing, in turn, in one process.

A machine that does other work slows all of them alike, so the ratio of one round is worth more than
either time. Ratios are per round; their median is reported, with the least and the greatest.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Work = Callable[[], Any]


def seconds(work: Work) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def fastest(work: Work, repeats: int = 5) -> float:
    """Wall time of the fastest of some calls, after one that warms up: for limits."""
    work()
    return min(seconds(work) for _ in range(repeats))


def in_turn(works: Sequence[Work], repeats: int, *, warm: bool = True) -> list[list[float]]:
    """Wall times of some works, a round of all of them at a time: for each its time in each round.

    Args:
        works: What is timed.
        repeats: How many rounds.
        warm: Whether each work runs once before the first round.
    """
    if warm:
        for work in works:
            work()
    rounds = [[seconds(work) for work in works] for _ in range(repeats)]
    return [list(times) for times in zip(*rounds, strict=True)]


def spread(values: Sequence[float]) -> list[float]:
    """Least, median and greatest, to four digits."""
    return [float(f"{v:.4g}") for v in (min(values), statistics.median(values), max(values))]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One thing done in our way and in another: a row of the table.

    Attributes:
        subject: What was done, for instance "exact search, 2,048 queries × 1M × 128, L2".
        rival: What ours is compared with.
        unit: Of both rates, for instance "queries/s"; more is better.
        ours: Our rate in each round.
        theirs: The rival's.
        aim: The ratio to reach; None: there is none.
    """

    subject: str
    rival: str
    unit: str
    ours: list[float]
    theirs: list[float]
    aim: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Least, median and greatest of both rates and of their ratio."""
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        return {
            "subject": self.subject,
            "rival": self.rival,
            "unit": self.unit,
            "ours": spread(self.ours),
            "theirs": spread(self.theirs),
            "ratio": spread(ratios),
            "rounds": len(ratios),
            "aim": self.aim,
        }


def compared(
    subject: str,
    rival: str,
    unit: str,
    amount: float,
    ours: Work,
    theirs: Work,
    repeats: int,
    *,
    aim: float | None = None,
) -> dict[str, Any]:
    """Time ours and the rival's in turn: the row of the table.

    Args:
        subject: What is done.
        rival: The rival's name.
        unit: Of a rate, for instance "queries/s".
        amount: How much of it one call does.
        ours: Our way.
        theirs: The rival's.
        repeats: Rounds.
        aim: The ratio to reach.
    """
    our_times, their_times = in_turn([ours, theirs], repeats)
    return Comparison(
        subject=subject,
        rival=rival,
        unit=unit,
        ours=[amount / s for s in our_times],
        theirs=[amount / s for s in their_times],
        aim=aim,
    ).as_json()
