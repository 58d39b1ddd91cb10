"""How a document longer than the model is cut so that each token is predicted exactly once.

Window 5, stride 2, a document of 10 tokens (0…9; token 0 is never predicted):

    input    0 1 2 3 4               target   1 2 3 4 5     scored 1 2 3 4 5
    input        2 3 4 5 6           target   3 4 5 6 7     scored           6 7
    input            4 5 6 7 8       target   5 6 7 8 9     scored               8 9

The first window scores all its targets; each later one scores its last `stride`, so every target
has all of the document before it or at least `window - stride` + 1 tokens of it, itself excluded.
Knows only lengths."""

from collections.abc import Iterator
from typing import NamedTuple

from knnlm.errors import UsageError


class Window(NamedTuple):
    """Inputs are tokens[start:stop]; targets tokens[start+1:stop+1]; targets before `first` were
    scored earlier."""

    start: int
    stop: int
    first: int

    @property
    def scored(self) -> int:
        """How many targets this window scores."""
        return self.stop + 1 - self.first


def check_window(window: int, stride: int, longest: int | None = None) -> None:
    """Refuse a window or stride that cannot work; `longest` is what the model can read."""
    if window < 1 or not 1 <= stride <= window:
        raise UsageError(
            f"window {window} with stride {stride} is impossible: choose 1 ≤ stride ≤ window"
        )
    if longest is not None and window > longest:
        raise UsageError(
            f"window {window} is longer than the model's {longest} positions: choose {longest} or "
            "less"
        )


def windows(length: int, window: int, stride: int) -> Iterator[Window]:
    """The windows of a document of `length` tokens."""
    last = length - 1  # inputs are 0 … last-1
    stop = min(window, last)
    first = 1
    while first <= last:
        yield Window(max(0, stop - window), stop, first)
        first = stop + 1
        stop = min(stop + stride, last)
