"""How fast this CPU multiplies matrices of a number type: measured once, not read from its name."""

import functools
import time
from collections.abc import Callable

import torch

NARROW_AHEAD = 1.3
"""How many times as fast as float32 a 16-bit type must be, to be worth its rounding."""
_WIDTH = 512
_RUNS = 5


def multiplies_faster(dtype: torch.dtype) -> bool:
    """Whether products in a 16-bit type are clearly faster than in float32.

    A CPU without instructions for the type emulates it, which is slower.

    Args:
        dtype: torch.bfloat16 or torch.float16.
    """
    return NARROW_AHEAD * product_seconds(dtype) < product_seconds(torch.float32)


@functools.cache
def product_seconds(dtype: torch.dtype) -> float:
    """Time of a square product of 512 in this type."""
    left, right = (torch.ones(_WIDTH, _WIDTH, dtype=dtype) for _ in range(2))
    return fastest_run(lambda: torch.mm(left, right.T))


def fastest_run(product: Callable[[], object]) -> float:
    """The fastest of some runs in seconds, after one that warms up."""
    product()
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        product()
        times.append(time.perf_counter() - began)
    return min(times)
