"""knnlm verify"""

from knnlm.cli.options import Json, StorePath, show


def verify(store: StorePath, json: Json = False) -> None:
    """Read every byte of a store and its indexes and compare it with its checksum; the first damage ends it with 1.

    Example: knnlm verify store
    """
    from knnlm.search.index import list_indexes, open_index
    from knnlm.states.store import open_store

    opened = open_store(store)
    read = opened.verify()
    indexes = list_indexes(opened)
    for name in indexes:
        read += int(open_index(opened, name).manifest["bytes"])
    fields = {"path": str(store), "rows": opened.rows, "bytes": read, "indexes": indexes, "ok": True}
    show(json, fields, [f"{store}: {opened.rows:,} rows and {len(indexes)} indexes are whole ({read / 1e6:,.1f} MB)"])
