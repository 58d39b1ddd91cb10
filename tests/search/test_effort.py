"""How hard an index searches: the least that reaches the recall, whatever limits it."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from knnlm.search.effort import choose_effort
from knnlm.search.factory import Design

LISTS = 256


def design(nprobe: int | None = None, refine: int | None = None) -> Design:
    return Design("IVF256,PQ8x4fs", nprobe, refine, 0.95, False)


def recalls(lists_needed: float, codes: float) -> Callable[[int, int], float]:
    """An index whose neighbors are spread over many lists, or whose codes are poor."""

    def measured(nprobe: int, refine: int) -> float:
        return min(1.0, (nprobe / lists_needed) ** 0.2) * (1 - codes / refine)

    return measured


def test_neighbors_in_many_lists_are_looked_for_in_more_lists_not_among_more_candidates() -> None:
    nprobe, refine = choose_effort(design(), LISTS, recalls(lists_needed=200, codes=0.05))
    assert refine == 2
    assert LISTS // 2 < nprobe <= LISTS


def test_poor_codes_are_made_up_for_by_candidates() -> None:
    nprobe, refine = choose_effort(design(), LISTS, recalls(lists_needed=16, codes=0.3))
    assert refine > 2
    assert nprobe <= LISTS // 4


@given(st.floats(1, 256), st.floats(0, 0.6))
def test_the_recall_is_reached_where_anything_reaches_it(lists: float, codes: float) -> None:
    measured = recalls(lists, codes)
    nprobe, refine = choose_effort(design(), LISTS, measured)
    reachable = measured(LISTS, 16) >= 0.955
    assert measured(nprobe, refine) >= 0.95 or not reachable


def test_what_is_named_is_kept() -> None:
    measured = recalls(lists_needed=200, codes=0.05)
    assert choose_effort(design(nprobe=5), LISTS, measured)[0] == 5
    assert choose_effort(design(refine=3), LISTS, measured)[1] == 3
