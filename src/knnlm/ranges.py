"""Which values settings may have: λ, τ, k, and names of number formats. Checked before a model
library is imported, and where they are used."""

import math
from pathlib import Path

from knnlm import defaults
from knnlm.errors import UsageError, unknown

DTYPES = {"float16": "<f2", "float32": "<f4"}
"""How hidden states are stored, and what NumPy calls it."""
PRECISIONS = ("float32", "bfloat16", "float16", "auto")
"""How a model computes."""


SMALLEST_TAU, LARGEST_TAU = 1e-30, 1e30
_LARGEST_SEED = (1 << 31) - 2  # FAISS counts seeds in 32 bits, and is given the next one


def check_path(path: str | Path) -> None:
    """Raise a UsageError unless libraries can open files below a path: they take UTF-8 only."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the name {path} has bytes that are not UTF-8, and libraries cannot open files there: "
            "rename it or choose another folder"
        ) from error


def check_dtype(dtype: str) -> None:
    """Raise a UsageError unless hidden states can be stored so."""
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)


def check_precision(precision: str) -> None:
    """Raise a UsageError unless a model can compute so."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)


def check_lambda(lam: float) -> None:
    """Raise a UsageError unless λ is between 0 and 1."""
    if not 0 <= lam <= 1:
        raise UsageError(f"lambda {lam} is out of range: choose 0 to 1")


def check_temperature(tau: float) -> None:
    """Raise a UsageError unless scores can be divided by τ: positive, and not lost in fp32."""
    if not (math.isfinite(tau) and SMALLEST_TAU <= tau <= LARGEST_TAU):
        raise UsageError(
            f"retrieval temperature {tau} is out of range: choose a number above 0, between "
            f"{SMALLEST_TAU:g} and {LARGEST_TAU:g}"
        )


def check_k(k: int) -> None:
    """Raise a UsageError unless a search can return k neighbors: 1 to 4096."""
    if not 1 <= k <= defaults.K_MAX:
        raise UsageError(f"k = {k} is out of range: choose 1 to {defaults.K_MAX}")


def check_seed(seed: int) -> None:
    """Raise a UsageError unless every library takes a seed: 0 to 2,147,483,646."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise UsageError(f"seed {seed} is out of range: choose 0 to {_LARGEST_SEED}")
