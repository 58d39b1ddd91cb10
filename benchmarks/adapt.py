"""A datastore of a real model and a folder: perplexities with the control, and speed with and
without retrieval, in one run.

    .venv/bin/python benchmarks/adapt.py STORE --name NAME --model MODEL --text TEXT [--speed]
                                         [--into docs/results/adapt.json]

STORE was built with --split. Tunes and evaluates on the other parts of its text. With --speed, on a
quiet machine, it also generates the same number of tokens with the base LM and with the kNN-LM in
turn, and builds a datastore of a part of the test text in turn with bare passes of the model's body
over the same windows. Medians of ratios.
The record goes into the JSON under NAME; docs/adapt.md shows it. MODEL and TEXT say in words what
was measured.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from records import keep_record

import knnlm
from knnlm.api import KNNLM, Datastore
from knnlm.api.evaluation_texts import own_text
from knnlm.datastore import build_entries
from knnlm.datastore.entries import Entries
from knnlm.hidden_states.forward import SHARED_BATCH_TOKENS
from knnlm.models.load import LanguageModel
from knnlm.text.portions import Excerpts
from knnlm.text.tokenizer import encode_documents, encode_prompt
from knnlm.text.windows import cut_windows


def generation(knn_lm: KNNLM, prompt: str, new: int, repeats: int) -> dict[str, float]:
    """Tokens a second of generate(), base LM and kNN-LM in turn, from a prompt of 32 tokens."""
    ids = torch.tensor([encode_prompt(knn_lm.tokenizer, prompt)[:32]])
    mixed = knn_lm.to_transformers()
    rates: dict[str, list[float]] = {"base": [], "knn": []}
    for repeat in range(repeats + 1):
        for name, model in (("base", mixed.base), ("knn", mixed)):
            began = time.perf_counter()
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=new,
                min_new_tokens=new,
                do_sample=False,
                pad_token_id=0,
            )
            if repeat:  # the first warms up
                rates[name].append(new / (time.perf_counter() - began))
    ratios = [k / b for k, b in zip(rates["knn"], rates["base"], strict=True)]
    return {
        "base_tokens_per_second": round(statistics.median(rates["base"]), 2),
        "knn_tokens_per_second": round(statistics.median(rates["knn"]), 2),
        "speed_kept": round(statistics.median(ratios), 3),
    }


def building(lm: LanguageModel, store: Entries, text: Excerpts, repeats: int) -> dict[str, float]:
    """Input tokens a second of `build`, and of bare passes of the model's body over the same
    windows, in turn."""
    shape = {"window": store.meta["window"], "stride": store.meta["stride"]}
    pieces = [
        torch.from_numpy(e.tokens[w.start : w.stop].astype("int64"))
        for e in encode_documents(lm.tokenizer, text)
        for w in cut_windows(len(e.tokens), **shape)
    ]
    pieces.sort(key=len, reverse=True)
    size = SHARED_BATCH_TOKENS // shape["window"]
    groups = [
        torch.nn.utils.rnn.pad_sequence(pieces[i : i + size], True)
        for i in range(0, len(pieces), size)
    ]
    total, rates = sum(map(len, pieces)), {"bare": list[float](), "build": list[float]()}
    for _ in range(repeats):
        began = time.perf_counter()
        with torch.inference_mode():
            for ids in groups:
                lm.model.base_model(input_ids=ids, use_cache=False)
        rates["bare"].append(total / (time.perf_counter() - began))
        with tempfile.TemporaryDirectory() as out:
            began = time.perf_counter()
            build_entries(lm, text, Path(out) / "store", **shape)
            rates["build"].append(total / (time.perf_counter() - began))
    ratios = [ours / bare for ours, bare in zip(rates["build"], rates["bare"], strict=True)]
    return {
        "body_tokens_per_second": round(statistics.median(rates["bare"]), 1),
        "build_tokens_per_second": round(statistics.median(rates["build"]), 1),
        "build_kept": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--build-characters", type=int, default=40_000)
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    store = Datastore.open(given.store)
    meta = store.entries.meta
    began = time.perf_counter()
    model = KNNLM(store).tune()
    tuning = time.perf_counter() - began
    began = time.perf_counter()
    tuned, result = model.settings, model.evaluate()
    evaluating = time.perf_counter() - began
    assert tuned.retrieval is not None
    assert tuned.calibrated is not None
    record: dict[str, Any] = {
        "model": given.model,
        "text": given.text,
        "entries": len(store),
        "documents": store.info().documents,
        "window": meta["window"],
        "stride": meta["stride"],
        **tuned.retrieval.as_json(),
        **result.as_json(),
        "softmax_temperature": tuned.calibrated.softmax_temperature,
        "unigram_share": tuned.calibrated.unigram_share,
        "valid_tokens": tuned.tokens,
        "valid_interp_ppl": tuned.interp_ppl,
        "tune_seconds": round(tuning, 1),
        "eval_seconds": round(evaluating, 1),
    }
    if given.speed:
        test = own_text(store.entries).open("test")
        prompt = next(iter(test)).text[:400]
        record |= generation(model, prompt, given.tokens, given.repeats)
        text = Excerpts(test, given.build_characters)
        record |= building(store.model, store.entries, text, given.repeats)
        record["repeats"] = given.repeats
    record |= {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "knnlm": knnlm.__version__,
    }
    print(json.dumps(record, indent=1))
    keep_record(given.into, given.name, record)


if __name__ == "__main__":
    main()
