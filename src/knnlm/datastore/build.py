"""Text + model → store, in order, in bounded memory, resumable.

The stream of windows is cut into groups of about GROUP_TOKENS; a part ends where a group does. Both
depend on the text alone, so a resumed build runs the same groups and writes the same bytes. What
was committed is skipped, after its tokens and their places were compared with the text. Knows
nothing of search."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from knnlm.datastore.entries import DOCUMENTS, KIND, DocumentInfo, Entries, open_entries
from knnlm.datastore.table import ColumnType, Table, TableWriter, open_table
from knnlm.errors import KnnlmError, UsageError
from knnlm.files import write_lock
from knnlm.hidden_states import AttLocation, StateReader, checked_keys, default_keys
from knnlm.hidden_states.forward import Piece, window_columns, window_entries
from knnlm.models.load import LanguageModel
from knnlm.progress import ProgressBar, log
from knnlm.text.documents import Source
from knnlm.text.tokenizer import encode_documents
from knnlm.text.windows import check_window, cut_windows

GROUP_TOKENS = 1 << 14
PART_ROWS = 1 << 18
DTYPES = {"float16": "<f2", "float32": "<f4"}
LONGEST_DEFAULT_WINDOW = 1024


def build_entries(
    lm: LanguageModel,
    text: Source,
    out: Path,
    *,
    keys: Sequence[str] | None = None,
    att_module: str | None = None,
    window: int | None = None,
    stride: int | None = None,
    logprobs: bool = False,
    dtype: str = "float16",
    part_rows: int = PART_ROWS,
    instead: AttLocation | None = None,
) -> Entries:
    """Run `lm` over `text` and store what it saw in `out`; an interrupted build there is continued.

    `keys` are both where "att" is known for the model (or `att_module` names the module that reads
    it), else "ffn". `instead` is a state to read in the place of att, for experiments; the
    manifest's `taps` say which."""
    window, stride = resolve_window(lm, window, stride)
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype '{dtype}': choose one of {', '.join(DTYPES)}")
    if (out / "config.json").is_file():
        raise KnnlmError(f"{out} is a model folder: choose another --out for the store")
    if keys is None:
        keys, note = default_keys(lm.model, att_module)
        if note:
            log.warning(note)
    with StateReader(lm.model, checked_keys(keys), att_module, instead=instead) as reader:
        meta = {
            "model": lm.identity(),
            "text": text.describe(),
            "keys": list(reader.keys),
            "taps": reader.describe(),
            "att_module": att_module,
            "window": window,
            "stride": stride,
            "part_rows": part_rows,
        }
        columns = _columns(reader, DTYPES[dtype], logprobs)
        if TableWriter(out, KIND, columns, meta).manifest[
            "complete"
        ]:  # who only reads needs no lock
            return open_entries(out)
        with write_lock(out), TableWriter(out, KIND, columns, meta) as writer:
            if not writer.manifest["complete"]:
                _Build(lm, reader, writer, dtype, logprobs).run(text, window, stride, part_rows)
    return open_entries(out)


def resolve_window(lm: LanguageModel, window: int | None, stride: int | None) -> tuple[int, int]:
    """The window (default: what the model can read, at most 1024) and the stride (default: half of
    it)."""
    longest = lm.positions
    if window is None:
        window = min(longest or LONGEST_DEFAULT_WINDOW, LONGEST_DEFAULT_WINDOW)
    stride = max(1, window // 2) if stride is None else stride
    check_window(window, stride, longest)
    return window, stride


class _Build:
    """One run of a build: the stream of pieces, what is skipped, what is counted."""

    def __init__(
        self,
        lm: LanguageModel,
        reader: StateReader,
        writer: TableWriter,
        dtype: str,
        logprobs: bool,
    ) -> None:
        self.lm, self.reader, self.writer = lm, reader, writer
        self.dtype, self.logprobs = dtype, logprobs
        self.documents: list[DocumentInfo] = []  # begun since the last commit
        self.words = self.count = self.rows = 0

    def run(self, text: Source, window: int, stride: int, part_rows: int) -> None:
        committed = self.writer.rows
        before = open_table(self.writer.path, KIND, unfinished=True) if committed else None
        if committed:
            log.info(f"continuing after {committed:,} rows")
        with ProgressBar("build", None, "tokens", start=committed) as meter:
            for group in _groups(self._pieces(text, window, stride)):
                count = sum(p.window.scored for p in group)
                if self.rows < committed:
                    assert before is not None
                    self._skip(before, group)
                else:
                    self.writer.append(
                        window_entries(self.reader, group, self.dtype, self.logprobs)
                    )
                    meter.advance(count)
                self.rows += count
                if self.rows == committed:
                    self.documents.clear()
                elif self.writer.pending >= part_rows:
                    self._commit()
        self._finish(committed)

    def _pieces(self, text: Source, window: int, stride: int) -> Iterator[Piece]:
        limit = self.lm.vocab_size
        for number, encoded in enumerate(encode_documents(self.lm.tokenizer, text)):
            tokens = encoded.tokens
            if int(tokens.max()) >= limit:
                raise KnnlmError(
                    f"document {encoded.name} has token {int(tokens.max())} but the model predicts "
                    f"only {limit}: use "
                    "the tokenizer that the model was trained with"
                )
            self.count, self.words = number + 1, self.words + encoded.words
            self.documents.append(
                DocumentInfo(encoded.name, len(tokens), encoded.words, int(tokens[0]))
            )
            for w in cut_windows(len(tokens), window, stride):
                yield Piece(number, w, tokens[w.start : w.stop + 1])

    def _skip(self, before: Table, group: list[Piece]) -> None:
        for name, wanted in window_columns(group).items():
            if not np.array_equal(
                before.columns[name].read(self.rows, self.rows + len(wanted)), wanted
            ):
                raise KnnlmError(
                    f"the text differs from the one {self.writer.path} was begun with: choose "
                    "another --out"
                )

    def _commit(self) -> None:
        self.writer.commit({DOCUMENTS: json.dumps(self.documents).encode()})
        self.documents.clear()

    def _finish(self, committed: int) -> None:
        if self.rows == 0:
            raise KnnlmError("the text is empty: there is nothing to predict in it")
        if self.rows < committed:
            raise KnnlmError(
                f"the text is shorter than the one {self.writer.path} was begun with: choose "
                "another --out"
            )
        self._commit()
        self.writer.finish(
            {
                "words": self.words,
                "documents": self.count,
                "model_source": self.lm.source,
                "adapter": self.lm.adapter,
            }
        )


def _columns(reader: StateReader, dtype: str, logprobs: bool) -> dict[str, ColumnType]:
    columns = {key: ColumnType(dtype, width) for key, width in reader.widths().items()}
    if logprobs:
        columns["lm_logprob"] = ColumnType("<f4", 0)
    return columns | {name: ColumnType("<i4", 0) for name in ("target", "document", "position")}


def _groups(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        group.append(piece)
        size += len(piece.tokens)
        if size >= GROUP_TOKENS:
            yield group
            group, size = [], 0
    if group:
        yield group
