"""Which tokens an update sees: a pure function of (seed, step), so that a resumed run repeats
itself exactly.

Each epoch cuts the stream into windows at a random offset and shuffles them. Knows nothing of
models."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError


class Batches:
    """`at(step)` gives the (batch, context + 1) token ids of an update: inputs and, shifted by one,
    targets."""

    def __init__(self, tokens: NDArray[np.int32], context: int, batch: int, seed: int) -> None:
        self.tokens, self.context, self.seed = tokens, context, seed
        windows = (len(tokens) - 1) // context - 1  # one fewer, so that every offset has room
        if windows < 1:
            raise KnnlmError(
                f"the training text has {len(tokens):,} tokens but two windows of {context} are "
                "the least to train on: "
                "give more text or a preset with a shorter context"
            )
        self.windows = windows
        self.batch = min(batch, windows)
        self.steps_per_epoch = windows // self.batch
        self._starts = lru_cache(maxsize=2)(self._starts_of_epoch)

    def at(self, step: int) -> NDArray[np.int64]:
        """The batch of update `step` (from 0)."""
        return self.tokens[self.places(step)].astype(np.int64)

    def places(self, step: int) -> NDArray[np.int64]:
        """Where in the stream the tokens of that batch are."""
        epoch, place = divmod(step, self.steps_per_epoch)
        starts = self._starts(epoch)[place * self.batch : (place + 1) * self.batch]
        found: NDArray[np.int64] = starts[:, None] + np.arange(self.context + 1)
        return found

    def _starts_of_epoch(self, epoch: int) -> NDArray[np.int64]:
        rng = np.random.default_rng([self.seed, epoch])
        offset = rng.integers(self.context)
        return offset + self.context * rng.permutation(self.windows)


def validation_windows(tokens: NDArray[np.int32], context: int, limit: int) -> NDArray[np.int64]:
    """Non-overlapping windows (n, context + 1) over the first `limit` tokens."""
    count = min(len(tokens) - 1, limit) // context
    if count < 1:
        raise KnnlmError(
            f"the validation text has {len(tokens):,} tokens, fewer than one window of {context}: "
            "give more text or a preset with a shorter context"
        )
    starts = context * np.arange(count)
    return tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
