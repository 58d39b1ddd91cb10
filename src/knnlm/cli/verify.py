"""knnlm verify"""

from knnlm.cli.options import Json, StorePath, show


def verify(store: StorePath, json: Json = False) -> None:
    """Compare every byte of a datastore with its checksum.

    Indexes, components and caches are checked too. If something is damaged, the exit code is 1.

    Example: knnlm verify store
    """
    from knnlm.api import verify_datastore
    from knnlm.datastore import open_entries

    result = verify_datastore(open_entries(store))
    show(json, result.as_json(), [str(result)])
