"""knnlm info"""

from knnlm.cli.options import Json, StorePath, show


def info(store: StorePath, json: Json = False) -> None:
    """Show what a datastore holds.

    Entries, keys, model, text, indexes, tuned settings and components.

    Example: knnlm info store
    """
    from knnlm.api import describe_datastore
    from knnlm.datastore import open_entries

    held = describe_datastore(open_entries(store))
    show(json, held.as_json(), [str(held)])
