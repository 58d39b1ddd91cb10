"""knnlm verify"""

from knnlm.cli.options import Json, StorePath, show


def verify(store: StorePath, json: Json = False) -> None:
    """Compare every byte of a datastore, its indexes, components and caches with its checksum.

    Damage ends it with 1.

    Example: knnlm verify store
    """
    from knnlm.api import Datastore

    result = Datastore.open(store).verify()
    show(json, result.as_json(), [str(result)])
