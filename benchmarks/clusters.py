"""A store of a real model pressed to clusters: perplexities beside those of the search, and what
pressing takes.

    python benchmarks/clusters.py STORE --name NAME --valid VALID --test TEST [--into docs/results/clusters.json]

The store is tuned already, and searched as it was tuned. `against` is the perplexity with clusters
over that with the search, with the interval of a paired bootstrap. The record goes into the JSON
under NAME; docs/adapt.md shows it."""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from knnlm.resolve import the_model

import knnlm
from knnlm.api import queries, source
from knnlm.datastore.entries import Entries
from knnlm.evaluation.metrics import perplexity, ratio_interval
from knnlm.evaluation.mixing import mix
from knnlm.evaluation.settings import choose_settings
from knnlm.evaluation.tuning import evaluate, evaluate_component, score
from knnlm.files import finite
from knnlm.training.distillation import FOLDER

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


def pressed(
    store: Entries, test: Entries, search: Any, given: argparse.Namespace, lm: Any, count: int
) -> dict[str, Any]:
    """One number of clusters."""
    shutil.rmtree(
        store.path / FOLDER / _NAME, ignore_errors=True
    )  # one that is there would be taken
    began = time.perf_counter()
    made = knnlm.distill(store, given.valid, model=lm, name=_NAME, key=given.key, size=count)
    seconds = time.perf_counter() - began
    base, component = test.lm_logprob.astype(np.float64), made.component
    mixed = mix(
        base, component.target_logprobs(test.states(component.keys), test.targets), made.lam
    )
    found = finite(evaluate_component(test, component, made.lam)._asdict())
    interval = ratio_interval(search, mixed, test.table.columns["document"].all())
    return {
        "count": count,
        "multiplications": component.multiplications,
        "seconds": round(seconds, 1),
        **{name: found[name] for name in _KEPT},
        "against": perplexity(mixed) / perplexity(search),
        "against_ci95": None if interval is None else [interval.low, interval.high],
    }


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
    store = knnlm.open_entries(given.store)
    lm = the_model(store, None)
    test, tuned = queries(store, source(given.test), lm), choose_settings(store)
    assert tuned is not None, "run 'knnlm tune' first"
    logs = score(store, test, tuned)
    search = mix(logs.lm, logs.knn, tuned.lam)
    found = finite(evaluate(store, test, tuned)._asdict())
    record: dict[str, Any] = {
        "rows": store.rows,
        "words": store.vocab_size,
        "key": given.key,
        "knnlm": knnlm.__version__,
        "search": {
            "mask": tuned.retrieval.search_name,
            "key": tuned.retrieval.key,
            "k": tuned.retrieval.k,
            **{name: found[name] for name in _KEPT},
        },
        "clusters": [],
    }
    for count in map(int, given.counts.split(",")):
        record["clusters"].append(pressed(store, test, search, given, lm, count))
        print(json.dumps(record["clusters"][-1]), flush=True)
    shutil.rmtree(store.path / FOLDER / _NAME)
    if given.into is not None:
        kept = json.loads(given.into.read_text()) if given.into.is_file() else {}
        given.into.write_text(
            json.dumps({**kept, given.name: record}, indent=1, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    main()
