"""The entries of one text under one model, open for reading. A datastore and the queries of an
evaluation text are both `Entries`.

| column       | type             | meaning                                           |
|--------------|------------------|---------------------------------------------------|
| `att`, `ffn` | fp16 or fp32, D  | the hidden state that predicted the token         |
| `target`     | int32            | the token                                         |
| `document`   | int32            | number of its document, from 0                    |
| `position`   | int32            | its position in the document; the first token has |
|              |                  | position 0 and is never a target                  |
| `lm_logprob` | fp32             | log p_LM(target), where it was asked for          |
| `tempered_logprob` | fp32       | the same at the softmax temperature of the        |
|              |                  | manifest, for the calibrated LM                   |
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.manifest import check_entries_manifest
from knnlm.datastore.part_files import METADATA, DocumentInfo, read_documents, read_metadata
from knnlm.datastore.survivors import ForgottenDocument, Survivors
from knnlm.datastore.table import MANIFEST, Column, Table, open_table, verify_table
from knnlm.errors import DamagedError, KnnlmError, unknown
from knnlm.files import fingerprint
from knnlm.hidden_states import KEYS

if TYPE_CHECKING:  # opening entries imports no model library
    from knnlm.models import LanguageModel

ENTRIES_KIND = "states"  # what a manifest calls a table of entries
_RESUME = "run the same `Datastore.build` again to resume it"


class Entries:
    """The entries of a text under a model: hidden states and the tokens they predicted.

    Cheap to open: columns are memory-mapped, and each is compared with its checksums when it is
    first used.

    Attributes:
        path: Its folder.
        forgotten: The documents that were forgotten; nothing else here knows of them.
        survivors: The rows of the table that are left.
        columns: The columns of the entries, memory-mapped.
        count: How many entries there are.
        words: How many words their targets spell, for perplexity per word.
        meta: How it was built: model, text, keys, window and stride.
        table: The table on disk, with forgotten rows.

    Example:
        >>> entries = open_entries("store")
        >>> entries.states(["att"]).shape, entries.targets.shape
        ((51200, 1024), (51200,))
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.path: Path = table.path
        self.meta: dict[str, Any] = table.manifest["meta"]
        summary = table.manifest["summary"]
        self.forgotten = [ForgottenDocument(*gone) for gone in summary.get("forgotten", ())]
        self.survivors = Survivors.without(
            table.rows, [(gone.start, gone.stop) for gone in self.forgotten]
        )
        self.columns = {
            name: self.survivors.column(column) if self.forgotten else column
            for name, column in table.columns.items()
        }
        self.count = self.survivors.entry_count
        self.words = int(summary["words"]) - sum(gone.words for gone in self.forgotten)

    @cached_property
    def fingerprint(self) -> str:
        """128 bits that depend on every byte of the columns and on what was forgotten; caches are
        named after it."""
        rows = self.rows_fingerprint(self.table.rows)
        assert rows is not None
        if not self.forgotten:
            return rows
        return fingerprint({"rows": rows, "forgotten": [gone.document for gone in self.forgotten]})

    def rows_fingerprint(self, rows: int) -> str | None:
        """128 bits that depend on every byte of the first rows of the table, whatever was
        forgotten.

        Metadata is left out: a file that was only copied has another date.

        Args:
            rows: How many rows.

        Returns:
            The fingerprint; None where these rows are not whole parts.
        """
        manifest, parts, counted = self.table.manifest, [], 0
        for part in manifest["parts"]:
            if counted == rows:
                break
            files = {n: f for n, f in part["files"].items() if n != METADATA}
            parts.append({**part, "files": files})
            counted += int(part["rows"])
        if counted != rows:
            return None
        return fingerprint({"columns": manifest["columns"], "parts": parts, "rows": rows})

    @cached_property
    def targets(self) -> NDArray[np.int32]:
        """The target of every entry, in memory: four bytes each.

        Raises:
            DamagedError: They are not what was written, or not tokens of the model.
        """
        targets: NDArray[np.int32] = self.columns["target"].all()
        outside = targets[(targets < 0) | (targets >= self.vocab_size)]
        if len(outside):
            raise DamagedError(
                f"{self.path} holds token {outside[0]}, outside the model's vocabulary of "
                f"{self.vocab_size}: build it again"
            )
        return targets

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary that targets come from."""
        return int(self.meta["model"]["vocab_size"])

    @property
    def keys(self) -> tuple[str, ...]:
        """Which hidden states are stored."""
        return tuple(self.meta["keys"])

    def key(self, name: str) -> Column:
        """The hidden states of one key, memory-mapped.

        Args:
            name: "att" or "ffn".

        Returns:
            The column; `read`, `gather` and `blocks` give arrays (…, D).

        Raises:
            KnnlmError: They are not stored.
            UsageError: There is no such key.
        """
        if name not in KEYS:
            raise unknown("key", name, KEYS)
        if name not in self.keys:
            raise KnnlmError(
                f"{self.path} holds no '{name}' states (it has {', '.join(self.keys)}): build it "
                f"with `keys` {name}"
            )
        return self.columns[name]

    def states(self, keys: Sequence[str]) -> NDArray[Any]:
        """The hidden states of several keys side by side, in memory: for evaluation texts.

        Args:
            keys: Which, in this order.

        Returns:
            States (count, D₁ + D₂ + …).
        """
        return np.concatenate([self.key(key).all() for key in keys], axis=1)

    @cached_property
    def lm_logprob(self) -> NDArray[np.float32]:
        """log p_LM of every target, in memory.

        Raises:
            KnnlmError: It was not asked for when the entries were built.
            DamagedError: It is not what was written.
        """
        if "lm_logprob" not in self.columns:
            raise KnnlmError(f"{self.path} holds no LM log-probabilities: build it with `logprobs`")
        logprobs: NDArray[np.float32] = self.columns["lm_logprob"].all()
        return logprobs

    @cached_property
    def documents(self) -> list[DocumentInfo]:
        """All documents, in order."""
        return self._left(self.all_documents)

    @cached_property
    def all_documents(self) -> list[DocumentInfo]:
        """Those that were forgotten too, by their numbers in the table."""
        return read_documents(self.table)

    @property
    def document_count(self) -> int:
        """How many documents there are."""
        return int(self.table.manifest["summary"]["documents"]) - len(self.forgotten)

    def _left(self, of_documents: list[Any]) -> list[Any]:
        """Without what belongs to forgotten documents."""
        gone = {document.document for document in self.forgotten}
        return [each for number, each in enumerate(of_documents) if number not in gone]

    @cached_property
    def metadata(self) -> list[dict[str, Any]]:
        """What is known of each document, in order: path, size, date, and what the text gave."""
        return self._left(read_metadata(self.table))

    def context(self, entry: int, before: int) -> NDArray[np.int32]:
        """The tokens that precede an entry's target in its document.

        Args:
            entry: Number of the entry.
            before: How many tokens at most. The document's first token, often bos, is left out.

        Returns:
            Token ids, in the order of the text.
        """
        position = int(self.columns["position"].read(entry, entry + 1)[0])
        first = entry - min(before, position - 1)
        tokens: NDArray[np.int32] = self.columns["target"].read(first, entry)
        return tokens

    def continuation(self, entry: int, after: int) -> NDArray[np.int32]:
        """The tokens that follow an entry's target in its document.

        Args:
            entry: Number of the entry.
            after: How many tokens at most.

        Returns:
            Token ids, in the order of the text.
        """
        stop = min(entry + 1 + after, self.count)
        documents = self.columns["document"].read(entry, stop)
        same = int((documents == documents[0]).sum())
        tokens: NDArray[np.int32] = self.columns["target"].read(entry + 1, entry + same)
        return tokens

    @property
    def document_numbers(self) -> NDArray[np.int32]:
        """The number of every entry's document in `documents`."""
        return self._numbers(self.columns["document"].all())

    def _numbers(self, in_table: NDArray[np.int32]) -> NDArray[np.int32]:
        """Numbers of documents in the table as numbers in `documents`."""
        if not self.forgotten:
            return in_table
        gone = np.sort([document.document for document in self.forgotten])
        return (in_table - np.searchsorted(gone, in_table)).astype(np.int32)

    def document_of(self, entry: int) -> str:
        """Name of the document that an entry's target is in.

        Args:
            entry: Number of the entry.

        Returns:
            The name, as the text gave it.
        """
        (number,) = self._numbers(self.columns["document"].read(entry, entry + 1)).tolist()
        if not 0 <= number < len(self.documents):
            raise DamagedError(
                f"{self.path} holds an entry of document {number:,}, and has "
                f"{len(self.documents):,}: build it again"
            )
        return self.documents[number].name

    @property
    def forgets(self) -> int:
        """How many times documents were forgotten, also before it was compacted."""
        return int(self.table.manifest["summary"].get("forgets", 0))

    @property
    def model_source(self) -> str:
        """Where the model was when the entries were built."""
        return str(self.table.manifest["summary"]["model_source"])

    @property
    def adapter(self) -> str | None:
        """Where the model's adapter was, if it had one."""
        adapter = self.table.manifest["summary"]["adapter"]
        return None if adapter is None else str(adapter)

    @property
    def dtype(self) -> str:
        """How states are stored: "float16" or "float32"."""
        return np.dtype(self.key(self.keys[0]).type.dtype).name

    def require_model(self, model: "LanguageModel") -> None:
        """Refuse a model that did not make these entries.

        Args:
            model: An open model.

        Raises:
            KnnlmError: Its weights or its tokenizer differ.
        """
        self.require_weights(model.fingerprint, model.source)
        if self.meta["model"]["tokenizer"] != model.tokenizer_fingerprint:
            raise KnnlmError(
                f"{self.path} was built with another tokenizer than the one of {model.source}: "
                "restore that tokenizer, or build a datastore with this one"
            )

    def require_weights(self, fingerprint: str, source: str) -> None:
        """Refuse weights that did not make these entries.

        Args:
            fingerprint: Fingerprint of the model's weights.
            source: What to call the model in the error.

        Raises:
            KnnlmError: The fingerprint differs.
        """
        if self.meta["model"]["fingerprint"] != fingerprint:
            revision = self.table.manifest["summary"].get("model_revision")
            named = f"{self.model_source} at revision {revision}" if revision else self.model_source
            raise KnnlmError(
                f"{self.path} was built with another model ({named}) than {source}: "
                "use that model, or build a datastore with this one"
            )

    def verify(self, *columns: str) -> int:
        """Compare columns with their checksums, also those that were compared before.

        Args:
            *columns: Which; without any, every file.

        Returns:
            How many bytes were read.

        Raises:
            DamagedError: A file is missing, or not what was written.
        """
        read = verify_table(self.table, columns or None)
        assert len(self.targets) == self.count
        return read


def open_entries(path: str | Path) -> Entries:
    """Open the entries in a folder: a datastore, or an evaluation text.

    Args:
        path: The folder that `build_entries` wrote.

    Raises:
        KnnlmError: There are none, or their build has not finished.
        DamagedError: A file is missing or has another size; checksums are compared later.
    """
    # absolute, so that an open datastore does not depend on the working folder
    table = open_table(Path(path).absolute(), ENTRIES_KIND, _RESUME)
    check_entries_manifest(table.manifest, table.path / MANIFEST)
    return Entries(table)


def evenly_spaced(count: int, most: int) -> NDArray[np.int64]:
    """Up to `most` of `count` positions, evenly spaced over all of them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
