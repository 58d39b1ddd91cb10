"""Which entries to look at where all would take too long."""

import numpy as np
from numpy.typing import NDArray


def evenly_spaced(count: int, most: int) -> NDArray[np.int64]:
    """Up to `most` of `count` positions, evenly spaced over all of them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
