"""knnlm verify"""

from knnlm.cli.options import Json, StorePath, show


def verify(store: StorePath, json: Json = False) -> None:
    """Read every byte of a store, its indexes and caches and compare it with its checksum; damage ends it with 1.

    Example: knnlm verify store
    """
    from knnlm.search.cache import KIND as NEIGHBORS
    from knnlm.search.index import list_indexes, open_index
    from knnlm.settings import load_tuned
    from knnlm.states.store import KIND as STATES
    from knnlm.states.store import open_store
    from knnlm.states.table import open_table, verify_table

    opened = open_store(store)
    read = opened.verify()
    indexes = list_indexes(opened)
    for name in indexes:
        read += int(open_index(opened, name).manifest["bytes"])
    load_tuned(opened)
    for folder in sorted(p.parent for p in store.glob("cache/*/*/manifest.json")):
        kind = {"states": STATES, "neighbors": NEIGHBORS}[folder.parent.name]
        read += verify_table(open_table(folder, kind, unfinished=True))
    fields = {"path": str(store), "rows": opened.rows, "bytes": read, "indexes": indexes, "ok": True}
    show(json, fields, [f"{store}: {opened.rows:,} rows and {len(indexes)} indexes are whole ({read / 1e6:,.1f} MB)"])
