"""What is left of a text when its layout is taken away: its letters, as numbers.

Case, white space, punctuation, digits and invisible characters do not count, and compatible forms
of a letter (full width, ligatures) are the same. Digits count only in a text that is mostly
digits: elsewhere they are line numbers as often as not.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

Letters = NDArray[np.uint32]
_CODE_POINTS = 0x110000
_UNREADABLE = 0xFFFD


def letters_of(text: str, *, digits: bool = False) -> Letters:
    """The letters of a text, in order, as code points.

    Args:
        text: Any text.
        digits: Whether digits are letters too.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    codes = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), np.uint32)
    return codes[_letters(digits)[codes]]


def mostly_digits(text: str) -> bool:
    """Whether a text has more digits than letters."""
    every = len(letters_of(text, digits=True))
    return 2 * len(letters_of(text)) < every


@cache
def _letters(digits: bool) -> NDArray[np.bool_]:
    """Which code points are letters: letters and marks of all scripts, and symbols beyond ASCII,
    because some texts are made of them."""
    kinds = [unicodedata.category(chr(code)) for code in range(_CODE_POINTS)]
    counts = np.array(
        [
            kind[0] in "LM" or (kind[0] == "S" and code > 127) or (digits and kind[0] == "N")
            for code, kind in enumerate(kinds)
        ]
    )
    counts[_UNREADABLE] = False
    return counts
