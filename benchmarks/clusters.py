"""A datastore of a real model compressed into clusters: perplexities beside those of the search.

    .venv/bin/python benchmarks/clusters.py STORE --name NAME [--into docs/results/clusters.json]

The datastore was built with --split and is tuned; it is searched as it was tuned. `seconds` is
how long compressing takes; `against` is the perplexity with clusters over that with the search,
with the interval of a paired bootstrap. The record goes into the JSON under NAME;
docs/adapt.md shows it.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from records import keep_record

import knnlm
from knnlm.api import KNNLM, Datastore
from knnlm.components.base import Component, Logs
from knnlm.components.records import component_folder
from knnlm.datastore.entries import Entries
from knnlm.evaluation.evaluation import evaluate
from knnlm.evaluation.metrics import perplexity, ratio_interval
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.settings import TunedSettings, forget_settings

_KEPT = (
    "tokens",
    "base_ppl",
    "interp_ppl",
    "ratio",
    "ratio_ci95",
    "ratio_ci95_unit",
    "lam",
    "temperature",
    "recall",
)
_NAME = "benchmark"


def measured(component: Component, test: Entries, settings: TunedSettings) -> dict[str, Any]:
    """The numbers of a component that are kept."""
    fields = evaluate(component, test, settings).as_json()
    fields["lam"] = fields.pop("lambda")  # as the records of earlier runs have it
    return {name: fields[name] for name in _KEPT}


def mixed_logprobs(component: Component, test: Entries, lam: float) -> Logs:
    """log P of the test text's tokens."""
    return mix(test.lm_logprob.astype(np.float64), component.target_logprobs(test), lam)


def remove(store: Datastore) -> None:
    """Delete the component that was measured, and its settings."""
    shutil.rmtree(component_folder(store.entries, _NAME), ignore_errors=True)
    forget_settings(store.entries, _NAME)


def compressed(
    store: Datastore, test: Entries, search: Logs, given: argparse.Namespace, count: int
) -> dict[str, Any]:
    """One number of clusters."""
    remove(store)  # one that is there would be taken
    began = time.perf_counter()
    made = store.distill(name=_NAME, key=given.key, size=count)
    seconds = time.perf_counter() - began
    mixed = mixed_logprobs(made.component, test, made.settings.lam)
    interval = ratio_interval(search, mixed, test.table.columns["document"].all())
    return {
        "count": count,
        "multiplications": made.component.multiplications,
        "seconds": round(seconds, 1),
        **measured(made.component, test, made.settings),
        "against": perplexity(mixed) / perplexity(search),
        "against_ci95": None if interval is None else [interval.low, interval.high],
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--key", default="att")
    parser.add_argument("--counts", default="512,2048,8192")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    store = Datastore.open(given.store)
    model, test = KNNLM(store), store.queries(split="test")
    tuned, knn = model.settings, model.component
    assert tuned.retrieval is not None
    search = mixed_logprobs(knn, test, tuned.lam)
    record: dict[str, Any] = {
        "rows": len(store),
        "words": store.entries.vocab_size,
        "key": given.key,
        "knnlm": knnlm.__version__,
        "search": {
            "mask": tuned.retrieval.search_name,
            "key": tuned.retrieval.key,
            "k": tuned.retrieval.k,
            **measured(knn, test, tuned),
        },
        "clusters": [],
    }
    for count in map(int, given.counts.split(",")):
        record["clusters"].append(compressed(store, test, search, given, count))
        print(json.dumps(record["clusters"][-1]), flush=True)
    remove(store)
    keep_record(given.into, given.name, record)


if __name__ == "__main__":
    main()
