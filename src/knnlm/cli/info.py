"""knnlm info"""

from knnlm.cli.options import Json, StorePath, show


def info(store: StorePath, json: Json = False) -> None:
    """Say what a datastore holds: entries, keys, model, text, indexes, settings, components.

    Example: knnlm info store
    """
    from knnlm.api import Datastore

    held = Datastore.open(store).info()
    show(json, held.as_json(), [str(held)])
