"""How a document longer than the model can read is cut so that each token is predicted exactly
once.

Window 5, stride 2, a document of 10 tokens (0…9; token 0 is never predicted):

    input    0 1 2 3 4               target   1 2 3 4 5     scored 1 2 3 4 5
    input        2 3 4 5 6           target   3 4 5 6 7     scored           6 7
    input            4 5 6 7 8       target   5 6 7 8 9     scored               8 9

The first window scores all its targets; each later one scores its last `stride`. So the model sees,
before every target, all of the document or at least `window - stride + 1` tokens of it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from knnlm.errors import UsageError


class Window(NamedTuple):
    """One run of the model over a part of a document.

    Attributes:
        start: The inputs are `tokens[start:stop]`, and the targets `tokens[start + 1 : stop + 1]`.
        stop: See `start`.
        first: The first target that this window scores; earlier windows scored those before it.
    """

    start: int
    stop: int
    first: int

    @property
    def scored(self) -> int:
        """How many targets this window scores."""
        return self.stop + 1 - self.first


def check_window(window: int, stride: int, longest: int | None = None) -> None:
    """Refuse a window or stride that cannot work.

    Args:
        window: How many tokens the model reads at once.
        stride: How many new targets each window after the first scores.
        longest: The most tokens the model can read, if it has a limit.

    Raises:
        UsageError: Not 1 ≤ stride ≤ window ≤ longest.
    """
    if window < 1 or not 1 <= stride <= window:
        raise UsageError(
            f"window {window} with stride {stride} is impossible: choose 1 ≤ stride ≤ window"
        )
    if longest is not None and window > longest:
        raise UsageError(
            f"window {window} is longer than the model's {longest} positions: choose {longest} or "
            "less"
        )


def cut_windows(length: int, window: int, stride: int) -> Iterator[Window]:
    """Cut a document of `length` tokens into windows that score each token after the first once.

    Example:
        >>> list(cut_windows(10, window=5, stride=2))[0]
        Window(start=0, stop=5, first=1)
    """
    last = length - 1  # inputs are 0 … last-1
    stop = min(window, last)
    first = 1
    while first <= last:
        yield Window(max(0, stop - window), stop, first)
        first = stop + 1
        stop = min(stop + stride, last)
