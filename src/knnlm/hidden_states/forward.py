"""Windows of tokens → rows of states: the model's pass over a group of windows.

Windows of a group run sorted by length, so that little is padded, and come out in their own order.
Padding is on the right, where a causal model cannot see it. Knows nothing of files."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm.errors import KnnlmError
from knnlm.hidden_states import StateReader
from knnlm.text.windows import Window

BATCH_TOKENS = 4096
_HEAD_ROWS = 1024


class Piece(NamedTuple):
    """A window of a document with its tokens: inputs and, one further, targets."""

    document: int
    window: Window
    tokens: NDArray[np.int32]

    @property
    def skipped(self) -> int:
        """Leading targets that an earlier window scored."""
        return self.window.first - self.window.start - 1


def window_entries(
    reader: StateReader, pieces: Sequence[Piece], dtype: str, logprobs: bool
) -> dict[str, NDArray[Any]]:
    """The rows of these windows, in order, with every column of the store; states in `dtype`, a
    name of torch's."""
    starts = np.cumsum([0] + [p.window.scored for p in pieces])
    columns: dict[str, NDArray[Any]] = {}
    for batch in _batches(pieces):
        places = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in batch])
        for name, values in _run(reader, [pieces[i] for i in batch], dtype, logprobs).items():
            if name not in columns:
                columns[name] = np.empty(
                    (starts[-1], *values.shape[1:]), values.dtype.newbyteorder("<")
                )
            columns[name][places] = values
    for name, values in columns.items():
        if not np.isfinite(values).all():
            raise KnnlmError(
                f"some {name} values do not fit {values.dtype}: {_remedy(values.dtype)}"
            )
    return {**columns, **window_columns(pieces)}


def _remedy(dtype: np.dtype[Any]) -> str:
    return (
        "build with --dtype float32" if dtype == np.float16 else "the model is broken, use another"
    )


def window_columns(pieces: Sequence[Piece]) -> dict[str, NDArray[np.int32]]:
    """What is known of the rows without running the model."""
    return {
        "target": np.concatenate([p.tokens[p.skipped + 1 :] for p in pieces]),
        "document": np.repeat(
            np.array([p.document for p in pieces], np.int32), [p.window.scored for p in pieces]
        ),
        "position": np.concatenate(
            [np.arange(p.window.first, p.window.stop + 1, dtype=np.int32) for p in pieces]
        ),
    }


def _batches(pieces: Sequence[Piece]) -> list[list[int]]:
    """Indices of pieces that run together: similar lengths, at most BATCH_TOKENS with padding."""
    order = sorted(range(len(pieces)), key=lambda i: -len(pieces[i].tokens))
    found: list[list[int]] = []
    for i in order:
        longest = len(pieces[found[-1][0]].tokens) if found else 0
        if found and longest * (len(found[-1]) + 1) <= BATCH_TOKENS:
            found[-1].append(i)
        else:
            found.append([i])
    return found


@torch.inference_mode()
def _run(
    reader: StateReader, pieces: Sequence[Piece], dtype: str, logprobs: bool
) -> dict[str, NDArray[Any]]:
    """The scored rows of a padded batch, one piece after the other."""
    longest = max(len(p.tokens) for p in pieces) - 1
    ids = np.zeros((len(pieces), longest), np.int64)
    scored = np.zeros((len(pieces), longest), bool)
    for i, p in enumerate(pieces):
        ids[i, : len(p.tokens) - 1] = p.tokens[:-1]
        scored[i, p.skipped : len(p.tokens) - 1] = True
    states = reader.read(torch.from_numpy(ids).to(reader.device))
    mask = torch.from_numpy(scored).to(reader.device)
    kind = getattr(torch, dtype)
    found: dict[str, NDArray[Any]] = {
        key: states.of(key)[mask].to(kind).cpu().numpy() for key in reader.keys
    }
    if logprobs:
        targets = np.concatenate([p.tokens[p.skipped + 1 :] for p in pieces]).astype(np.int64)
        found["lm_logprob"] = lm_logprobs(
            reader, states.ffn[mask], torch.from_numpy(targets).to(reader.device)
        )
    return found


def lm_logprobs(
    reader: StateReader, ffn: torch.Tensor, targets: torch.Tensor
) -> NDArray[np.float32]:
    """log p_LM of the targets, a block of rows at a time so that the logits stay small."""
    parts = []
    for states, wanted in zip(ffn.split(_HEAD_ROWS), targets.split(_HEAD_ROWS), strict=True):
        logits = reader.logits(states).float()
        parts.append(logits.gather(1, wanted[:, None])[:, 0] - logits.logsumexp(1))
    found: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
    return found
