"""What is kept with a datastore beside its entries, so that it is noticed if some of it vanishes.

    DATASTORE/kept.json    the files that must be there: settings, components, indexes

A file that is gone leaves no wrong byte behind. So whoever keeps something with a datastore notes
its file here, under the write lock of the datastore. Datastores of before have no such list, and
nothing is missed in them until something is kept with them again.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from knnlm.errors import DamagedError
from knnlm.files import read_json, write_json
from knnlm.progress import log
from knnlm.stored_fields import InnerPath, check_fields

KEPT = "kept.json"
FORMAT = 1


class _Kept(TypedDict):
    files: list[InnerPath]


def note_kept(store: Path, files: Iterable[Path]) -> None:
    """Note that files are kept with a datastore, beside those that were noted before.

    Args:
        store: The datastore's folder; the caller holds its write lock.
        files: Files in it.
    """
    try:
        before = _noted(store)
    except DamagedError as error:
        log.warning(f"{error}; written again")
        before = []
    now = sorted({*before, *(file.relative_to(store).as_posix() for file in files)})
    if now != before:
        write_json(store / KEPT, {"format": FORMAT, "files": now})


def note_deleted(store: Path, files: Iterable[Path]) -> None:
    """Note that files are no longer kept with a datastore.

    Args:
        store: The datastore's folder; the caller holds its write lock.
        files: Files that were in it.
    """
    gone = {file.relative_to(store).as_posix() for file in files}
    if (store / KEPT).is_file() and gone & set(_noted(store)):
        left = [name for name in _noted(store) if name not in gone]
        write_json(store / KEPT, {"format": FORMAT, "files": left})


def check_kept(store: Path) -> None:
    """Raise a DamagedError if a file that was kept with a datastore is gone."""
    missing = [name for name in _noted(store) if not (store / name).is_file()]
    if missing:
        one = len(missing) == 1
        they, them, were = ("it", "it", "was") if one else ("they", "them", "were")
        named = missing[0] if one else f"{', '.join(missing[:-1])} and {missing[-1]}"
        raise DamagedError(
            f"{store} lacks {named}, which {were} kept with it: restore {them} from a copy or make "
            f"{them} again; if {they} {were} deleted on purpose, delete {store / KEPT} too"
        )


def _noted(store: Path) -> list[str]:
    file = store / KEPT
    if not file.is_file():
        return []
    fields = read_json(file, newest_format=FORMAT)
    remedy = "delete it, and it is written again when something is kept with the datastore"
    return check_fields(_Kept, fields, file, remedy)["files"]
