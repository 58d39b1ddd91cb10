"""Which tokens an update sees: a pure function of (seed, step), so that a resumed run repeats
itself exactly.

Each epoch cuts the stream into windows at a random offset and shuffles them."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from knnlm.errors import KnnlmError


class TokenBatches:
    """Batches of windows over a stream of tokens.

    Args:
        tokens: The stream.
        context: Tokens in a window, besides the one that follows it.
        batch: Windows in an update, or all of them where the text has fewer.
        seed: Decides offsets and order.
    """

    def __init__(self, tokens: NDArray[np.int32], context: int, batch: int, seed: int) -> None:
        self.tokens, self.context, self.seed = tokens, context, seed
        windows = (len(tokens) - 1) // context - 1  # one fewer, so that every offset has room
        if windows < 1:
            raise KnnlmError(
                f"the training text has {len(tokens):,} tokens but two windows of {context} are "
                "the least to train on: give more text or a preset with a shorter context"
            )
        self.windows = windows
        self.batch = min(batch, windows)
        self.steps_per_epoch = windows // self.batch
        self._starts = lru_cache(maxsize=2)(self._starts_of_epoch)

    def at(self, step: int) -> NDArray[np.int64]:
        """Token ids (batch, context + 1) of update `step` (from 0): inputs and, shifted by one,
        targets."""
        return self.tokens[self.positions(step)].astype(np.int64)

    def positions(self, step: int) -> NDArray[np.int64]:
        """Positions in the stream of the tokens of `at(step)`."""
        epoch, step_of_epoch = divmod(step, self.steps_per_epoch)
        first = step_of_epoch * self.batch
        starts = self._starts(epoch)[first : first + self.batch]
        positions: NDArray[np.int64] = starts[:, None] + np.arange(self.context + 1)
        return positions

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
            "give more text, another text with `valid`, or a preset with a shorter context"
        )
    starts = context * np.arange(count)
    return tokens[starts[:, None] + np.arange(context + 1)].astype(np.int64)
