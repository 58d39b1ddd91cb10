"""Windows of tokens → entries: the model's pass over a group of windows.

The windows of a group run sorted by length, so that little is padded, and come out in the order
they were given. Padding is on the right, where a causal model cannot see it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.hidden_states.output_head import target_logprobs
from knnlm.hidden_states.reader import StateReader
from knnlm.text import Window

BATCH_TOKENS = 4096


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
) -> dict[str, NDArray[Any]]:
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
    starts = np.cumsum([0] + [w.window.scored for w in windows])
    columns: dict[str, NDArray[Any]] = {}
    for batch in _batches(windows):
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in batch])
        outputs = _compute_batch(reader, [windows[i] for i in batch], dtype, logprobs)
        for name, values in outputs.items():
            if name not in columns:
                columns[name] = np.empty(
                    (starts[-1], *values.shape[1:]), values.dtype.newbyteorder("<")
                )
            columns[name][rows] = values
    for name, values in columns.items():
        if not np.isfinite(values).all():
            raise KnnlmError(
                f"some {name} values do not fit {values.dtype}: {_remedy(values.dtype)}"
            )
    return {**columns, **token_columns(windows)}


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


def _batches(windows: Sequence[TokenWindow]) -> list[list[int]]:
    """Indices of windows that run together: of similar length, at most BATCH_TOKENS with
    padding."""
    longest_first = sorted(range(len(windows)), key=lambda i: -len(windows[i].tokens))
    batches: list[list[int]] = []
    for i in longest_first:
        longest = len(windows[batches[-1][0]].tokens) if batches else 0
        if batches and longest * (len(batches[-1]) + 1) <= BATCH_TOKENS:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


@torch.inference_mode()
def _compute_batch(
    reader: StateReader,
    windows: Sequence[TokenWindow],
    dtype: str,
    logprobs: Mapping[str, float],
) -> dict[str, NDArray[Any]]:
    """The model's columns for one padded batch, window after window."""
    longest = max(len(w.tokens) for w in windows) - 1
    ids = np.zeros((len(windows), longest), np.int64)
    is_scored = np.zeros((len(windows), longest), bool)
    for i, w in enumerate(windows):
        ids[i, : len(w.tokens) - 1] = w.tokens[:-1]
        is_scored[i, w.already_scored : len(w.tokens) - 1] = True
    states = reader.read(torch.from_numpy(ids).to(reader.device))
    scored = torch.from_numpy(is_scored).to(reader.device)
    torch_dtype = getattr(torch, dtype)
    columns: dict[str, NDArray[Any]] = {
        key: states.of(key)[scored].to(torch_dtype).cpu().numpy() for key in reader.keys
    }
    if logprobs:
        targets = torch.from_numpy(np.concatenate([w.targets for w in windows]).astype(np.int64))
        logs = target_logprobs(
            reader.model,
            states.ffn[scored],
            targets.to(reader.device),
            list(logprobs.values()),
        )
        columns |= dict(zip(logprobs, logs.cpu().numpy(), strict=True))
    return columns
