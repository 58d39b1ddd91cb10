"""A store open for reading: columns, documents, and the text that stands around a row.

Knows the meaning of the columns (DESIGN: one row per predicted token); knows nothing of search.

| column       | type        | what                                                   |
|--------------|-------------|--------------------------------------------------------|
| `att`, `ffn` | fp16, (D,)  | the state that predicted the token                     |
| `target`     | int32       | the token                                              |
| `document`   | int32       | its document, counted from 0                           |
| `position`   | int32       | its place in the document; the first token has place 0 |
| `lm_logprob` | fp32        | log p_LM(target), where it was asked for               |
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from knnlm.datastore.table import Column, Table, checked_file, open_table, verify_table
from knnlm.errors import DamagedError, KnnlmError, unknown
from knnlm.files import fingerprint
from knnlm.hidden_states import KEYS
from knnlm.models.load import LanguageModel

KIND = "states"
DOCUMENTS = "documents.json"
REMEDY = "run the same 'knnlm build' again to continue it"


class DocumentInfo(NamedTuple):
    """A document of the store: its name, its tokens with the first, the words predicted, and the
    first token."""

    name: str
    tokens: int
    words: int
    first: int


class Entries:
    """States of a text under a model. Cheap to open; columns are memory-mapped."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.path: Path = table.path
        self.meta: dict[str, Any] = table.manifest["meta"]
        self.count = table.rows
        self.words = int(table.manifest["summary"]["words"])

    @cached_property
    def fingerprint(self) -> str:
        """128 bits over the manifest, and so over every byte of the store."""
        return fingerprint({k: self.table.manifest[k] for k in ("columns", "parts", "rows")})

    @cached_property
    def targets(self) -> NDArray[np.int32]:
        """All targets, in memory: four bytes a row. Checked against their checksum: a wrong token
        votes silently."""
        verify_table(self.table, ["target"])
        targets: NDArray[np.int32] = self.table.columns["target"].all()
        outside = targets[(targets < 0) | (targets >= self.vocab_size)]
        if len(outside):
            raise DamagedError(
                f"{self.path} holds token {outside[0]}, outside the model's {self.vocab_size} "
                "entries: build it anew"
            )
        return targets

    @property
    def vocab_size(self) -> int:
        """Size of the vocabulary that targets come from."""
        return int(self.meta["model"]["vocab_size"])

    @property
    def keys(self) -> tuple[str, ...]:
        """Which states are stored."""
        return tuple(self.meta["keys"])

    def key(self, name: str) -> Column:
        """The column of states `name`."""
        if name not in KEYS:
            raise unknown("key", name, KEYS)
        if name not in self.keys:
            raise KnnlmError(
                f"{self.path} holds no '{name}' states (it has {', '.join(self.keys)}): build it "
                f"with --keys {name}"
            )
        return self.table.columns[name]

    @cached_property
    def lm_logprob(self) -> NDArray[np.float32]:
        """log p_LM of every target."""
        if "lm_logprob" not in self.table.columns:
            raise KnnlmError(f"{self.path} holds no LM log-probabilities: build it with --logprobs")
        verify_table(self.table, ["lm_logprob"])
        found: NDArray[np.float32] = self.table.columns["lm_logprob"].all()
        return found

    @cached_property
    def documents(self) -> list[DocumentInfo]:
        """All documents, in order."""
        found = []
        for part in self.table.manifest["parts"]:
            file = checked_file(self.path, part, DOCUMENTS)
            found += [DocumentInfo(*d) for d in json.loads(file.read_bytes())]
        return found

    def context(self, row: int, before: int) -> NDArray[np.int32]:
        """Up to `before` tokens that precede row's target in its document (its first token, often
        bos, left out)."""
        place = int(self.table.columns["position"].read(row, row + 1)[0])
        found: NDArray[np.int32] = self.table.columns["target"].read(
            row - min(before, place - 1), row
        )
        return found

    def document_of(self, row: int) -> str:
        """Name of the document that row's target is in."""
        return self.documents[int(self.table.columns["document"].read(row, row + 1)[0])].name

    @property
    def model_source(self) -> str:
        """Where the model was when the store was built."""
        return str(self.table.manifest["summary"]["model_source"])

    @property
    def adapter(self) -> str | None:
        """Where the model's adapter was, if it had one."""
        found = self.table.manifest["summary"]["adapter"]
        return None if found is None else str(found)

    @property
    def dtype(self) -> str:
        """How states are stored: float16 or float32."""
        return np.dtype(self.key(self.keys[0]).type.dtype).name

    def require(self, model: LanguageModel) -> None:
        """Refuse a model or tokenizer that did not make this store."""
        self.require_weights(model.fingerprint, model.source)
        if self.meta["model"]["tokenizer"] != model.tokenizer_fingerprint:
            raise KnnlmError(
                f"{self.path} was built with another tokenizer than the one of {model.source}: "
                "restore that tokenizer, "
                "or build a store with this one"
            )

    def require_weights(self, fingerprint: str, source: str) -> None:
        """Refuse the weights of another model; `source` names them."""
        if self.meta["model"]["fingerprint"] != fingerprint:
            raise KnnlmError(
                f"{self.path} was built with another model ({self.model_source}) than {source}: "
                "use that model, "
                "or build a store with this one"
            )

    def verify(self, *columns: str) -> int:
        """Check these columns (default: every file) against their checksums; returns the bytes
        read."""
        read = verify_table(self.table, columns or None)
        assert len(self.targets) == self.count
        return read


def states_of(queries: Entries, keys: tuple[str, ...]) -> NDArray[Any]:
    """The states of an evaluation text under several keys, one after the other, in memory."""
    return np.concatenate([queries.key(key).all() for key in keys], axis=1)


def open_entries(path: str | Path) -> Entries:
    """Open a finished store."""
    return Entries(open_table(Path(path), KIND, REMEDY))
