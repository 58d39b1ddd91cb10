"""⊗: how near a query is to a stored state. Higher is nearer, everywhere.

    l2:  -‖h - w‖²          ip:  h · w

h is a query (paper: h_ds), w a stored state (a row of W_ds). The sign of L2 is decided here and
nowhere else; sums are in fp32 whatever the storage type. Which entries to score is the caller's
choice.

Code that depends on the metric matches on it and ends in `assert_never`: a metric that is added to
`Metric` is an error of mypy, and of every run, until each such place knows it.
"""

from typing import Any, Literal, assert_never, get_args

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore import Column
from knnlm.errors import unknown

Metric = Literal["l2", "ip"]
METRICS: tuple[Metric, ...] = get_args(Metric)
_STATES_AT_ONCE = 1 << 10


def checked_metric(name: str) -> Metric:
    """`name` as a metric.

    Raises:
        UsageError: It is not one; the message lists them.
    """
    for metric in METRICS:
        if metric == name:
            return metric
    raise unknown("metric", name, METRICS)


def from_distance(metric: Metric, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """What FAISS returns (squared L2 distance, or inner product) as a similarity."""
    match metric:
        case "l2":
            return -values
        case "ip":
            return values
        case _:
            assert_never(metric)


def as_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in fp32. From fp16 torch converts many times faster than NumPy."""
    if values.dtype != np.float16:
        return values.astype(np.float32)
    import torch  # not at the top: reading results needs similarities, and no torch

    writable = values if values.flags.writeable else values.copy()
    converted: NDArray[np.float32] = torch.from_numpy(writable).float().numpy()
    return converted


def longest_state(keys: Column) -> float:
    """The greatest squared length of a stored state: what bounds an inner product. Kept with the
    column, which never changes."""
    if keys.longest is None:
        keys.longest = max(
            (
                float(np.einsum("nd,nd->n", states, states).max())
                for states in (as_float32(block) for _, block in keys.blocks(_STATES_AT_ONCE))
            ),
            default=0.0,
        )
    return keys.longest
