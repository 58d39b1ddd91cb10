"""A wrong type is one sentence that names the parameter, what it got and what it takes."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from knnlm.argument_types import check_type, check_types
from knnlm.errors import UsageError

Score = Literal["index", "exact"]


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, int),
        (np.int64(3), int),
        (3, float),
        (np.float32(0.5), float),
        (None, int | None),
        ([1, 2], int | Sequence[int]),
        ((0.5, 2), Sequence[float] | None),
        ("x", str | Path),
        (Path("x"), str | Path),
        (["a", Path("b")], Sequence[str | Path]),
        ("index", Score | None),
        ("no such score", Score),  # whoever knows the scores says so
        (True, bool),
        (object(), Any),
    ],
)
def test_what_fits_passes(value: Any, hint: Any) -> None:
    assert check_type("x", value, hint) == (list(value) if isinstance(value, tuple) else value)


@pytest.mark.parametrize(
    ("value", "hint", "wanted"),
    [
        (np.int64(3), int, 3),
        (np.float32(0.5), float, 0.5),
        (Fraction(1, 4), float, 0.25),
        (np.True_, bool, True),
        (np.array([4, 8]), int | Sequence[int], [4, 8]),
        (np.linspace(1, 2, 3), Sequence[float] | None, [1.0, 1.5, 2.0]),
        ([np.int64(1)], Sequence[int], [1]),
    ],
)
def test_numbers_of_other_libraries_become_pythons(value: Any, hint: Any, wanted: Any) -> None:
    """JSON, FAISS and isinstance(…, int) know Python's only."""
    made = check_type("x", value, hint)
    assert made == wanted
    assert type(made) is type(wanted)
    if isinstance(wanted, list):
        assert {type(item) for item in made} == {type(item) for item in wanted}


@pytest.mark.parametrize(
    ("value", "hint", "sentence"),
    [
        ("64", int, "`x` is a str ('64'): give a whole number"),
        (True, int, "`x` is a bool (True): give a whole number"),
        (2.0, int | None, "`x` is a float (2.0): give a whole number or None"),
        ("0.5", float, "`x` is a str ('0.5'): give a number"),
        (None, float, "`x` is None: give a number"),
        (1.0, Sequence[float], "`x` is a float (1.0): give a list of numbers"),
        ("att", Sequence[int], "`x` is a str ('att'): give a list of whole numbers"),
        ([1, "2"], int | Sequence[int], "give a whole number or a list of whole numbers"),
        (1, bool, "`x` is an int (1): give True or False"),
        (5, str | Path, "`x` is an int (5): give a path"),
        (b"x" * 99, str, "`x` is a bytes: give a text"),
        (b"\x08", int | Sequence[int], "give a whole number or a list of whole numbers"),
        (3, Score, "`x` is an int (3): give 'index' or 'exact'"),
    ],
)
def test_what_does_not_fit_is_a_sentence(value: Any, hint: Any, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        check_type("x", value, hint)
    assert str(error.value).endswith(sentence)


def test_arguments_are_checked_by_name_and_position() -> None:
    @check_types
    def work(k: int, *, tau: float = 1.0) -> float:
        return k * tau

    assert work(2) == 2
    assert work(2, tau=3) == 6
    with pytest.raises(UsageError, match="`k` is a str"):
        work("2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`tau` is a list"):
        work(2, tau=[1.0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"work\(\) got an unexpected keyword"):
        work(2, lam=1.0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"work\(\) missing 1 required positional argument"):
        work()  # type: ignore[call-arg]
