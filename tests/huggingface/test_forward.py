"""forward(): log P at the positions asked for, a loss of the mixture, any number of callers at
once."""

import copy
import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.huggingface import KNNLMForCausalLM
from tests.hidden_states import models
from tests.huggingface.making import Made, dense, knn_lm

pytestmark = pytest.mark.pipeline

IDS = [0, 45, 67, 89, 120, 31, 88]


@torch.inference_mode()
@pytest.mark.parametrize("key", ["att", "ffn"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("lam", [0.0, 0.25, 1.0])
def test_logits_are_the_log_of_the_equation(
    text: Path, tokenizer: Any, tmp_path: Path, key: str, metric: str, lam: float
) -> None:
    made = knn_lm(
        models.gpt2(), tokenizer, text, tmp_path / "store", key=key, metric=metric, lam=lam
    )
    logits = made.model(input_ids=torch.tensor([IDS])).logits[0]
    assert logits.dtype == torch.float32
    np.testing.assert_allclose(
        logits.double().exp().numpy(), dense(made, IDS), rtol=1e-3, atol=1e-7
    )
    torch.testing.assert_close(logits.logsumexp(-1), torch.zeros(len(IDS)), atol=1e-5, rtol=0)


@torch.inference_mode()
@pytest.mark.parametrize(
    "family", ["llama", "opt", "gptj", "falcon"]
)  # falcon and gptj: with and without slicing
def test_positions_to_keep_are_a_number_or_a_list(
    text: Path, tokenizer: Any, tmp_path: Path, family: str
) -> None:
    model = knn_lm(models.FAMILIES[family](), tokenizer, text, tmp_path / "store").model
    ids = torch.tensor([IDS, IDS[::-1]])
    whole = model(input_ids=ids).logits
    torch.testing.assert_close(model(input_ids=ids, logits_to_keep=2).logits, whole[:, -2:])
    some = torch.tensor([1, 4, 5])
    torch.testing.assert_close(model(input_ids=ids, logits_to_keep=some).logits, whole[:, some])


@torch.inference_mode()
def test_the_loss_is_that_of_the_mixture_and_skips_ignored_labels(made: Made) -> None:
    labels = torch.tensor([IDS])
    p = dense(made, IDS)
    wanted = [-np.log(p[t, IDS[t + 1]]) for t in range(len(IDS) - 1)]
    assert made.model(input_ids=labels, labels=labels).loss.item() == pytest.approx(
        np.mean(wanted), abs=1e-5
    )
    some = labels.clone()
    some[0, [1, 3]] = -100
    kept = [w for t, w in enumerate(wanted) if t + 1 not in (1, 3)]
    assert made.model(input_ids=labels, labels=some).loss.item() == pytest.approx(
        np.mean(kept), abs=1e-5
    )


def test_a_loss_of_some_positions_is_refused(made: Made) -> None:
    ids = torch.tensor([IDS])
    with pytest.raises(UsageError, match="a loss needs every position: leave logits_to_keep out"):
        made.model(input_ids=ids, labels=ids, logits_to_keep=1)


@torch.inference_mode()
def test_embeddings_instead_of_tokens(made: Made) -> None:
    ids = torch.tensor([IDS])
    wanted = made.model(input_ids=ids).logits
    torch.testing.assert_close(
        made.model(inputs_embeds=made.model.get_input_embeddings()(ids)).logits, wanted
    )


@torch.inference_mode()
def test_half_precision_gives_full_precision_log_probabilities(
    text: Path, tokenizer: Any, tmp_path: Path
) -> None:
    model = knn_lm(
        models.make("Llama").to(torch.bfloat16), tokenizer, text, tmp_path / "store"
    ).model
    logits = model(input_ids=torch.tensor([IDS])).logits
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits.logsumexp(-1), torch.zeros(1, len(IDS)), atol=1e-5, rtol=0)
    assert model.generate(
        torch.tensor([IDS]), max_new_tokens=3, do_sample=False, pad_token_id=0
    ).shape == (1, 10)


def test_concurrent_calls_give_what_single_ones_do(made: Made) -> None:
    prompts = [[0, 40 + i, 60 + 3 * i, 90 + i] for i in range(16)]

    def generate(prompt: list[int]) -> list[int]:
        ids = torch.tensor([prompt])
        found = made.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=6,
            do_sample=False,
            pad_token_id=0,
        )
        return [int(t) for t in found[0]]

    wanted = [generate(p) for p in prompts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(generate, prompts)) == wanted


def test_it_is_not_trained_and_has_nothing_to_train(made: Made) -> None:
    assert not made.model.training
    assert not any(p.requires_grad for p in made.model.parameters())


def test_another_models_store_is_refused(
    made: Made, text: Path, tokenizer: Any, tmp_path: Path
) -> None:
    other = knn_lm(models.make("Qwen2"), tokenizer, text, tmp_path / "store")
    with pytest.raises(
        KnnlmError,
        match=r"was built with another model \(tiny\) than tiny: use that model, or build",
    ):
        KNNLMForCausalLM.from_parts(other.lm, made.store, made.tuned)


@torch.inference_mode()
def test_a_copy_says_the_same(made: Made) -> None:
    ids = torch.tensor([IDS])
    torch.testing.assert_close(
        copy.deepcopy(made.model)(input_ids=ids).logits, made.model(input_ids=ids).logits
    )


@torch.inference_mode()
def test_at_another_lambda_everything_is_shared(made: Made) -> None:
    ids = torch.tensor([IDS])
    plain = made.model.at(0.0)
    assert plain.base is made.model.base
    torch.testing.assert_close(
        plain(input_ids=ids).logits, made.lm.model(input_ids=ids).logits.log_softmax(-1)
    )
    assert made.model.config.lam == made.tuned.lam


def test_hooks_go_with_the_last_model_that_needs_them(
    text: Path, tokenizer: Any, tmp_path: Path
) -> None:
    made = knn_lm(models.gpt2(), tokenizer, text, tmp_path / "store")
    base, other = made.lm.model, made.model.at(0.1)

    def hooks() -> int:
        return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in base.modules())

    del made
    gc.collect()
    assert hooks() == 3
    del other
    gc.collect()
    assert hooks() == 0


def test_a_model_turned_into_another_precision_is_refused(
    text: Path, tokenizer: Any, tmp_path: Path
) -> None:
    model = knn_lm(models.gpt2(), tokenizer, text, tmp_path / "store").model.to(torch.bfloat16)
    with pytest.raises(KnnlmError, match=r"was turned into torch.bfloat16 after it was opened"):
        model(input_ids=torch.tensor([IDS]))


@pytest.mark.parametrize("name", ["Mamba", "Rwkv"])
def test_a_model_with_a_state_of_its_own_is_refused(
    text: Path, tokenizer: Any, tmp_path: Path, name: str
) -> None:
    with pytest.raises(KnnlmError, match="keeps a state of its own instead of a cache"):
        knn_lm(models.make(name), tokenizer, text, tmp_path / "store", key="ffn")


@torch.inference_mode()
def test_the_rest_of_the_base_models_output_stays(made: Made) -> None:
    ids = torch.tensor([IDS])
    out = made.model(input_ids=ids, output_hidden_states=True)
    assert len(out.hidden_states) == 3
    assert isinstance(made.model(input_ids=ids, return_dict=False), tuple)


@torch.inference_mode()
def test_looking_says_what_the_equation_says(made: Made) -> None:
    look = made.model.look(torch.tensor(IDS), start=3)
    p = dense(made, IDS)
    wanted = np.log([p[t, IDS[t + 1]] for t in range(2, len(IDS) - 1)])
    np.testing.assert_allclose(look.mixed, wanted, atol=1e-5)
    assert look.near.ids.shape == (4, made.tuned.retrieval.k)
    with pytest.raises(UsageError, match="the first is not predicted"):
        made.model.look(torch.tensor(IDS), start=0)
