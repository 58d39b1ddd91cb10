"""knnlm verify"""

from knnlm.cli.options import Json, StorePath, show


def verify(store: StorePath, json: Json = False) -> None:
    """Read every byte of a store, its indexes, components and caches and compare it with its
    checksum.

    Damage ends it with 1.

    Example: knnlm verify store
    """
    from knnlm.datastore.entries import KIND as STATES
    from knnlm.datastore.entries import open_entries
    from knnlm.datastore.table import open_table, verify_table
    from knnlm.evaluation.settings import load_settings
    from knnlm.search.cache import KIND as NEIGHBORS
    from knnlm.search.index import list_indexes, open_index
    from knnlm.training.distillation import FOLDER, about_distilled, list_distilled, load_distilled

    opened = open_entries(store)
    read = opened.verify()
    indexes = list_indexes(opened)
    for name in indexes:
        read += int(open_index(opened, name).manifest["bytes"])
    load_settings(opened)
    components = list_distilled(opened)
    for name in components:
        load_distilled(opened, name)
        read += (store / FOLDER / name / str(about_distilled(opened, name)["file"])).stat().st_size
    for folder in sorted(p.parent for p in store.glob("cache/*/*/manifest.json")):
        kind = {"states": STATES, "neighbors": NEIGHBORS}[folder.parent.name]
        read += verify_table(open_table(folder, kind, unfinished=True))
    fields = {
        "path": str(store),
        "rows": opened.count,
        "bytes": read,
        "indexes": indexes,
        "ok": True,
    }
    fields["components"] = components
    parts = f"{opened.count:,} rows, {len(indexes)} indexes and {len(components)} components"
    show(json, fields, [f"{store}: {parts} are whole ({read / 1e6:,.1f} MB)"])
