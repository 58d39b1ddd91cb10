"""Learning from a datastore: it starts as the LM on ffn, never ends worse, and is found again."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.components.base import QueryArrays
from knnlm.components.head import Head
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries
from knnlm.errors import KnnlmError
from knnlm.evaluation.mixing import fit_lambda, mix
from knnlm.hidden_states import StateReader
from knnlm.hidden_states.output_head import output_embedding
from knnlm.models.load import LanguageModel
from knnlm.training.fit import FitSettings
from knnlm.training.initial import initial_module
from knnlm.training.kinds import ComponentSpec
from knnlm.training.learn import learn
from knnlm.training.objectives import InterpolatedLoss
from tests.search.conftest import built as built
from tests.search.conftest import queries as queries
from tests.search.conftest import store as store

QUICK = FitSettings(lr=1e-2, epochs=3, patience=3)


def test_the_output_embedding_over_ffn_is_the_lm(lm: LanguageModel, queries: Entries) -> None:
    weight = output_embedding(lm.model).weight.detach().float()
    same = Head(("ffn",), weight, torch.ones(len(weight), dtype=torch.int64), "ip", 1.0)
    ids = torch.from_numpy(queries.targets[:16].astype(np.int64))[None]
    reader = StateReader(lm.model, ["ffn"])
    with torch.inference_mode():
        states, truth = reader.read(ids).ffn[0], lm.model(input_ids=ids).logits[0].log_softmax(1)
    reader.close()
    assert torch.allclose(same.logprobs(states), truth, atol=1e-5)
    stored = same.target_logprobs(queries)
    assert np.allclose(stored, queries.lm_logprob, atol=5e-3)  # states in fp16


@pytest.mark.parametrize(
    "spec",
    [
        ComponentSpec(keys=("att",)),
        ComponentSpec(keys=("ffn",), size=3, metric="l2"),
        ComponentSpec(kind="mixture-of-softmaxes", keys=("att",), size=2),
        ComponentSpec(kind="mlp", keys=("att", "ffn"), size=8),
    ],
    ids=lambda spec: spec.kind + str(spec.size),
)
def test_learning_lowers_the_loss_of_unseen_entries(
    lm: LanguageModel, store: Entries, queries: Entries, spec: ComponentSpec, tmp_path: Path
) -> None:
    w_sm = output_embedding(lm.model).weight
    head = learn(initial_module(spec, w_sm), store, queries, tmp_path, QUICK, about=asdict(spec))
    logs = head.component.target_logprobs(queries)
    lm_logs = queries.lm_logprob
    mixed = -mix(lm_logs, logs, fit_lambda(lm_logs, logs)).mean()
    assert mixed == pytest.approx(head.fit.valid_loss, abs=1e-5)
    assert mixed < -lm_logs.mean() - 1e-3
    assert head.fit.best_step > 0
    again = learn(initial_module(spec, w_sm), store, queries, tmp_path, QUICK, about=asdict(spec))
    assert again.fit == head.fit
    learned, once_more = (list(c.tensors().values()) for c in (head.component, again.component))
    assert all(torch.equal(a, b) for a, b in zip(learned, once_more, strict=True))
    assert not any(t.requires_grad for t in learned)


def test_the_interpolated_loss_is_that_of_the_mixture(
    lm: LanguageModel, store: Entries, queries: Entries, texts: dict[str, Path], tmp_path: Path
) -> None:
    from knnlm.text.local_files import Files

    w_sm = output_embedding(lm.model).weight
    with_lm = build_entries(lm, Files((texts["train"],)), tmp_path / "with", logprobs=True)
    head = learn(
        initial_module(ComponentSpec(), w_sm),
        with_lm,
        queries,
        tmp_path / "head",
        QUICK,
        objective=InterpolatedLoss(0.25, with_lm.lm_logprob),
        about={},
    )
    plain = learn(
        initial_module(ComponentSpec(), w_sm), with_lm, queries, tmp_path / "plain", QUICK, about={}
    )
    entries = QueryArrays(with_lm.key("att").all(), with_lm.targets)
    losses = [
        -mix(with_lm.lm_logprob, h.component.target_logprobs(entries), 0.25).mean()
        for h in (head, plain)
    ]
    assert losses[0] < losses[1]  # each is best at what it was asked for
    with pytest.raises(KnnlmError, match="log"):  # this store was built without the LM's log p
        InterpolatedLoss(0.25, store.lm_logprob)
    with pytest.raises(KnnlmError, match="choose between 0 and 1"):
        learn(
            initial_module(ComponentSpec(), w_sm),
            with_lm,
            queries,
            tmp_path / "other",
            QUICK,
            objective=InterpolatedLoss(1.0, with_lm.lm_logprob),
            about={},
        )
