"""knnlm info"""

from knnlm.cli.options import Json, StorePath, show


def info(store: StorePath, json: Json = False) -> None:
    """Say what a store holds: rows, keys, model, text, indexes, tuned settings, components.

    Example: knnlm info store
    """
    from knnlm.datastore.entries import open_entries
    from knnlm.evaluation.settings import load_settings
    from knnlm.files import read_json
    from knnlm.search.index import list_indexes
    from knnlm.training.distillation import about_distilled, list_distilled

    opened = open_entries(store)
    indexes = {
        name: read_json(store / "indexes" / name / "manifest.json") for name in list_indexes(opened)
    }
    tuned = [
        {
            **t.retrieval.as_json(),
            "lambda": t.lam,
            "temperature": t.temperature,
            "interp_ppl": t.interp_ppl,
            "base_ppl": t.base_ppl,
        }
        for t in load_settings(opened)
    ]
    components = {name: about_distilled(opened, name) for name in list_distilled(opened)}
    size = sum(
        f["bytes"] for part in opened.table.manifest["parts"] for f in part["files"].values()
    )
    meta = opened.meta
    fields = {
        "path": str(store),
        "rows": opened.count,
        "words": opened.words,
        "bytes": size,
        **meta,
        "documents": opened.table.manifest["summary"]["documents"],
        "parts": len(opened.table.manifest["parts"]),
        "columns": opened.table.manifest["columns"],
        "indexes": indexes,
        "tuned": tuned,
        "components": components,
        "fingerprint": opened.fingerprint,
    }
    columns = ", ".join(
        f"{n} {c['dtype'].lstrip('<')}" for n, c in opened.table.manifest["columns"].items()
    )
    lines = [
        f"{store}: {opened.count:,} rows of {fields['documents']:,} documents, {size / 1e6:,.1f} "
        "MB, "
        f"{fields['parts']} parts",
        f"  columns  {columns}",
        f"  model    {meta['model']['class']} from {opened.model_source} "
        f"({meta['model']['fingerprint'][:12]})",
        *(f"  {key}      {words}" for key, words in meta["taps"].items()),
        f"  text     {meta['text']['kind']}, {opened.words:,} words; window {meta['window']}, "
        f"stride {meta['stride']}",
    ]
    for name, m in indexes.items():
        lines.append(
            f"  index    {name}: recall@{m['recall_k']} {m['recall']:.3f}, {m['bytes'] / 1e6:,.1f} "
            "MB"
        )
    for t in tuned:
        lines.append(
            f"  tuned    {t['key']} {t['metric']}, {t['mask']} search, {t['score']} scores, k "
            f"{t['k']}: "
            f"λ {t['lambda']:.3f}, τ {t['temperature']:.4g}, validation {t['base_ppl']:.2f} → "
            f"{t['interp_ppl']:.2f}"
        )
    for name, about in components.items():
        states = " and ".join(about["what"]["keys"])
        lines.append(
            f"  component {name}: {about['what']['kind']} on {states}, λ {about['lambda']:.3f}, "
            f"validation {about['base_ppl']:.2f} → {about['interp_ppl']:.2f}"
        )
    show(json, fields, lines)
