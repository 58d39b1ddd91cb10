"""Datastores that change: documents are added, forgotten, and removed from disk.

    add       STORE/added/      what the model reads in the new documents, resumable like a build;
                                then its parts become the datastore's in one step
    forget                      the manifest names the documents that are gone: whoever opens the
                                datastore from then on does not see them (survivors.py)
    compact   STORE/compacted/  the entries that are left, written again; then they are the
                                datastore, and the old parts are deleted

Each is one replacement of the manifest. Rows keep their numbers until `compact`, so an index only
lacks the rows that were added after it was built.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knnlm.datastore.build import PART_ROWS, build_entries
from knnlm.datastore.entries import ENTRIES_KIND, Entries, open_entries
from knnlm.datastore.part_files import DOCUMENTS, METADATA
from knnlm.datastore.publishing import ADDED, COMPACTED, publish, remove_unnamed_parts
from knnlm.datastore.revisions import pinned
from knnlm.datastore.survivors import ForgottenDocument
from knnlm.datastore.table import MANIFEST, open_table, read_manifest
from knnlm.datastore.table_writer import OtherTable, TableWriter
from knnlm.disk import refuse_links, remove_folder
from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.files import canonical
from knnlm.locks import write_lock
from knnlm.models import LanguageModel
from knnlm.progress import ProgressBar, log
from knnlm.text import Source

_BLOCK = 1 << 14
_NAMES_LISTED = 10
_PATIENCE = 10.0
"""Seconds to wait for another writer, which may keep settings or a component."""


def add_documents(
    lm: LanguageModel, store: Entries, text: Source, *, estimate: bool = False
) -> Entries:
    """Run the model over further documents and append their entries; resumes like a build.

    Args:
        lm: The model that the datastore was built with.
        store: The datastore.
        text: The documents.
        estimate: Whether to say first what it will take.

    Returns:
        The datastore as it is now.

    Raises:
        KnnlmError: The model is another one, the text is empty, or another process writes.
    """
    store.require_model(lm)
    folder = store.path / ADDED
    refuse_links(folder, below=store.path)
    text = pinned(text, folder)
    now = open_entries(store.path)
    if _was_added(now, folder):  # and its writer was killed just after that
        described = open_entries(folder).meta["text"]
        remove_folder(folder, below=store.path)
        if canonical(described) == canonical(text.describe()):
            log.info(f"this text was added to {store.path} already")
            return now
    _note_known_names(now, text)
    # others may tune meanwhile, so the datastore is locked only afterwards
    staged = _read_added(lm, now, text, folder, estimate)
    with write_lock(store.path, patience=_PATIENCE):
        now = open_entries(store.path)
        if staged.meta["added_to"]["rows"] != now.rows_fingerprint(now.table.rows):
            raise KnnlmError(
                f"{store.path} was changed while documents were read for it: run the same command "
                "again"
            )
        added = {"text": staged.meta["text"], **_sizes(staged.table.manifest["summary"])}
        summary = dict(now.table.manifest["summary"])
        summary |= {name: summary[name] + added[name] for name in ("words", "documents")}
        summary["added"] = [*summary.get("added", ()), added]
        publish(now.table, staged.table, summary=summary)
        remove_folder(folder, below=store.path)
    return open_entries(store.path)


def _was_added(store: Entries, folder: Path) -> bool:
    """Whether the entries in a folder are the last ones of the datastore already."""
    if not (folder / MANIFEST).is_file():
        return False
    manifest = read_manifest(folder, ENTRIES_KIND)
    added = [part["files"] for part in manifest["parts"]]
    last = [part["files"] for part in store.table.manifest["parts"][-len(added) :]]
    return bool(manifest["complete"]) and added == last


def _read_added(
    lm: LanguageModel, store: Entries, text: Source, folder: Path, estimate: bool
) -> Entries:
    """The entries of further documents, in a folder of their own."""
    meta = store.meta
    options: dict[str, Any] = {
        "keys": store.keys,
        "att_module": meta["att_module"],
        "window": meta["window"],
        "stride": meta["stride"],
        "logprobs": "lm_logprob" in store.columns,
        "softmax_temperature": meta.get("softmax_temperature"),
        "dtype": store.dtype,
        "part_rows": meta["part_rows"],
        "added_to": store,
    }
    try:
        return build_entries(lm, text, folder, **options, estimate=estimate)
    except OtherTable:
        log.warning("note: an earlier addition was begun and not finished; it is replaced")
        remove_folder(folder, below=store.path)
        return build_entries(lm, text, folder, **options, estimate=estimate)


def _note_known_names(store: Entries, text: Source) -> None:
    """Say that names are there already: whoever forgets one forgets all that have it."""
    named = {file["name"] for file in text.describe().get("files", ())}
    known = sorted(named & {document.name for document in store.documents})
    if known:
        more = f" and {len(known) - 1} more" if len(known) > 1 else ""
        log.warning(
            f"note: the datastore has documents named {known[0]}{more} already; both are kept "
            "until `Datastore.forget` forgets that name"
        )


def _sizes(summary: Mapping[str, Any]) -> dict[str, int]:
    return {name: int(summary[name]) for name in ("words", "documents")}


def forget_documents(store: Entries, names: Sequence[str]) -> Entries:
    """Make documents unretrievable, at once and for good; their bytes stay until `compact`.

    Args:
        store: The datastore.
        names: Names of documents; all that have one of them are forgotten.

    Returns:
        The datastore as it is now.

    Raises:
        UsageError: There is no document of a name.
        KnnlmError: None would be left, or another process writes.
    """
    with write_lock(store.path, patience=_PATIENCE):
        now = open_entries(store.path)
        gone = _documents_named(now, names)
        if now.count == sum(each.stop - each.start for each in gone):
            raise KnnlmError(
                f"{store.path} would have no entry left: delete the folder, or keep a document"
            )
        summary = dict(now.table.manifest["summary"])
        summary["forgotten"] = [*summary.get("forgotten", ()), *map(list, gone)]
        summary["forgets"] = summary.get("forgets", 0) + 1
        publish(now.table, None, summary=summary)
    return open_entries(store.path)


def _documents_named(store: Entries, names: Sequence[str]) -> list[ForgottenDocument]:
    """Those that have one of these names, and are there."""
    left = {document.name for document in store.documents}
    for name in names:
        if name not in left:
            listed = "" if len(left) <= _NAMES_LISTED else f"there are {len(left):,} documents"
            raise unknown("document", name, left, listed)
    if not names:
        raise UsageError("no document is named: give the `documents` to forget")
    before, wanted = {gone.document for gone in store.forgotten}, set(names)
    found, start = [], 0
    for number, document in enumerate(store.all_documents):
        stop = start + max(document.tokens - 1, 0)
        if document.name in wanted and number not in before:
            found.append(ForgottenDocument(number, start, stop, document.words))
        start = stop
    return found


def compact_entries(store: Entries) -> Entries:
    """Write the entries that are left again and delete the others from disk.

    Args:
        store: The datastore.

    Returns:
        The datastore as it is now: the same entries, in the same order.

    Raises:
        KnnlmError: An addition was begun and not finished, or another process writes.
    """
    folder = store.path / COMPACTED
    refuse_links(folder, below=store.path)
    with write_lock(store.path, patience=_PATIENCE):
        now = open_entries(store.path)
        if (store.path / ADDED).is_dir():
            raise KnnlmError(
                f"an addition to {store.path} was begun and not finished: run it again, or delete "
                f"{store.path / ADDED}"
            )
        if now.forgotten:
            now.verify()  # what is written again must be what was written
            _write_left(now, folder)
            summary = dict(now.table.manifest["summary"])
            summary |= {"documents": now.document_count, "words": now.words}
            del summary["forgotten"]
            described = _without_names(now, {"meta": now.meta, "summary": summary})
            publish(now.table, open_table(folder, ENTRIES_KIND), parts=[], **described)
        remove_unnamed_parts(open_entries(store.path).table)
        remove_folder(folder, below=store.path)
    return open_entries(store.path)


def _without_names(store: Entries, described: dict[str, Any]) -> dict[str, Any]:
    """What a manifest says of texts, without the files that were forgotten."""
    left = {document.name for document in store.documents}
    gone = {store.all_documents[each.document].name for each in store.forgotten} - left

    def text(value: Mapping[str, Any]) -> dict[str, Any]:
        if "files" not in value:
            return dict(value)
        return {**value, "files": [file for file in value["files"] if file["name"] not in gone]}

    meta, summary = dict(described["meta"]), dict(described["summary"])
    meta["text"] = text(meta["text"])
    if "added" in summary:
        summary["added"] = [{**each, "text": text(each["text"])} for each in summary["added"]]
    return {"meta": meta, "summary": summary}


def _write_left(store: Entries, folder: Path) -> None:
    """The entries of a datastore as a table of its own, without what was forgotten; an interrupted
    copy is continued."""
    columns = {name: column.type for name, column in store.columns.items()}
    meta = {"of": store.fingerprint}
    numbers = store.document_numbers
    try:
        writer = TableWriter(folder, ENTRIES_KIND, columns, meta)
    except OtherTable:  # of another version
        remove_folder(folder, below=store.path)
        writer = TableWriter(folder, ENTRIES_KIND, columns, meta)
    with writer, ProgressBar("compact", store.count, "entries", start=writer.rows) as bar:
        documents = _DocumentFiles(store)
        documents.skip(writer.rows)
        for start in range(writer.rows, store.count, _BLOCK):
            stop = min(start + _BLOCK, store.count)
            block = {name: column.read(start, stop) for name, column in store.columns.items()}
            block["document"] = numbers[start:stop]
            writer.append(block)
            bar.advance(stop - start)
            if writer.pending >= PART_ROWS or stop == store.count:
                writer.commit(documents.until(stop, last=stop == store.count))
        writer.finish({})


class _DocumentFiles:
    """The files of a part that describe its documents: those that begin in it."""

    def __init__(self, store: Entries) -> None:
        self.documents, self.metadata = store.documents, store.metadata
        lengths = [max(document.tokens - 1, 0) for document in self.documents]
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
        self.written = 0

    def skip(self, rows: int) -> None:
        """Leave out what begins before this row: it was committed."""
        while self.written < len(self.documents) and self.starts[self.written] < rows:
            self.written += 1

    def until(self, row: int, *, last: bool) -> dict[str, bytes]:
        """The documents that begin before this row; with the last part, all that are left."""
        first = self.written
        self.skip(row)
        if last:
            self.written = len(self.documents)
        files = {DOCUMENTS: json.dumps(self.documents[first : self.written]).encode()}
        metadata = self.metadata[first : self.written]
        if any(metadata):
            files[METADATA] = json.dumps(metadata).encode()
        return files
