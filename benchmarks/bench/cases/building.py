"""Building and training, beside bare PyTorch loops over the same windows and batches.

A bare pass runs the model's body over padded batches and keeps nothing. It is timed in two ways:
all cores on one batch after the other, as a loop is usually written, and one core for each batch,
as builds do. Both get windows that are tokenized, sorted by length over the whole text and padded
before the clock starts. Builds tokenize, read two states, convert, write, flush and checksum.

Training is compared with a bare loop, and with one that scores the same validation windows at its
end; ours validates and saves in both. A shortened run is saved as often as it is validated, which
is once in so many fewer updates than in the preset."""

import itertools
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from bench.setting import Setting
from bench.timing import Comparison, compared
from knnlm.datastore import build_entries
from knnlm.hidden_states import BATCH_TOKENS
from knnlm.models import LanguageModel, Preset, load_model, new_model, preset_named
from knnlm.text import Source, cut_windows, encode_documents, joined_tokens, train_tokenizer
from knnlm.text.portions import Excerpts, FirstDocuments
from knnlm.text.python_docs import PythonDocsSplit
from knnlm.training.language_model import VALIDATION_BATCH, train
from knnlm.training.token_batches import TokenBatches, validation_windows
from knnlm.workers import on_all_cores

TITLE = "Building and training"
_LOOP_TOKENS = 4096
"""Tokens of a batch where all cores share it."""
_SECONDS = 10.0
"""About how long one build of a given model should take."""
_AIM = 0.95


def measure(setting: Setting) -> dict[str, Any]:
    """Builds of the demo's model and of the models of the given stores, and the demo's training."""
    size = 200 if setting.quick else 1500
    text, valid = (Excerpts(PythonDocsSplit(split), size) for split in ("train", "valid"))
    preset = preset_named("demo")
    lm = _demo_model(preset, text)
    rows = _building("demo", lm, text, preset.context, preset.context // 2, setting)
    rows += _training(preset, lm.tokenizer, text, valid, setting)
    for pair in setting.stores:
        store, _ = pair.open()
        lm = load_model(store.table.manifest["summary"]["model_source"])
        window, stride = store.meta["window"], store.meta["stride"]
        some = _seconds_of_text(lm, window, stride)
        rows += _building(pair.name, lm, some, window, stride, setting)
    return {"comparisons": rows}


def _demo_model(preset: Preset, text: Source) -> LanguageModel:
    tokenizer = train_tokenizer((d.text for d in text), preset.vocab_size)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        new_model(preset, len(tokenizer), 0).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return load_model(folder)


def _padded(lm: LanguageModel, text: Source, window: int, stride: int) -> list[torch.Tensor]:
    """All windows, longest first: one sequence each."""
    pieces = [
        torch.from_numpy(e.tokens[w.start : w.stop].astype("int64"))
        for e in encode_documents(lm.tokenizer, text)
        for w in cut_windows(len(e.tokens), window, stride)
    ]
    return sorted(pieces, key=len, reverse=True)


def _batches(pieces: list[torch.Tensor], most: int) -> list[torch.Tensor]:
    batches: list[list[torch.Tensor]] = []
    for piece in pieces:
        if batches and len(batches[-1][0]) * (len(batches[-1]) + 1) <= most:
            batches[-1].append(piece)
        else:
            batches.append([piece])
    return [pad_sequence(batch, batch_first=True) for batch in batches]


def _seconds_of_text(lm: LanguageModel, window: int, stride: int) -> Source:
    """As many documents as take a few seconds."""
    documents, some = 4, FirstDocuments(PythonDocsSplit("train"), 4)
    while True:
        batches = _batches(_padded(lm, some, window, stride), _LOOP_TOKENS)
        began = time.perf_counter()
        _bare_pass(lm, batches[0])
        took = (time.perf_counter() - began) * len(batches)
        if took > _SECONDS / 2 or documents > 500:
            return some
        documents *= 2
        some = FirstDocuments(PythonDocsSplit("train"), documents)


@torch.inference_mode()
def _bare_pass(lm: LanguageModel, ids: torch.Tensor) -> None:
    lm.model.base_model(input_ids=ids, use_cache=False)


def _building(
    name: str, lm: LanguageModel, text: Source, window: int, stride: int, setting: Setting
) -> list[dict[str, Any]]:
    pieces = _padded(lm, text, window, stride)
    wide, narrow = _batches(pieces, _LOOP_TOKENS), _batches(pieces, BATCH_TOKENS)
    tokens = sum(map(len, pieces))

    number = itertools.count()

    def ours() -> None:
        folder = Path(out) / str(next(number))  # removed after the clock has stopped
        build_entries(lm, text, folder, window=window, stride=stride)

    def loop() -> None:
        for ids in wide:
            _bare_pass(lm, ids)

    def on_cores() -> None:
        on_all_cores(lambda ids: _bare_pass(lm, ids), narrow)

    rivals = {
        "bare passes, all cores on each batch": loop,
        "bare passes, one core for each batch": on_cores,
    }
    with tempfile.TemporaryDirectory(dir=setting.work) as out:
        return [
            compared(
                f"{name}: build, {tokens:,} tokens read in windows of {window}",
                rival,
                "tokens/s",
                tokens,
                ours,
                theirs,
                setting.repeats,
                aim=None if setting.quick else _AIM,
            )
            for rival, theirs in rivals.items()
        ]


def _training(
    preset: Preset, tokenizer: Any, text: Source, valid: Source, setting: Setting
) -> list[dict[str, Any]]:
    """The preset's recipe, shortened: as much validation for each update, more saving."""
    steps = 5 if setting.quick else 50
    share = steps / preset.valid_every
    short = replace(
        preset,
        steps=steps,
        valid_every=steps,
        valid_tokens=max(preset.context, round(preset.valid_tokens * share)),
    )
    batches = TokenBatches(joined_tokens(tokenizer, text), short.context, short.batch, 0)
    windows = validation_windows(joined_tokens(tokenizer, valid), short.context, short.valid_tokens)
    ours, alone, validated = list[float](), list[float](), list[float]()
    for _ in range(1 + setting.repeats):
        with tempfile.TemporaryDirectory(dir=setting.work) as out:
            ours.append(train(text, valid, short, Path(out) / "model").tokens_per_second)
        updates, validation = _bare_training(short, len(tokenizer), batches, windows)
        tokens = steps * batches.batch * short.context
        alone.append(tokens / updates)
        validated.append(tokens / (updates + validation))
    loop = "bare loop: forward, loss, backward, clip, step"
    return [
        Comparison(
            subject=f"{short.name}: training, {steps} updates, validation and saving included",
            rival=rival,
            unit="tokens/s",
            ours=ours[1:],  # the first round warms up
            theirs=theirs[1:],
            aim=None if setting.quick else _AIM,
        ).as_json()
        for rival, theirs in ((loop, alone), (f"{loop}; the same validation", validated))
    ]


def _bare_training(
    preset: Preset, vocab: int, batches: TokenBatches, windows: NDArray[np.int64]
) -> tuple[float, float]:
    """Seconds that the updates of the smallest loop that trains take, and its validation."""
    torch.manual_seed(0)
    model = new_model(preset, vocab, 0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=preset.lr, fused=True)
    began = time.perf_counter()
    for step in range(preset.steps):
        ids = torch.from_numpy(batches.at(step))
        _bare_loss(model, ids).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    trained = time.perf_counter()
    model.eval()
    with torch.inference_mode():
        for some in torch.from_numpy(windows).split(VALIDATION_BATCH):
            _bare_loss(model, some)
    return trained - began, time.perf_counter() - trained


def _bare_loss(model: Any, ids: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
