"""Text + model → entries on disk: in order, in bounded memory, resumable.

The stream of windows is cut into groups of about GROUP_TOKENS, and a part ends where a group does.
Both depend on the text alone, so a resumed build runs the same groups and writes the same bytes. It
skips what was committed, and what a checkpoint kept, after comparing tokens and positions with the
text. A checkpoint is made every CHECKPOINT_SECONDS and when a build is interrupted.

While the model runs a group, the text of later ones is tokenized and the entries of the one before
are written."""

import contextlib
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from knnlm.datastore.entries import ENTRIES_KIND, Entries, open_entries
from knnlm.datastore.estimate import estimate_build
from knnlm.datastore.part_files import DOCUMENTS, METADATA, DocumentInfo
from knnlm.datastore.revisions import note_for_checkpoint, pinned
from knnlm.datastore.table import CHECKPOINT, MANIFEST, ColumnType, Table, open_table
from knnlm.datastore.table_writer import OtherTable, TableWriter
from knnlm.datastore.window_groups import WindowGroup, WindowGroups
from knnlm.errors import KnnlmError
from knnlm.files import canonical
from knnlm.hidden_states import (
    AttLocation,
    BegunEntries,
    StateReader,
    TokenWindow,
    begin_entries,
    checked_keys,
    default_keys,
    token_columns,
)
from knnlm.locks import LOCK, write_lock
from knnlm.models import LanguageModel
from knnlm.progress import ProgressBar, log
from knnlm.ranges import DTYPES, check_dtype, check_path
from knnlm.text import HubSplit, Source, check_window

GROUP_TOKENS = 1 << 14
GROUPS_BEGUN = 2
"""Groups that cores have before them while one is written: a commit takes longer than a small model
needs for one group."""
PART_ROWS = 1 << 18
CHECKPOINT_SECONDS = 20.0
LONGEST_DEFAULT_WINDOW = 1024


def build_entries(
    lm: LanguageModel,
    text: Source,
    out: Path,
    *,
    keys: str | Sequence[str] | None = None,
    att_module: str | None = None,
    window: int | None = None,
    stride: int | None = None,
    logprobs: bool = False,
    softmax_temperature: float | None = None,
    dtype: str = "float16",
    part_rows: int = PART_ROWS,
    replace_att: AttLocation | None = None,
    text_name: Mapping[str, Any] | None = None,
    estimate: bool = False,
    added_to: Entries | None = None,
) -> Entries:
    """Run a model over a text and store one entry for each token that it predicts.

    An interrupted build in `out` resumes; a finished one with the same settings is opened.

    Args:
        lm: The model.
        text: The documents.
        out: Folder for the entries.
        keys: Which hidden states to store; by default "att" and "ffn", or "ffn" alone where att is
            not known for the model.
        att_module: Path of the module whose input is att, for a model that is not known.
        window: Tokens that the model reads at once; by default all it can, at most 1024.
        stride: Tokens from one window to the next; by default half of `window`.
        logprobs: Whether to store log p_LM of every target too.
        softmax_temperature: A T at which log p_LM is stored as well, for the calibrated LM.
        dtype: How states are stored: "float16" or "float32".
        part_rows: Entries after which a part is committed.
        replace_att: A state to store instead of att, for experiments.
        text_name: How the text was named, as JSON, for whoever wants its other splits.
        estimate: Whether to say first what the build will take.
        added_to: A datastore whose documents are numbered before these.

    Returns:
        The entries, open for reading.

    Raises:
        KnnlmError: The text is empty, the model cannot be read, the folder holds something else,
            or the text changed since the build was interrupted.
        UsageError: A setting is unknown or impossible.

    Example:
        >>> lm = load_model("gpt2")
        >>> entries = build_entries(lm, Files((Path("notes.txt"),)), Path("store"))
    """
    out = out.absolute()
    text = pinned(text, out)
    window, stride = resolve_window(lm, window, stride)
    columns = {"lm_logprob": 1.0} if logprobs else {}
    if softmax_temperature is not None:
        columns["tempered_logprob"] = softmax_temperature
    options = _Options(
        att_module, window, stride, columns, dtype, part_rows, text_name, estimate, added_to
    )
    _check_request(out, dtype)
    keys = _default_keys(lm, att_module) if keys is None else checked_keys(keys)
    with StateReader(lm.model, keys, att_module, replace_att=replace_att) as reader:
        _build(lm, reader, text, out, options)
    return open_entries(out)


def resolve_window(lm: LanguageModel, window: int | None, stride: int | None) -> tuple[int, int]:
    """Fill in the defaults of window and stride, and check them.

    Args:
        lm: The model.
        window: Tokens that the model reads at once; None means all it can, at most 1024.
        stride: Tokens from one window to the next; None means half of the window.

    Raises:
        UsageError: They are impossible, or longer than the model can read.
    """
    longest = lm.positions
    if window is None:
        window = min(longest or LONGEST_DEFAULT_WINDOW, LONGEST_DEFAULT_WINDOW)
    stride = max(1, window // 2) if stride is None else stride
    check_window(window, stride, longest)
    return window, stride


class ChangedText(KnnlmError):
    """A text is no longer what it was when the build began."""

    def __init__(self, change: str) -> None:
        self.change = change
        super().__init__(f"{change}: wait until nobody writes to it, then build in another `path`")


class _Options(NamedTuple):
    """What was asked for, with every default filled in."""

    att_module: str | None
    window: int
    stride: int
    logprobs: Mapping[str, float]
    dtype: str
    part_rows: int
    text_name: Mapping[str, Any] | None
    estimate: bool
    added_to: Entries | None

    @property
    def first_document(self) -> int:
        """The number of the first document."""
        if self.added_to is None:
            return 0
        return int(self.added_to.table.manifest["summary"]["documents"])


def _check_request(out: Path, dtype: str) -> None:
    check_path(out)
    check_dtype(dtype)
    if (out / "config.json").is_file():
        raise KnnlmError(f"{out} is a model folder: choose another `path` for the datastore")
    ours = {MANIFEST, CHECKPOINT, LOCK, "parts"}
    if out.is_dir() and not ours & {file.name for file in out.iterdir()} and any(out.iterdir()):
        raise KnnlmError(f"{out} holds other files: choose an empty or a new folder with `path`")


def _default_keys(lm: LanguageModel, att_module: str | None) -> tuple[str, ...]:
    keys, note = default_keys(lm.model, att_module)
    if note:
        log.warning(note)
    return keys


def _build(
    lm: LanguageModel, reader: StateReader, text: Source, out: Path, options: _Options
) -> None:
    """Write the table in `out`, unless it is complete."""
    meta: dict[str, Any] = {
        "model": lm.identity(),
        "text": text.describe(),
        "keys": list(reader.keys),
        "taps": reader.describe(),
        "att_module": options.att_module,
        "window": options.window,
        "stride": options.stride,
        "part_rows": options.part_rows,
    }
    if "tempered_logprob" in options.logprobs:
        meta["softmax_temperature"] = options.logprobs["tempered_logprob"]
    if options.added_to is not None:
        rows = options.added_to.table.rows
        meta["added_to"] = {
            "rows": options.added_to.rows_fingerprint(rows),
            "documents": options.first_document,
        }
    columns = _columns(reader, options)
    try:
        if TableWriter(out, ENTRIES_KIND, columns, meta).manifest["complete"]:
            return  # without the lock: reading needs none
    except OtherTable as error:
        advice = "choose another `path`, or delete that one and build again"
        if "text" in error.difference.split():
            advice = f"{advice}; `Datastore.add` adds documents to a datastore"
        raise OtherTable(error.path, error.difference, advice) from error
    with write_lock(out), TableWriter(out, ENTRIES_KIND, columns, meta) as writer:
        writer.note = note_for_checkpoint(text)
        # another process may have finished it before we held the lock
        if not writer.manifest["complete"]:
            if options.estimate and not writer.rows + writer.pending:
                _say_estimate(lm, reader, text, columns, options)
            _Build(lm, reader, writer, options).run(text)


def _say_estimate(
    lm: LanguageModel,
    reader: StateReader,
    text: Source,
    columns: Mapping[str, ColumnType],
    options: _Options,
) -> None:
    if isinstance(text, HubSplit):
        log.info("how much text there is will be known when it has been read: it is streamed")
        return
    estimated = estimate_build(
        lm,
        reader,
        text,
        columns,
        window=options.window,
        stride=options.stride,
        dtype=options.dtype,
        logprobs=options.logprobs,
    )
    if estimated is not None:
        log.info(f"{estimated}")


class _Build:
    """One run of a build: skips the entries that are committed, computes and writes the others."""

    def __init__(
        self, lm: LanguageModel, reader: StateReader, writer: TableWriter, options: _Options
    ) -> None:
        self.lm, self.reader, self.writer, self.options = lm, reader, writer, options
        self.begun_documents: list[DocumentInfo] = []  # since the last commit
        self.metadata: list[dict[str, Any]] = []  # of the same documents
        self.entries = 0  # written or compared so far
        self.windows = WindowGroups(lm, options.window, options.stride, options.first_document)
        self.checkpointed = time.monotonic()
        self.running: deque[tuple[WindowGroup, BegunEntries]] = deque()  # not written yet

    def run(self, text: Source) -> None:
        try:
            kept = self.writer.rows + self.writer.pending
            if kept:
                log.info(f"resuming after {kept:,} entries")
            self._read_text(text, kept)
            _refuse_changes(text, self.writer.manifest["meta"]["text"])
            self._finish(kept)
        except BaseException:
            # Ctrl-C too: what was computed stays, and the next run resumes after it
            for _, begun in self.running:
                begun.cancel()
            with contextlib.suppress(OSError, KnnlmError):  # the first error is the one to tell
                self.writer.checkpoint()
            raise

    def _read_text(self, text: Source, kept: int) -> None:
        """Compare the first `kept` entries with the text, compute and write the others."""
        options, committed = self.options, self.writer.rows
        stored = open_table(self.writer.path, ENTRIES_KIND, unfinished=True) if committed else None
        with ProgressBar(
            "read" if options.logprobs else "build", None, "tokens", start=kept
        ) as meter:

            def write(group: WindowGroup, begun: BegunEntries) -> None:
                self.writer.append(begun())
                meter.advance(group.entries)
                self._pass(group)
                if self.writer.pending >= options.part_rows:
                    self._commit()
                self._checkpoint_if_due()

            read = self.entries  # entries of the groups so far
            for group in self.windows.groups(text, GROUP_TOKENS):
                if read < kept:
                    self._compare(stored if read < committed else None, committed, group.windows)
                    self._pass(group)
                    if self.entries == committed:
                        self.begun_documents.clear()
                        self.metadata.clear()
                    elif self.entries >= kept and self.writer.pending >= options.part_rows:
                        self._commit()
                    self._checkpoint_if_due()
                else:
                    begun = begin_entries(
                        self.reader, group.windows, options.dtype, options.logprobs
                    )
                    self.running.append((group, begun))
                    if len(self.running) > GROUPS_BEGUN:
                        write(*self.running.popleft())
                read += group.entries
            while self.running:
                write(*self.running.popleft())

    def _pass(self, group: WindowGroup) -> None:
        """Count a group whose entries are in the table."""
        self.entries += group.entries
        self.begun_documents += group.documents
        self.metadata += group.metadata

    def _checkpoint_if_due(self) -> None:
        if time.monotonic() - self.checkpointed > CHECKPOINT_SECONDS:
            self.writer.checkpoint()
            self.checkpointed = time.monotonic()

    def _compare(self, stored: Table | None, committed: int, group: list[TokenWindow]) -> None:
        """Refuse a text that differs from the one whose entries are kept.

        Committed entries are read from the table, later ones from the writer's open part.
        """
        for name, values in token_columns(group).items():
            start, stop = self.entries, self.entries + len(values)
            if stored is not None:
                kept = stored.columns[name].read(start, stop)
            else:
                kept = self.writer.pending_rows(name, start - committed, stop - committed)
            if not np.array_equal(kept, values):
                raise KnnlmError(
                    f"the text differs from the one {self.writer.path} was begun with: choose "
                    "another `path`"
                )

    def _commit(self) -> None:
        files = {DOCUMENTS: json.dumps(self.begun_documents).encode()}
        if any(self.metadata):
            files[METADATA] = json.dumps(self.metadata).encode()
        self.writer.commit(files)
        self.begun_documents.clear()
        self.metadata.clear()

    def _finish(self, kept: int) -> None:
        if self.entries == 0:
            raise KnnlmError("the text is empty: there is nothing to predict in it")
        if self.entries < kept:
            raise KnnlmError(
                f"the text is shorter than the one {self.writer.path} was begun with: choose "
                "another `path`"
            )
        if copies := self.windows.documents - len(self.windows.contents):
            log.warning(
                f"note: {copies:,} of {self.windows.documents:,} documents are copies of others"
            )
        self._commit()
        self.writer.finish(
            {
                "words": self.windows.words,
                "documents": self.windows.documents,
                "model_source": self.lm.source,
                "model_revision": getattr(self.lm.model.config, "_commit_hash", None),
                "adapter": self.lm.adapter,
                **({} if self.options.text_name is None else {"text": self.options.text_name}),
            }
        )


def _refuse_changes(text: Source, began_as: Mapping[str, Any]) -> None:
    """Refuse a text that is no longer what it was when the build began, and so what a manifest
    would say it is."""
    now = text.describe()
    if canonical(now) == canonical(began_as):
        return
    before, after = ({f["name"]: f for f in d.get("files", [])} for d in (began_as, now))
    changed = sorted(n for n in {*before, *after} if before.get(n) != after.get(n))
    named = changed[0] if len(changed) == 1 else f"{len(changed)} files" if changed else "the text"
    raise ChangedText(f"{named} changed while the text was read")


def _columns(reader: StateReader, options: _Options) -> dict[str, ColumnType]:
    dtype = DTYPES[options.dtype]
    columns = {key: ColumnType(dtype, width) for key, width in reader.widths().items()}
    columns |= {name: ColumnType("<f4", 0) for name in options.logprobs}
    return columns | {name: ColumnType("<i4", 0) for name in ("target", "document", "position")}
