"""Tokens a second of generate(): the kNN-LM beside its own base LM, one text and eight at once."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from bench.setting import Setting, StorePair
from bench.timing import compared
from knnlm import KNNLM, Datastore, PythonDocs, train
from knnlm.components import QueryArrays
from knnlm.datastore import Entries
from knnlm.models import preset_named

TITLE = "Generation"
_LAM = 0.25
_PROMPT = 32
_UNIT_QUERIES = 256
_AIMS = {"stories15M": 0.9, "SmolLM2": 0.95}
"""kNN tokens/s ÷ base tokens/s with one text, by the beginning of a store's name."""


def measure(setting: Setting) -> dict[str, Any]:
    """Each store's default index, or that of a small LM and the embedded text."""
    stores = setting.stores or (_small(setting),)
    rows = [row for pair in stores for row in _compare(pair, setting)]
    return {"comparisons": rows}


def _small(setting: Setting) -> StorePair:
    """A small LM, hardly trained, and the documentation of this Python."""
    preset = preset_named("demo")
    name = f"small LM, {preset.width} wide"
    model, store, queries = (
        setting.work / f"generation-{preset.name}-{part}" for part in ("model", "store", "queries")
    )
    few = replace(preset, name=f"{preset.name}-few", steps=40, valid_every=20, valid_tokens=2000)
    train(PythonDocs(), model, preset=few)
    built = Datastore.build(model, PythonDocs().open("train"), store, keys=("att",))
    # states of a hardly trained LM are often equal, and only one of them counts as the true one
    built.build_index(recall=0.5)
    Datastore.build(model, PythonDocs().open("test"), queries, keys=("att",))
    return StorePair(name, store, queries)


def _compare(pair: StorePair, setting: Setting) -> list[dict[str, Any]]:
    store, (_, text) = Datastore.open(pair.store), pair.open()
    if not store.indexes:
        store.build_index()
    knn_lm = KNNLM(store, lam=_LAM, tau=_unit(KNNLM(store, lam=_LAM, tau=1.0), text))
    mixed, new = knn_lm.to_transformers(), 16 if setting.quick else 64
    aim = next((aim for name, aim in _AIMS.items() if pair.name.startswith(name)), None)
    rows = []
    for batch in (1, 8):
        prompts = _prompts(text, batch)

        def work(model: Any, prompts: torch.Tensor = prompts) -> None:
            model.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=new,
                min_new_tokens=new,
                do_sample=False,
                pad_token_id=0,
            )

        rows.append(
            compared(
                f"{pair.name}, {len(store):,} entries, batch {batch}: {new} tokens",
                "its base LM",
                "tokens/s",
                batch * new,
                lambda: work(mixed),
                lambda: work(mixed.base),
                setting.repeats,
                aim=aim if batch == 1 else None,
            )
        )
    return rows


def _unit(knn_lm: KNNLM, text: Entries) -> float:
    """The component's own unit of τ, on some states spread over a text."""
    component = knn_lm.component
    rows = np.linspace(0, len(text.targets) - 1, _UNIT_QUERIES).astype(int)
    states = text.states(component.keys)[rows].astype(np.float32)
    return component.target_scores(QueryArrays(states, text.targets[rows])).unit


def _prompts(text: Entries, batch: int) -> torch.Tensor:
    """Passages of a text, spread over it."""
    starts = np.linspace(0, len(text.targets) - _PROMPT - 1, batch + 2).astype(int)[1:-1]
    return torch.from_numpy(np.stack([text.targets[s : s + _PROMPT] for s in starts]).astype("i8"))
