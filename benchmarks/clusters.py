"""A store of a real model pressed to clusters: perplexities beside those of the search, and what pressing takes.

    python benchmarks/clusters.py STORE --name NAME --valid VALID --test TEST [--into docs/results/clusters.json]

The store is tuned already, and searched as it was tuned. The record goes into the JSON under NAME; docs/adapt.md shows
it.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import knnlm
from knnlm.evaluation import Evaluation
from knnlm.files import finite
from knnlm.resolve import the_model


def perplexities(found: Evaluation) -> dict[str, Any]:
    """What of an evaluation is compared."""
    kept = ("tokens", "base_ppl", "interp_ppl", "ratio", "ratio_ci95", "ratio_ci95_unit", "lam", "temperature")
    return {name: value for name, value in finite(found._asdict()).items() if name in kept}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--valid", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--key", default="att")
    parser.add_argument("--counts", default="512,2048,8192")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    store = knnlm.open_store(given.store)
    lm = the_model(store, None)
    tuned, found = knnlm.evaluate(store, given.test, model=lm)
    width = store.key(given.key).type.width
    record: dict[str, Any] = {
        "rows": store.rows, "width": width, "words": store.vocab_size, "key": given.key, "knnlm": knnlm.__version__,
        "search": {"mask": tuned.retrieval.mask, "key": tuned.retrieval.key, "k": tuned.retrieval.k,
                   "recall": found.recall, **perplexities(found)},
        "clusters": [],
    }  # fmt: skip
    for count in map(int, given.counts.split(",")):
        began = time.perf_counter()
        made = knnlm.distill(store, given.valid, model=lm, name="benchmark", key=given.key, size=count)
        seconds = time.perf_counter() - began
        _, found = knnlm.evaluate_component(store, "benchmark", given.test, model=lm)
        line = {"count": count, "multiplications": made.component.multiplications, "seconds": round(seconds, 1)}
        record["clusters"].append({**line, **perplexities(found)})
        print(json.dumps(record["clusters"][-1]), flush=True)
    if given.into is not None:
        kept = json.loads(given.into.read_text()) if given.into.is_file() else {}
        given.into.write_text(json.dumps({**kept, given.name: record}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
