"""Training and building beside bare PyTorch loops over the same model and windows, interleaved,
medians.

    .venv/bin/python benchmarks/speed.py [--preset demo] [--steps 40] [--repeats 5]

Prints one JSON object. Ratios are what matters: both sides run in the same minutes on the same
cores."""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from knnlm.datastore import build_entries
from knnlm.hidden_states.forward import BATCH_TOKENS
from knnlm.models.load import load_model
from knnlm.models.presets import Preset, new_model, preset_named
from knnlm.text.portions import Excerpts
from knnlm.text.python_docs import PythonDocsSplit
from knnlm.text.tokenizer import encode_documents, joined_tokens, train_tokenizer
from knnlm.text.windows import cut_windows
from knnlm.training.language_model import train
from knnlm.training.token_batches import TokenBatches


def bare_training(p: Preset, vocab: int, batches: TokenBatches) -> float:
    """Tokens a second of the smallest loop that trains: forward, loss, backward, clip, step."""
    torch.manual_seed(0)
    model = new_model(p, vocab, 0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=p.lr, fused=True)
    began = time.perf_counter()
    for step in range(p.steps):
        ids = torch.from_numpy(batches.at(step))
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return p.steps * batches.batch * p.context / (time.perf_counter() - began)


def our_training(p: Preset, text: Excerpts, valid: Excerpts) -> float:
    """Tokens a second of `knnlm train`, its validation and checkpoints included."""
    with tempfile.TemporaryDirectory() as folder:
        return train(text, valid, p, Path(folder) / "model").tokens_per_second


@torch.inference_mode()
def bare_forward(folder: Path, text: Excerpts, window: int) -> float:
    """Input tokens a second of the model's body over the same windows, full batches, nothing
    kept."""
    lm = load_model(folder)
    pieces = [
        torch.from_numpy(e.tokens[w.start : w.stop].astype("int64"))
        for e in encode_documents(lm.tokenizer, text)
        for w in cut_windows(len(e.tokens), window, window // 2)
    ]
    pieces.sort(key=len, reverse=True)
    size = BATCH_TOKENS // window
    groups = [pieces[i : i + size] for i in range(0, len(pieces), size)]
    began = time.perf_counter()
    for group in groups:
        ids = torch.nn.utils.rnn.pad_sequence(group, batch_first=True)
        lm.model.base_model(input_ids=ids, use_cache=False)
    return sum(map(len, pieces)) / (time.perf_counter() - began)


def our_build(folder: Path, text: Excerpts, window: int) -> float:
    """Input tokens a second of `knnlm build` with both keys, tokenizing and writing included."""
    lm = load_model(folder)
    total = sum(
        w.stop - w.start
        for e in encode_documents(lm.tokenizer, text)
        for w in cut_windows(len(e.tokens), window, window // 2)
    )
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        build_entries(lm, text, Path(out) / "store", window=window)
        return total / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    p = replace(
        preset_named(given.preset), steps=given.steps, valid_every=given.steps, valid_tokens=4096
    )
    text, valid = Excerpts(PythonDocsSplit("train"), 1500), Excerpts(PythonDocsSplit("valid"), 1500)
    tokenizer = train_tokenizer((d.text for d in text), p.vocab_size)
    batches = TokenBatches(joined_tokens(tokenizer, text), p.context, p.batch, 0)
    rates: dict[str, list[float]] = {
        name: [] for name in ("bare training", "training", "bare forward", "build")
    }
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder)
        new_model(p, len(tokenizer), 0).save_pretrained(model)
        tokenizer.save_pretrained(model)
        for _ in range(given.repeats):
            rates["bare training"].append(bare_training(p, len(tokenizer), batches))
            rates["training"].append(our_training(p, text, valid))
            rates["bare forward"].append(bare_forward(model, text, p.context))
            rates["build"].append(our_build(model, text, p.context))
    medians: dict[str, float] = {
        f"{name}, tokens/s": round(statistics.median(values)) for name, values in rates.items()
    }
    for ours, bare in (("training", "bare training"), ("build", "bare forward")):
        pairs = zip(rates[ours], rates[bare], strict=True)
        medians[f"{ours} / {bare}"] = round(statistics.median(a / b for a, b in pairs), 3)
    print(json.dumps({"preset": p.name, "repeats": given.repeats, **medians}, indent=1))


if __name__ == "__main__":
    main()
