"""kNN-LMs of tiny models, and the dense equation beside them, computed without hooks, caches or
search."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from knnlm import equation
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.evaluation.settings import TunedSettings
from knnlm.huggingface import KNNLMForCausalLM
from knnlm.models.load import LanguageModel, model_fingerprint
from knnlm.search.retrieval import Retrieval
from knnlm.text.local_files import Files
from knnlm.text.tokenizer import tokenizer_fingerprint
from tests.hidden_states.by_hand import att_by_hand

K, LAM = 50, 0.4
PROMPTS = [[0, 45, 67, 89, 120], [0, 77, 131]]
NEW = 8
GREEDY: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}


class Made(NamedTuple):
    """A base LM, its datastore, the settings, and the model under test."""

    lm: LanguageModel
    store: Entries
    tuned: TunedSettings
    model: KNNLMForCausalLM


def knn_lm(model: Any, tokenizer: Any, text: Path, out: Path, **changes: Any) -> Made:
    """A kNN-LM whose neighbors matter: τ is of the size of their distances."""
    lm = LanguageModel(
        model, tokenizer, "tiny", model_fingerprint(model), tokenizer_fingerprint(tokenizer)
    )
    store = build_entries(lm, Files((text,)), out, window=32, dtype=changes.get("dtype", "float32"))
    key = changes.get("key", "att")
    spread = float(np.var(store.key(key).all().astype(np.float64)) * 8)
    retrieval = Retrieval(
        key=key, metric=changes.get("metric", "l2"), k=K, index=changes.get("index")
    )
    tuned = TunedSettings(retrieval=retrieval, lam=changes.get("lam", LAM), tau=spread)
    return Made(lm, store, tuned, KNNLMForCausalLM.from_settings(lm, store, tuned))


@torch.inference_mode()
def dense(made: Made, ids: list[int]) -> NDArray[np.float64]:
    """P (T, V) after each token of `ids`: the equation of equation.py."""
    tokens = torch.tensor([ids])
    out = made.lm.model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    how, lam = made.tuned.retrieval, made.tuned.lam
    assert how is not None
    h_ds = att_by_hand(made.lm.model, tokens) if how.key == "att" else out.hidden_states[-1]
    w_ds = np.asarray(made.store.key(how.key).all(), np.float64)
    scores = equation.similarity(w_ds, h_ds[0].double().numpy(), how.metric)
    knn = equation.p_knn(scores, made.store.targets, out.logits.shape[-1], how.k, made.tuned.tau)
    return (1 - lam) * equation.softmax(out.logits[0].double().numpy()) + lam * knn


def greedy_by_hand(made: Made, prompt: list[int], new: int = NEW) -> list[int]:
    """The most probable next token, again and again, everything computed again each time."""
    ids = list(prompt)
    for _ in range(new):
        ids.append(int(dense(made, ids)[-1].argmax()))
    return ids


def beams_by_hand(made: Made, prompt: list[int], beams: int, new: int = NEW) -> list[int]:
    """Beam search over the equation."""
    kept = [(0.0, list(prompt))]
    for _ in range(new):
        grown = []
        for score, ids in kept:
            logs = np.log(dense(made, ids)[-1])
            grown += [(score + logs[v], [*ids, int(v)]) for v in np.argsort(-logs)[:beams]]
        kept = sorted(grown, key=lambda pair: -pair[0])[:beams]
    return kept[0][1]


def alone(prompt: list[int]) -> dict[str, torch.Tensor]:
    """A prompt as generate wants it."""
    return {
        "input_ids": torch.tensor([prompt]),
        "attention_mask": torch.ones(1, len(prompt), dtype=torch.long),
    }


def left_padded(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    """Prompts of different lengths in one batch."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    return {"input_ids": ids, "attention_mask": mask}
