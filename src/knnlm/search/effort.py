"""How hard an index must search for a recall: measured, not guessed.

Two numbers decide it. `nprobe`, the lists that are visited, sets which entries are looked at;
`refine`, the candidates that are scored again for each neighbor, makes up for imprecise codes. The
least `refine` is taken with which visiting many lists is good enough, and then the least `nprobe`.
"""

from collections.abc import Callable

import numpy as np

from knnlm.search.factory import Design

_REFINE = (2, 3, 4, 6, 8, 12, 16)
_MANY_LISTS = 8
"""Visiting an eighth of all lists should nearly reach what all lists would give."""
_SPARE = 0.005
"""What that recall has to be above the wanted one, so that fewer lists can do."""


def _most(design: Design) -> int:
    """The largest refine that may be chosen."""
    return design.refine or _REFINE[-1]


def choose_effort(
    design: Design, lists: int, measured: Callable[[int, int], float]
) -> tuple[int, int]:
    """nprobe and refine of an index: as designed, or the least that reach the designed recall.

    Args:
        design: What is fixed, and the recall.
        lists: How many lists the index has.
        measured: From (nprobe, refine) to recall.

    Returns:
        nprobe and refine; the largest of both where nothing reaches the recall.
    """
    many = design.nprobe or max(min(lists, 16), lists // _MANY_LISTS)
    wanted = min(design.recall + (0 if design.nprobe else _SPARE), 1.0)
    while design.nprobe is None and many < lists and measured(many, _most(design)) < wanted:
        many = min(2 * many, lists)  # no number of candidates makes up for lists not visited
    refine = design.refine or next(
        (refine for refine in _REFINE if measured(many, refine) >= wanted), _REFINE[-1]
    )
    if design.nprobe is not None:
        return design.nprobe, refine
    # four steps from one power of two to the next
    steps = np.unique(np.geomspace(1, lists, 4 * lists.bit_length() - 3).round().astype(int))
    low, high = 0, len(steps) - 1
    while low < high:
        middle = (low + high) // 2
        if measured(int(steps[middle]), refine) >= design.recall:
            high = middle
        else:
            low = middle + 1
    return int(steps[low]), refine
