"""A reader reads the states it names, and leaves the model as it was."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.hidden_states import FAMILIES, KEYS, StateReader, States, checked_keys
from tests.hidden_states import models
from tests.hidden_states.by_hand import att_by_hand


@pytest.fixture(params=sorted(models.VARIANTS))
def model(request: pytest.FixtureRequest) -> Any:
    return models.VARIANTS[request.param]()


def hooks(model: Any) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def test_every_family_is_tested() -> None:
    assert set(models.FAMILIES) == set(FAMILIES)


@torch.inference_mode()
def test_att_is_what_the_last_feed_forward_layer_reads(model: Any) -> None:
    ids = models.some_tokens()
    att = StateReader(model).read(ids).of("att")
    assert att.shape == (3, 17, 32)
    torch.testing.assert_close(att, att_by_hand(model, ids), rtol=1e-5, atol=1e-6)


@torch.inference_mode()
def test_ffn_is_what_the_output_embedding_reads(model: Any) -> None:
    ids = models.some_tokens()
    read: list[torch.Tensor] = []
    head = model.get_output_embeddings()
    handle = head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    last = model(input_ids=ids, output_hidden_states=True).hidden_states[-1]
    handle.remove()
    ffn = StateReader(model).read(ids).of("ffn")
    torch.testing.assert_close(ffn, read[0])
    torch.testing.assert_close(ffn, last)


@torch.inference_mode()
def test_the_head_of_ffn_gives_the_models_own_logits(model: Any) -> None:
    ids = models.some_tokens()
    reader = StateReader(model)
    torch.testing.assert_close(reader.logits(reader.read(ids).ffn), model(input_ids=ids).logits)


@torch.inference_mode()
def test_a_state_depends_on_nothing_to_its_right(model: Any) -> None:
    ids = models.some_tokens(rows=1)
    changed = ids.clone()
    changed[0, 9:] = (changed[0, 9:] + 1) % models.VOCABULARY
    one, other = (StateReader(model).read(x) for x in (ids, changed))
    for key in KEYS:
        torch.testing.assert_close(one.of(key)[:, :9], other.of(key)[:, :9])
        assert not torch.allclose(one.of(key)[:, 9:], other.of(key)[:, 9:])


@torch.inference_mode()
def test_rows_of_a_batch_do_not_mix(model: Any) -> None:
    ids = models.some_tokens(rows=3)
    reader = StateReader(model)
    together = reader.read(ids)
    for i in range(3):
        alone = reader.read(ids[i : i + 1])
        for key in KEYS:
            torch.testing.assert_close(together.of(key)[i], alone.of(key)[0], rtol=1e-4, atol=1e-6)


def test_the_model_is_left_as_it_was_found(model: Any) -> None:
    before, forward = model.state_dict(), {id(m): m.forward.__func__ for m in model.modules()}
    wanted = model(input_ids=models.some_tokens()).logits
    with StateReader(model) as reader:
        reader.read(models.some_tokens())
    assert hooks(model) == 0
    assert all(
        "forward" not in vars(m) and m.forward.__func__ is forward[id(m)] for m in model.modules()
    )
    assert all(torch.equal(t, model.state_dict()[name]) for name, t in before.items())
    torch.testing.assert_close(model(input_ids=models.some_tokens()).logits, wanted)


def test_hooks_are_removed_when_the_model_fails(model: Any) -> None:
    with pytest.raises(IndexError), StateReader(model) as reader:
        reader.read(torch.tensor([[models.VOCABULARY + 5]]))
    assert hooks(model) == 0


def test_hooks_are_removed_when_a_model_is_refused() -> None:
    model = models.gpt2()
    model.transformer.ln_f.weight.data[0] = float("nan")
    with pytest.raises(KnnlmError):
        StateReader(model)
    assert hooks(model) == 0


@torch.inference_mode()
def test_calls_of_other_threads_and_of_nobody_are_not_mixed_up(model: Any) -> None:
    ids = models.some_tokens(rows=12)
    with StateReader(model) as reader:
        alone = [reader.read(ids[i : i + 1]) for i in range(12)]

        def read(i: int) -> States:
            with torch.inference_mode():
                model(input_ids=ids[:2])  # not captured
                return reader.read(ids[i : i + 1])

        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(read, range(12)))
    for one, other in zip(alone, together, strict=True):
        for key in KEYS:
            torch.testing.assert_close(one.of(key), other.of(key))


def test_attaching_does_not_disturb_calls_of_other_threads() -> None:
    model = models.make("Llama")
    ids = models.some_tokens()
    with torch.inference_mode():
        wanted = model(input_ids=ids).logits
    stop = threading.Event()

    def call() -> list[bool]:
        undisturbed = []
        with torch.inference_mode():
            while not stop.is_set():
                undisturbed.append(torch.equal(model(input_ids=ids).logits, wanted))
        return undisturbed

    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(call)
        for _ in range(20):
            StateReader(model).close()
        stop.set()
        assert calls.result()
        assert all(calls.result())


def test_a_reader_says_what_it_reads(model: Any) -> None:
    with StateReader(model) as reader:
        description = reader.describe()
    assert description["ffn"] == "input of the output embedding"
    assert ".1" in description["att"]


@torch.inference_mode()
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_too(kind: torch.dtype) -> None:
    model = models.make("Llama").to(kind)
    ids = models.some_tokens()
    with StateReader(model) as reader:
        states = reader.read(ids)
        assert states.of("att").dtype == kind
        logits = reader.logits(states.ffn)
    torch.testing.assert_close(logits, model(input_ids=ids).logits)


@torch.inference_mode()
def test_a_module_given_by_its_path_is_read() -> None:
    model = models.make("Llama")
    ids = models.some_tokens()
    with StateReader(model) as known, StateReader(model, att_module="model.layers.1.mlp") as named:
        torch.testing.assert_close(named.read(ids).of("att"), known.read(ids).of("att"))
        assert named.describe()["att"] == "input of model.layers.1.mlp, as named by --att-module"


@torch.inference_mode()
def test_only_what_is_asked_for_is_read(model: Any) -> None:
    ids = models.some_tokens()
    states = StateReader(model, ["ffn"]).read(ids)
    assert states.att is None
    torch.testing.assert_close(states.ffn, StateReader(model).read(ids).ffn)


@torch.inference_mode()
def test_the_output_embedding_is_not_run_to_read_states(model: Any) -> None:
    reader = StateReader(model)
    runs: list[int] = []
    model.get_output_embeddings().register_forward_hook(lambda *_: runs.append(1))
    reader.read(models.some_tokens())
    assert runs == []


def test_the_widths_are_those_of_the_states(model: Any) -> None:
    assert StateReader(model).widths() == {"att": 32, "ffn": 32}
    assert StateReader(model, ["ffn"]).widths() == {"ffn": 32}


def test_keys_come_out_once_and_in_a_fixed_order() -> None:
    assert checked_keys(["ffn", "att", "ffn"]) == ("att", "ffn")
    assert checked_keys(["ffn"]) == ("ffn",)


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        UsageError, match=r"unknown key 'fnn': did you mean 'ffn'\? choose one of att, ffn"
    ):
        checked_keys(["att", "fnn"])
