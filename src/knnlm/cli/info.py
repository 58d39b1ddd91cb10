"""knnlm info"""

from knnlm.cli.options import Json, StorePath, show


def info(store: StorePath, json: Json = False) -> None:
    """Show what a datastore holds.

    Entries, keys, model, text, indexes, tuned settings and components.

    Example: knnlm info store
    """
    from knnlm.api import Datastore

    held = Datastore.open(store).info()
    show(json, held.as_json(), [str(held)])
