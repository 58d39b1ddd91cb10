"""What is known of the indexes of a datastore, without opening them: nothing here imports FAISS.

STORE/indexes/<name>/index.faiss     what FAISS writes; after an update index-<rows>.faiss
STORE/indexes/<name>/manifest.json   key, metric, factory, nprobe, refine, augmented, rows,
                                     fingerprint of these rows, design, recall, file, checksum

An index covers the first rows of a datastore's table; documents that were added later are compared
one by one until `update_index` takes them in. Rows that were forgotten stay in it and are left out
of what it finds. Format 1 had neither refine nor augmented: its candidates are not scored again.
"""

from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from knnlm.datastore import Entries
from knnlm.disk import checksum_file
from knnlm.errors import DamagedError, KnnlmError, unknown
from knnlm.files import read_json
from knnlm.stored_fields import (
    Checksum,
    Count,
    Key,
    MetricName,
    NeighborCount,
    PlainName,
    Positive,
    Share,
    Within,
    check_fields,
)

INDEX_FILE, MANIFEST = "index.faiss", "manifest.json"
FORMAT = 2
_Effort = Annotated[int, Within(1, (1 << 31) - 1)]


class _Design(TypedDict):
    nprobe: _Effort | None
    refine: _Effort | None
    recall: Share


class IndexFields(TypedDict):
    """The manifest of an index."""

    format: _Effort
    key: Key
    metric: MetricName
    factory: str
    nprobe: _Effort
    refine: NotRequired[_Effort]
    augmented: NotRequired[bool]
    rows: Positive
    store: str
    bytes: Count
    xxh3: Checksum
    recall: Share
    recall_k: NeighborCount
    design: NotRequired[_Design]
    file: NotRequired[PlainName]


def index_manifest(store: Entries, name: str) -> dict[str, Any]:
    """The manifest of an index, after checking that it belongs to this datastore; the index itself
    is not read.

    Raises:
        KnnlmError: There is no such index, or the datastore has changed since it was built.
    """
    names = list_indexes(store)
    if not names:
        raise KnnlmError(
            f"{store.path} has no index: build one with `Datastore.build_index`, or search with "
            "`exact`"
        )
    if name not in names:
        raise unknown("index", name, names)
    manifest = describe_index(store, name)
    if not covers(manifest, store):
        raise KnnlmError(
            f"index {name} covers {manifest['rows']:,} entries of another state of {store.path}: "
            f"{how_to_rebuild(manifest)}"
        )
    return manifest


def describe_index(store: Entries, name: str) -> dict[str, Any]:
    """The manifest of an index that is there, also if it does not belong to this datastore.

    Raises:
        DamagedError: It is not what was written, or a field cannot be.
    """
    folder = index_folder(store, name)
    manifest = read_json(folder / MANIFEST, newest_format=FORMAT)
    remedy = f"delete {folder} and build the index again with `Datastore.build_index`"
    check_fields(IndexFields, manifest, folder / MANIFEST, remedy)
    return manifest


def covers(manifest: dict[str, Any], store: Entries) -> bool:
    """Whether an index is of the first rows of this datastore."""
    return bool(manifest["store"] == store.rows_fingerprint(int(manifest["rows"])))


def list_indexes(store: Entries) -> list[str]:
    """Names of the finished indexes of a datastore, in alphabetical order."""
    return sorted(p.parent.name for p in store.path.glob(f"indexes/*/{MANIFEST}"))


def index_file(store: Entries, name: str) -> Path:
    """The file of an index, after comparing it with its checksum.

    Raises:
        KnnlmError: There is no such index, or the datastore has changed since it was built.
        DamagedError: The file is not what was written.
    """
    manifest, folder = index_manifest(store, name), index_folder(store, name)
    file = folder / str(manifest.get("file", INDEX_FILE))
    if not file.is_file() or checksum_file(file) != manifest["xxh3"]:
        raise DamagedError(
            f"{file} is damaged (its checksum differs): delete {folder} and "
            f"{how_to_rebuild(manifest)}"
        )
    return file


def index_folder(store: Entries, name: str) -> Path:
    """Where an index is kept."""
    return store.path / "indexes" / name


def is_refined(manifest: dict[str, Any]) -> bool:
    """Whether an index's candidates are scored again from the stored states."""
    return int(manifest.get("refine", 1)) > 1


def how_to_rebuild(manifest: dict[str, Any]) -> str:
    """How to build an index again, for messages."""
    key, metric = manifest["key"], manifest["metric"]
    return f"build it again with `Datastore.build_index`, `key` {key} and `metric` {metric}"
