"""One operation on a datastore of one size, in a process of its own (own_process.py).

    python -m bench.growth_point '{"operation": …, "entries": …, "warm": …, "rounds": …,
                                  "work": …}'

Each operation is a function that opens what it needs and returns the work that is timed, which can
be repeated. It is done on a small datastore first, so that libraries are loaded and threads are
started before memory is counted.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.states import made_up_store
from knnlm.datastore import Entries
from knnlm.text import Document

WIDTH, VALIDATION_TOKENS, QUERIES, K = 256, 2000, 256, 1024
_SECONDS = 20.0
"""An operation that takes longer is not repeated."""
_LEXICON, _LETTERS, _WORDS_OF_DOCUMENT = 100, 3, 1000
_VOCABULARY = 600
"""Enough for each word of the lexicon to be one token."""
_SEED = 0


class MadeUpText:
    """Documents of random words from a small lexicon, made while they are read.

    Args:
        words: How many words all of them have.
    """

    def __init__(self, words: int) -> None:
        self.words = words

    def describe(self) -> dict[str, Any]:
        """Its size is all that it depends on."""
        return {"kind": "made-up", "words": self.words}

    def __iter__(self) -> Iterator[Document]:
        rng = np.random.default_rng(_SEED)
        letters = rng.integers(ord("a"), ord("z") + 1, (_LEXICON, _LETTERS), dtype=np.uint8)
        lexicon = np.array([bytes(word).decode() for word in letters])
        for start in range(0, self.words, _WORDS_OF_DOCUMENT):
            some = min(_WORDS_OF_DOCUMENT, self.words - start)
            yield Document(f"{start}", " ".join(rng.choice(lexicon, some)))


def small_model(work: Path) -> Path:
    """The folder of a model with random weights, one layer and WIDTH numbers in a state."""
    from knnlm.models import Preset, new_model
    from knnlm.text import train_tokenizer

    folder = work / "model"
    if not folder.is_dir():
        preset = Preset(
            name="one-layer",
            vocab_size=_VOCABULARY,
            width=WIDTH,
            layers=1,
            heads=4,
            context=128,
            dropout=0.0,
            attention_dropout=0.0,
            batch=1,
            steps=1,
            lr=1e-3,
            warmup=1,
            weight_decay=0.0,
            valid_every=1,
            valid_tokens=1,
        )
        tokenizer = train_tokenizer((d.text for d in MadeUpText(20_000)), _VOCABULARY)
        torch.manual_seed(_SEED)
        model = new_model(preset, len(tokenizer), 0)
        unfinished = work / "model.tmp"
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        unfinished.rename(folder)
    return folder


def _store(work: Path, entries: int) -> tuple[Entries, Entries]:
    return made_up_store(work, entries, WIDTH, VALIDATION_TOKENS).open()


def _queries(text: Entries) -> np.ndarray:
    return np.asarray(text.key("att").read(0, QUERIES), np.float32)


def build(work: Path, entries: int) -> Callable[[], int]:
    """Run the small model over about so many made-up tokens; how many it predicted."""
    from knnlm.datastore import build_entries
    from knnlm.models import load_model

    lm, out = load_model(small_model(work)), work / f"built-{entries}"

    def run() -> int:
        shutil.rmtree(out, ignore_errors=True)
        return build_entries(lm, MadeUpText(entries), out, keys="att").count

    return run


def index(work: Path, entries: int) -> Callable[[], int]:
    """Build the default index, L2, and measure its recall."""
    from knnlm.search import build_index

    store, _ = _store(work, entries)

    def run() -> int:
        shutil.rmtree(store.path / "indexes", ignore_errors=True)
        build_index(store, "att", "l2")
        return store.count

    return run


def exact(work: Path, entries: int) -> Callable[[], int]:
    """Exact search, L2."""
    from knnlm.search import exact_search

    store, text = _store(work, entries)
    queries = _queries(text)

    def run() -> int:
        exact_search(queries, store.key("att"), min(K, entries), "l2")
        return store.count

    return run


def approximate(work: Path, entries: int) -> Callable[[], int]:
    """Search of the default index, which is opened before the clock starts."""
    from knnlm.search import list_indexes, open_index

    store, text = _store(work, entries)
    queries, opened = _queries(text), open_index(store, list_indexes(store)[0])

    def run() -> int:
        opened.search(queries, min(K, entries))
        return store.count

    return run


def tune(work: Path, entries: int) -> Callable[[], int]:
    """Search for the neighbors of a validation text, by the default index, and fit λ and τ."""
    from knnlm.components import KNN
    from knnlm.evaluation import tune as fit
    from knnlm.search import Retrieval, list_indexes

    store, text = _store(work, entries)
    (name,) = list_indexes(store)
    retrieval = Retrieval(index=name, score="index", k=min(K, entries))

    def run() -> int:
        shutil.rmtree(store.path / "cache", ignore_errors=True)
        fit(KNN(store, retrieval), text, name="knn")
        return store.count

    return run


OPERATIONS: dict[str, Callable[[Path, int], Callable[[], int]]] = {
    "build": build,
    "index": index,
    "exact search": exact,
    "approximate search": approximate,
    "tune": tune,
}
"""In this order for each size: searches need the index."""


def main() -> None:
    """Measure what the command line says."""
    point = json.loads(sys.argv[1])
    operation, work = OPERATIONS[point["operation"]], Path(point["work"])
    operation(work, point["warm"])()
    print("ready", flush=True)
    sys.stdin.readline()
    run, times, entries = operation(work, point["entries"]), list[float](), 0
    while not times or (len(times) < point["rounds"] and times[0] < _SECONDS):
        began = time.perf_counter()
        entries = run()
        times.append(time.perf_counter() - began)
        if len(times) == 1:
            print("done", flush=True)
    print(json.dumps({"entries": entries, "seconds": times}), flush=True)


if __name__ == "__main__":
    main()
