"""knnlm compact"""

from knnlm.cli.options import Json, StorePath, show


def compact(store: StorePath, json: Json = False) -> None:
    """Remove what was forgotten from disk.

    Entries are written again without it, indexes are built again, caches and
    components that were made from it are deleted.

    Example: knnlm compact store
    """
    from knnlm.api import Datastore

    change = Datastore.open(store).compact()
    show(json, change.as_json(), [str(change)])
