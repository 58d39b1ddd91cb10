"""Windows of tokens → entries: the model's pass over a group of windows.

The windows of a group run in batches of similar length, so that little is padded, and come out in
the order they were given. Padding is on the right, where a causal model cannot see it.

On a CPU each core runs a batch of its own: one product on all cores waits for the slowest of them,
and small batches stay in the cache. What a batch holds depends on the windows alone, not on the
number of cores. A large model would keep as many batches in memory as there are cores, and could
not be interrupted soon, so all cores share each of its batches."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.hidden_states.output_head import target_logprobs
from knnlm.hidden_states.reader import StateReader
from knnlm.ranges import DTYPES
from knnlm.text import Window
from knnlm.workers import Begun, begin_on_all_cores, core_count

BATCH_TOKENS = 1 << 11
"""Of a batch that one core runs, with padding …"""
SHARED_BATCH_TOKENS = 1 << 12
"""… and of one that all cores or a GPU run."""
_SMALL_MODEL = 1 << 28
"""Parameters of a model that each core runs by itself, at most."""
_CHANGING_POSITIONS = ("dynamic", "longrope")
"""Rotary embeddings that change the model while it runs, so that threads would disturb each
other."""

Columns = dict[str, NDArray[Any]]


class TokenWindow(NamedTuple):
    """A window of a document, and its tokens.

    Attributes:
        document: Number of the document.
        window: Which of its tokens the window covers, and which it scores.
        tokens: tokens[:-1] are the inputs and tokens[1:] the targets.
    """

    document: int
    window: Window
    tokens: NDArray[np.int32]

    @property
    def already_scored(self) -> int:
        """How many of the leading targets an earlier window scores."""
        return self.window.first - self.window.start - 1

    @property
    def targets(self) -> NDArray[np.int32]:
        """The targets that this window scores."""
        return self.tokens[self.already_scored + 1 :]


def compute_entries(
    reader: StateReader,
    windows: Sequence[TokenWindow],
    dtype: str,
    logprobs: Mapping[str, float],
) -> Columns:
    """Run the model over windows: one entry for each target that they score, in order.

    Args:
        reader: Reads the model.
        windows: What to run.
        dtype: How states are stored: "float16" or "float32".
        logprobs: Columns of log softmax(W_sm·h_sm / T)[target] to add, each with its T.

    Returns:
        Columns of equal length: one for each key of the reader (n, D), those of log-probabilities,
        and those of `token_columns`.

    Raises:
        KnnlmError: A value is not finite in `dtype`.
    """
    return begin_entries(reader, windows, dtype, logprobs)()


def begin_entries(
    reader: StateReader,
    windows: Sequence[TokenWindow],
    dtype: str,
    logprobs: Mapping[str, float],
) -> "BegunEntries":
    """Start what `compute_entries` does, where cores run batches by themselves.

    Several groups may be started; they run one after the other without a pause between them.

    Returns:
        Call it to wait for the columns. Interrupted there, it ends no later than the batches that
        run.
    """
    return BegunEntries(reader, windows, dtype, logprobs)


class BegunEntries:
    """The entries of some windows, begun by `begin_entries`."""

    def __init__(
        self,
        reader: StateReader,
        windows: Sequence[TokenWindow],
        dtype: str,
        logprobs: Mapping[str, float],
    ) -> None:
        self._reader, self._windows, self._logprobs = reader, windows, logprobs
        self._starts = np.cumsum([0] + [w.window.scored for w in windows])
        count = self._starts[-1]
        self._columns: Columns = {
            key: np.empty((count, width), np.dtype(DTYPES[dtype]).newbyteorder("="))
            for key, width in reader.widths().items()
        } | {name: np.empty(count, np.float32) for name in logprobs}
        self._begun: Begun[None] | None = None
        if _one_core_each(reader):
            self._begun = begin_on_all_cores(self._run, _batches(windows, BATCH_TOKENS))

    def __call__(self) -> Columns:
        """Wait for the columns."""
        if self._begun is not None:
            self._begun()
        else:
            for batch in _batches(self._windows, SHARED_BATCH_TOKENS):
                self._run(batch)
        for name, values in self._columns.items():
            if not _all_finite(values):
                raise KnnlmError(
                    f"some {name} values do not fit {values.dtype}: {_remedy(values.dtype)}"
                )
        return {**self._columns, **token_columns(self._windows)}

    def cancel(self) -> None:
        """Leave out the batches that have not started."""
        if self._begun is not None:
            self._begun.cancel()

    def _run(self, batch: list[int]) -> None:
        rows = [slice(self._starts[i], self._starts[i + 1]) for i in batch]
        windows = [self._windows[i] for i in batch]
        _run_batch(self._reader, windows, self._logprobs, self._columns, rows)


def tokens_at_once(reader: StateReader) -> int:
    """About how many tokens keep the machine busy."""
    return core_count() * BATCH_TOKENS if _one_core_each(reader) else SHARED_BATCH_TOKENS


def _one_core_each(reader: StateReader) -> bool:
    """Whether each core runs a batch of its own."""
    model = reader.model
    rotary = str(getattr(model.config.get_text_config(), "rope_parameters", None))
    return (
        reader.device.type == "cpu"
        and sum(p.numel() for p in model.base_model.parameters()) <= _SMALL_MODEL
        and not any(kind in rotary for kind in _CHANGING_POSITIONS)
    )


def token_columns(windows: Sequence[TokenWindow]) -> dict[str, NDArray[np.int32]]:
    """The columns target, document and position: all that is known without running the model."""
    return {
        "target": np.concatenate([w.targets for w in windows]),
        "document": np.repeat(
            np.array([w.document for w in windows], np.int32), [w.window.scored for w in windows]
        ),
        "position": np.concatenate(
            [np.arange(w.window.first, w.window.stop + 1, dtype=np.int32) for w in windows]
        ),
    }


def _remedy(dtype: np.dtype[Any]) -> str:
    if dtype == np.float16:
        return "build with `dtype` float32"
    return "the model is broken, use another"


def _all_finite(values: NDArray[Any]) -> bool:
    if values.dtype != np.float16:
        return bool(np.isfinite(values).all())
    # of a number that is not finite, all bits of the exponent are set; NumPy's test of fp16 is slow
    return not len(values) or bool((values.view(np.uint16) & 0x7C00).max() < 0x7C00)


def _batches(windows: Sequence[TokenWindow], most: int) -> list[list[int]]:
    """Indices of windows that run together: of similar length, at most `most` tokens with
    padding."""
    longest_first = sorted(range(len(windows)), key=lambda i: -len(windows[i].tokens))
    batches: list[list[int]] = []
    for i in longest_first:
        longest = len(windows[batches[-1][0]].tokens) if batches else 0
        if batches and longest * (len(batches[-1]) + 1) <= most:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


@torch.inference_mode()
def _run_batch(
    reader: StateReader,
    windows: Sequence[TokenWindow],
    logprobs: Mapping[str, float],
    columns: Columns,
    rows: Sequence[slice],
) -> None:
    """Run one padded batch, and write its columns to the rows of each window."""
    longest = max(len(w.tokens) for w in windows) - 1
    ids = np.zeros((len(windows), longest), np.int64)
    for i, w in enumerate(windows):
        ids[i, : len(w.tokens) - 1] = w.tokens[:-1]
    states = reader.read(torch.from_numpy(ids).to(reader.device))
    scored = [(i, slice(w.already_scored, len(w.tokens) - 1)) for i, w in enumerate(windows)]
    for key in reader.keys:
        column = columns[key]
        stored = states.of(key).to(getattr(torch, column.dtype.name)).cpu().numpy()
        for each, row in zip(scored, rows, strict=True):
            column[row] = stored[each]
    if logprobs:
        ffn = torch.cat([states.ffn[each] for each in scored])
        targets = torch.from_numpy(np.concatenate([w.targets for w in windows]).astype(np.int64))
        logs = target_logprobs(
            reader.model, ffn, targets.to(reader.device), list(logprobs.values())
        )
        for name, values in zip(logprobs, logs.cpu().numpy(), strict=True):
            for row, some in zip(rows, np.split(values, _ends(rows)), strict=True):
                columns[name][row] = some


def _ends(rows: Sequence[slice]) -> NDArray[np.int64]:
    """Where the rows of each window but the last end in those of the batch."""
    return np.cumsum([row.stop - row.start for row in rows])[:-1]
