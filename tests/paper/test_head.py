"""The learned head: it begins as the LM on ffn, never ends worse on validation, and is found again."""

from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.components.embeddings import new_embeddings
from knnlm.lm.load import LanguageModel
from knnlm.paper.head import learned_head
from knnlm.states.store import Store
from knnlm.taps.head import output_embedding
from tests.paper.conftest import Smoke


def test_the_output_embedding_over_ffn_is_the_lm(lm: LanguageModel, queries: Store) -> None:
    weight = output_embedding(lm.model).weight.detach().float()
    same = new_embeddings("ffn", weight, torch.ones(len(weight), dtype=torch.int64), "ip")
    states = torch.from_numpy(queries.key("ffn").all().astype(np.float32))
    truth = lm.model.get_output_embeddings()(states).log_softmax(1).detach().double().numpy()
    found = same.target_logprobs(states.numpy(), queries.targets)
    assert np.allclose(found, truth[np.arange(len(found)), queries.targets], atol=1e-5)


@pytest.mark.parametrize("key", ["att", "ffn"])
def test_learning_from_the_store_lowers_the_loss_of_unseen_rows(
    lm: LanguageModel, store: Store, queries: Store, key: str, tmp_path: Path
) -> None:
    head = learned_head(lm.model, store, queries, key, tmp_path)  # type: ignore[arg-type]
    found = -head.component.target_logprobs(queries.key(key).all(), queries.targets).mean()
    assert found == pytest.approx(head.fitted.valid_loss, abs=1e-5)
    weight = output_embedding(lm.model).weight.detach().float()
    begin = new_embeddings(key, weight, torch.ones(len(weight), dtype=torch.int64), "ip")
    assert found < -begin.target_logprobs(queries.key(key).all(), queries.targets).mean()
    assert head.fitted.best_step > 0
    again = learned_head(lm.model, store, queries, key, tmp_path)  # type: ignore[arg-type]
    assert torch.equal(again.component.weight, head.component.weight)


def test_regimes_have_a_learned_head_at_every_point(smoke: Smoke) -> None:
    heads = {n: r["results"] for n, r in smoke.records.items() if r["kind"] == "learned"}
    assert set(heads) == {
        "main_att_learned", "width-16_att_learned", "main_att_learned_step-20", "no-dropout_att_learned_step-40",
    }  # fmt: skip
    for r in heads.values():
        assert r["tuned"]["valid_ppl"] <= r["base"]["valid_ppl"]
        assert 0 <= r["tuned"]["lambda"] <= 1
