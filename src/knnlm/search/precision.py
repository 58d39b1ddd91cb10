"""In which precision this CPU multiplies matrices fastest: measured once."""

import functools
import os
from collections.abc import Callable

import torch

from knnlm.cpu import fastest_run, multiplies_faster, product_seconds
from knnlm.errors import UsageError

PRODUCTS_VARIABLE = "KNNLM_PRODUCTS"
"""An environment variable that names the precision instead: for tests and measurements."""
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int8": torch.int8}
_SHAPE = (512, 512, 512)
_INT8_AHEAD = 1.6
"""What the rough numbers of int8 must gain: more entries have to be scored again."""


@functools.cache
def fastest_dtype() -> torch.dtype:
    """float32, or bfloat16 or int8 where this CPU multiplies them clearly faster.

    Raises:
        UsageError: The environment variable names no precision.
    """
    named = os.environ.get(PRODUCTS_VARIABLE)
    if named is not None and named not in _DTYPES:
        raise UsageError(f"{PRODUCTS_VARIABLE}={named} is unknown: choose {', '.join(_DTYPES)}")
    if named == "int8" and not int8_products_are_right():
        raise UsageError(f"{PRODUCTS_VARIABLE}=int8: this CPU loses bits there: choose float32")
    if named is not None:
        return _DTYPES[named]
    best = torch.bfloat16 if multiplies_faster(torch.bfloat16) else torch.float32
    seconds = product_seconds(best)
    if int8_products_are_right() and _INT8_AHEAD * fastest_run(_int8_product()) < seconds:
        best = torch.int8
    return best


def int8_products_are_right() -> bool:
    """Whether int8 products keep every bit: without the instructions for them, sums of two products
    may be cut off at 16 bits."""
    rows, columns, width = _SHAPE
    left = torch.full((rows, width), 127, dtype=torch.int8)
    right = torch.full((columns, width), 127, dtype=torch.int8)
    left[::2], right[::3] = -127, -127
    try:
        product = torch._int_mm(left, right.T)
    except (AttributeError, RuntimeError):
        return False
    return torch.equal(product.double(), left.double() @ right.double().T)


def _int8_product() -> Callable[[], object]:
    rows, columns, width = _SHAPE
    left, right = (torch.ones(n, width, dtype=torch.int8) for n in (rows, columns))
    return lambda: torch._int_mm(left, right.T)
