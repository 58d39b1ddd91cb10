"""Learning a head from a datastore, beside bare matrix products and learning through the frozen LM.

    .venv/bin/python benchmarks/substitutes.py [--preset laptop] [--batch 256] [--steps 30]
                                               [--repeats 5] [--characters 1500]

Updates of one embedding for each vocabulary entry over att, `batch` entries each, five ways,
interleaved, medians of entries a second:

    store     knnlm.training: entries from the datastore's files, shuffled, loss, backward, AdamW;
              one whole epoch
    memory    the same products, loss and AdamW on one batch that is in memory already
    through   the frozen LM run over the windows that give the same entries, then the same update
    bare      the same with windows that do not overlap, so that most tokens have less context than
              the datastore's
    dropout   as bare, with dropout on in the frozen LM: what the paper's code does (and what keeps
              a CPU busy drawing)

The others make `steps` updates. `--preset paper --batch 3072 --characters 60 --steps 2 --repeats 3`
has the shape of the paper's LM, whose body is worth several of its output embedding (the laptop's
is not), and its window for a batch. Prints one JSON object. The model is not trained: speed does
not depend on what its weights are.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

from knnlm.datastore import build_entries
from knnlm.datastore.entries import Entries
from knnlm.hidden_states import StateReader
from knnlm.hidden_states.output_head import output_embedding
from knnlm.models.load import LanguageModel, load_model
from knnlm.models.presets import new_model, preset_named
from knnlm.text.portions import Excerpts
from knnlm.text.python_docs import PythonDocsSplit
from knnlm.text.tokenizer import joined_tokens, train_tokenizer
from knnlm.training.entry_batches import EntryBatches
from knnlm.training.initial import initial_module
from knnlm.training.kinds import ComponentSpec
from knnlm.training.learn import BATCH


class Head:
    """A head and its optimizer."""

    def __init__(self, lm: LanguageModel) -> None:
        self.module = initial_module(ComponentSpec(), output_embedding(lm.model).weight)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=1e-4, fused=True)

    def update(self, states: torch.Tensor, targets: torch.Tensor) -> None:
        """One step."""
        self.module.component().target_losses(states, targets).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def from_store(lm: LanguageModel, store: Entries, rows: int) -> float:
    """Rows a second of an epoch, reading and shuffling included."""
    began = time.perf_counter()
    head, batches = Head(lm), EntryBatches([store.key("att")], store.targets, rows, seed=0)
    for step in range(batches.steps_per_epoch):
        batch = batches.at(step)
        head.update(batch.states, batch.targets)
    return batches.steps_per_epoch * rows / (time.perf_counter() - began)


def from_memory(lm: LanguageModel, store: Entries, rows: int, steps: int) -> float:
    """Rows a second of the same update on a batch that is there."""
    head, batch = Head(lm), EntryBatches([store.key("att")], store.targets, rows, seed=0).at(0)
    began = time.perf_counter()
    for _ in range(steps):
        head.update(batch.states, batch.targets)
    return steps * rows / (time.perf_counter() - began)


def through_the_lm(
    lm: LanguageModel,
    tokens: torch.Tensor,
    windows_of: tuple[int, int],
    rows: int,
    steps: int,
    dropout: bool = False,
) -> float:
    """Rows a second where the LM is run for every batch; of each window its last `stride` tokens
    are learned from."""
    context, stride = windows_of
    head, reader = Head(lm), StateReader(lm.model, ["att", "ffn"])
    windows = max(1, rows // stride)
    assert windows * stride == rows, "the same rows an update as the others"
    pieces = tokens.unfold(0, context + 1, stride)
    lm.model.train(dropout)
    began = time.perf_counter()
    for step in range(steps):
        ids = pieces[torch.arange(step * windows, (step + 1) * windows) % len(pieces)]
        with torch.no_grad():
            states = (
                reader.read(ids[:, :-1])
                .of("att")[:, -stride:]
                .reshape(windows * stride, -1)
                .float()
            )
        head.update(states, ids[:, -stride:].reshape(-1))
    lm.model.eval()
    reader.close()
    return steps * rows / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--characters", type=int, default=1500, help="of each document of the text")
    given = parser.parse_args()
    p = preset_named(given.preset)
    if given.batch % p.context:
        parser.error(f"--batch must be a multiple of the preset's window: --batch {p.context}")
    text = Excerpts(PythonDocsSplit("train"), given.characters)
    rates: dict[str, list[float]] = {
        name: [] for name in ("store", "memory", "through", "bare", "dropout")
    }
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = train_tokenizer((d.text for d in PythonDocsSplit("train")), p.vocab_size)
        new_model(p, len(tokenizer), 0).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        lm = load_model(folder)
        store = build_entries(lm, text, Path(folder) / "store", keys=["att"])
        tokens = torch.from_numpy(joined_tokens(tokenizer, text).astype("int64"))
        for _ in range(given.repeats):
            rates["store"].append(from_store(lm, store, given.batch))
            rates["memory"].append(from_memory(lm, store, given.batch, given.steps))
            for name, stride in (
                ("through", p.context // 2),
                ("bare", p.context),
                ("dropout", p.context),
            ):
                windows_of = (p.context, stride)
                rate = through_the_lm(
                    lm, tokens, windows_of, given.batch, given.steps, dropout=name == "dropout"
                )
                rates[name].append(rate)
    medians: dict[str, float] = {
        f"{name}, rows/s": round(statistics.median(values)) for name, values in rates.items()
    }
    for other in ("memory", "through", "bare", "dropout"):
        pairs = zip(rates["store"], rates[other], strict=True)
        medians[f"store / {other}"] = round(statistics.median(a / b for a, b in pairs), 3)
    print(
        json.dumps(
            {
                "preset": p.name,
                "vocabulary": len(tokenizer),
                "rows": store.count,
                "batch": given.batch,
                "repeats": given.repeats,
                **medians,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
