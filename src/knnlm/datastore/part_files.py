"""What a part of a table of entries holds beside its columns: the documents that begin in it.

PART/documents.json    [name, tokens, words, first token] of each document
PART/metadata.json     what is known of the same documents; a part whose documents came without
                       has none
"""

from typing import Annotated, Any, NamedTuple

from knnlm.datastore.manifest import RESTORE
from knnlm.datastore.table import Table, checked_file
from knnlm.stored_fields import Count, Positive, Within, damaged_field, read_fields

DOCUMENTS, METADATA = "documents.json", "metadata.json"
_Token = Annotated[int, Within(0, (1 << 31) - 1)]
_Documents = list[tuple[str, Positive, Count, _Token]]
_Metadata = list[dict[str, Any]]


class DocumentInfo(NamedTuple):
    """A document of the text that was read.

    Attributes:
        name: Its name.
        tokens: How many tokens it has, with the first, which is not predicted.
        words: How many words its targets spell.
        first_token: Its first token, often bos.
    """

    name: str
    tokens: int
    words: int
    first_token: int


def read_documents(table: Table) -> list[DocumentInfo]:
    """All documents of a table of entries, in order.

    Raises:
        DamagedError: A file is missing, is not what was written, or the documents do not have the
            entries that the table has.
    """
    documents = [document for part in table.manifest["parts"] for document in _of(table, part)]
    manifest, entries = table.path / "manifest.json", sum(d.tokens - 1 for d in documents)
    if entries != table.rows:
        raise damaged_field(manifest, f"its documents have {entries:,} entries", RESTORE)
    if len(documents) != table.manifest["summary"]["documents"]:
        raise damaged_field(manifest, f"summary.documents is not {len(documents):,}", RESTORE)
    return documents


def read_metadata(table: Table) -> list[dict[str, Any]]:
    """What is known of each document, in order; nothing of those that came without.

    Raises:
        DamagedError: A file is missing, or is not what was written.
    """
    metadata: list[dict[str, Any]] = []
    for part in table.manifest["parts"]:
        count = len(_of(table, part))
        known: _Metadata = [{} for _ in range(count)]
        if METADATA in part["files"]:
            file = checked_file(table.path, part, METADATA)
            known = read_fields(_Metadata, file, RESTORE)
            if len(known) != count:
                raise damaged_field(
                    file, f"it describes {len(known)} of {count} documents", RESTORE
                )
        metadata += known
    return metadata


def _of(table: Table, part: dict[str, Any]) -> list[DocumentInfo]:
    """The documents that begin in a part."""
    file = checked_file(table.path, part, DOCUMENTS)
    return [DocumentInfo(*fields) for fields in read_fields(_Documents, file, RESTORE)]
