"""What a build will take, before it starts: documents, tokens, time and disk.

Documents and characters are counted; tokens follow from a sample of each document, the time from a
few windows that are run and timed.
"""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from knnlm.datastore.table import ColumnType
from knnlm.hidden_states import StateReader, TokenWindow, compute_entries, tokens_at_once
from knnlm.models import LanguageModel
from knnlm.progress import counted
from knnlm.text import Document, Source, Window, encode_documents

_SAMPLE_CHARACTERS, _OF_EACH = 1 << 19, 4000
_LONG_ENOUGH = 0.7  # seconds that a batch must take for its speed to be believed
_RUNS = 2


class BuildEstimate(NamedTuple):
    """What a build will take.

    Attributes:
        documents: How many documents there are, exactly.
        tokens: About how many tokens they have.
        seconds: About how long this machine needs.
        bytes: About how much disk the datastore takes.
    """

    documents: int
    tokens: int
    seconds: float
    bytes: int

    def __str__(self) -> str:
        return (
            f"{counted(self.documents, 'document')}, about {_rounded(self.tokens):,} tokens: about "
            f"{_duration(self.seconds)} and {self.bytes / 1e6:,.0f} MB of disk"
        )


class _Counted(NamedTuple):
    """The lengths of all documents, in characters, and the beginnings of some."""

    lengths: list[int]
    sample: list[Document]


def estimate_build(
    lm: LanguageModel,
    reader: StateReader,
    text: Source,
    columns: Mapping[str, ColumnType],
    *,
    window: int,
    stride: int,
    dtype: str,
    logprobs: Mapping[str, float],
) -> BuildEstimate | None:
    """What a build of a text will take; None if the text is empty.

    Args:
        lm: The model.
        reader: Reads its hidden states.
        text: The documents; they are read once for this.
        columns: What is stored of each entry.
        window: Tokens that the model reads at once.
        stride: Tokens from one window to the next.
        dtype: How states are stored.
        logprobs: Columns of log-probabilities that are stored too, each with its T.
    """
    counted = _count(text)
    encoded = list(encode_documents(lm.tokenizer, counted.sample))
    sampled = sum(len(document.text) for document in counted.sample)
    if not encoded or not sampled:
        return None
    ratio = sum(len(document.tokens) for document in encoded) / sampled
    lengths = [max(1, round(length * ratio)) for length in counted.lengths]
    stream = np.concatenate([document.tokens for document in encoded])
    speed = _tokens_per_second(reader, stream, window, dtype, logprobs)
    read = sum(_tokens_read(length, window, stride) for length in lengths)
    per_entry = sum(np.dtype(c.dtype).itemsize * max(1, c.width) for c in columns.values())
    tokens = sum(lengths)
    return BuildEstimate(len(lengths), tokens, read / speed, tokens * per_entry)


def _count(text: Source) -> _Counted:
    counted, sampled = _Counted([], []), 0
    for document in text:
        if document.continues:
            counted.lengths[-1] += len(document.text)
            continue
        counted.lengths.append(len(document.text))
        if sampled < _SAMPLE_CHARACTERS:
            beginning = document._replace(text=document.text[:_OF_EACH])
            counted.sample.append(beginning)
            sampled += len(beginning.text)
    return counted


def _tokens_read(length: int, window: int, stride: int) -> int:
    """Tokens that run through the model for a document of `length` tokens."""
    if length <= window:
        return length
    return window * (1 + math.ceil((length - window) / stride))


def _tokens_per_second(
    reader: StateReader, stream: np.ndarray, window: int, dtype: str, logprobs: Mapping[str, float]
) -> float:
    """How many tokens run through the model in a second.

    Batches grow until one takes long enough or is as large as those of a build: large ones are
    faster for each token, and a large model need not run one to be measured.
    """
    length = min(window, len(stream) - 1)
    most = max(1, tokens_at_once(reader) // length)
    tokens = np.resize(stream, most * (length + 1)).reshape(most, length + 1)
    batch = [TokenWindow(0, Window(0, length, 1), row.astype(np.int32)) for row in tokens]
    compute_entries(reader, batch[:1], dtype, logprobs)  # warms it up
    count = 1
    while True:
        seconds = min(_timed(reader, batch[:count], dtype, logprobs) for _ in range(_RUNS))
        if count == most or seconds >= _LONG_ENOUGH:
            return count * length / max(seconds, 1e-9)
        count = min(2 * count, most)


def _timed(
    reader: StateReader, batch: list[TokenWindow], dtype: str, logprobs: Mapping[str, float]
) -> float:
    began = time.perf_counter()
    compute_entries(reader, batch, dtype, logprobs)
    return time.perf_counter() - began


def _rounded(count: int) -> int:
    """Two digits that mean something."""
    digits = 10 ** max(0, len(str(count)) - 2)
    return round(count / digits) * digits


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return "a second" if seconds < 1.5 else f"{seconds:.0f} seconds"
