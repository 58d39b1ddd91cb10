"""Stores made from stores: rows, targets and states are what was asked for."""

import numpy as np
import pytest
import torch

import knnlm.paper.derive as module
from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries, open_entries
from knnlm.hidden_states import StateReader
from knnlm.models.load import LanguageModel
from knnlm.paper.calibrated import Calibration, calibrate, calibrated_logprobs, tempered_logprobs
from knnlm.paper.derive import derive, normalized, principal_components, subsample
from knnlm.paper.other_states import other_state


def test_a_part_of_a_store_keeps_states_and_tokens_together(store: Entries) -> None:
    rows = subsample(store.count, 0.3, draw=1)
    part = derive(store, store.path.parent / "part", ("att",), {"fraction": 0.3}, rows=rows)
    assert part.count == len(rows) == round(0.3 * store.count)
    assert np.array_equal(part.targets, store.targets[rows])
    assert np.array_equal(part.key("att").all(), store.key("att").gather(rows))


def test_draws_are_different_parts_and_each_is_repeatable() -> None:
    a, b = subsample(1000, 0.1, 0), subsample(1000, 0.1, 1)
    assert len(np.intersect1d(a, b)) < 50
    assert np.array_equal(a, subsample(1000, 0.1, 0))
    assert len(np.unique(a)) == 100


@pytest.mark.pipeline
def test_an_interrupted_derivation_goes_on(store: Entries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 100)
    calls = []

    def fails_later(states: np.ndarray) -> np.ndarray:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return normalized(states)

    out = store.path.parent / "normed"
    with pytest.raises(KeyboardInterrupt):
        derive(store, out, ("ffn",), {"change": "LayerNorm"}, change=fails_later)
    found = derive(store, out, ("ffn",), {"change": "LayerNorm"}, change=normalized)
    whole = normalized(store.key("ffn").all().astype(np.float32)).astype(np.float16)
    assert np.array_equal(found.key("ffn").all(), whole)


def test_normalising_is_a_layer_norm_without_gain_or_bias(store: Entries) -> None:
    states = torch.from_numpy(store.key("ffn").read(0, 50).astype(np.float32))
    truth = torch.nn.functional.layer_norm(states, states.shape[1:])
    assert np.allclose(normalized(states.numpy()), truth.numpy(), atol=1e-4)


def test_all_principal_components_keep_distances(store: Entries) -> None:
    width = store.key("att").type.width
    change = principal_components(store, "att", width)
    some = store.key("att").read(0, 50).astype(np.float32)
    turned = change(some)
    before = ((some[:, None] - some[None]) ** 2).sum(-1)
    after = ((turned[:, None] - turned[None]) ** 2).sum(-1)
    assert np.allclose(before, after, rtol=1e-3, atol=1e-3)
    assert change(some)[:, :3] == pytest.approx(
        principal_components(store, "att", 3)(some), abs=1e-4
    )


def test_att_before_its_norm_becomes_att_by_that_norm(lm: LanguageModel, store: Entries) -> None:
    block = lm.model.model.decoder.layers[-1]
    ids = torch.arange(2, 14)[None]
    with torch.inference_mode(), StateReader(lm.model, ("att",)) as reader:
        att = reader.read(ids).of("att")
    with (
        torch.inference_mode(),
        StateReader(lm.model, ("att",), instead=other_state(lm.model, "att-raw")) as reader,
    ):
        raw = reader.read(ids).of("att")
        assert torch.allclose(block.final_layer_norm(raw), att, atol=1e-6)
        assert not torch.allclose(raw, att, atol=1e-2)
    with (
        torch.inference_mode(),
        StateReader(lm.model, ("att",), instead=other_state(lm.model, "att-earlier")) as reader,
    ):
        earlier = reader.read(ids).of("att")
        below = lm.model.model.decoder.layers[-2]
        x = lm.model.model.decoder(input_ids=ids, output_hidden_states=True).hidden_states[-3]
    with torch.inference_mode():
        mask = torch.full((12, 12), float("-inf")).triu(1)[None, None]
        attended = below.self_attn(below.self_attn_layer_norm(x), attention_mask=mask)[0]
        assert torch.allclose(below.final_layer_norm(x + attended), earlier, atol=1e-5)


def test_a_store_of_another_state_says_so(
    lm: LanguageModel, store: Entries, texts: dict[str, object]
) -> None:
    from knnlm.text.documents import local_text

    out = store.path.parent / "raw"
    build_entries(
        lm,
        local_text([str(texts["valid"])], "valid"),
        out,
        keys=("att",),
        instead=other_state(lm.model, "att-raw"),
    )
    assert open_entries(out).meta["taps"]["att"] == "input of the last block's norm"


def test_a_calibration_that_changes_nothing_is_the_lm(
    lm: LanguageModel, queries: Entries, store: Entries
) -> None:
    ffn = queries.key("ffn").all()
    same = calibrated_logprobs(
        lm.model, ffn, queries.targets, store.targets, store.vocab_size, Calibration(1.0, 0.0, 0.0)
    )
    assert np.allclose(same, queries.lm_logprob, atol=2e-2)  # states are stored in fp16


def test_calibration_is_not_worse_than_the_lm_or_the_unigrams(
    lm: LanguageModel, queries: Entries, store: Entries
) -> None:
    ffn = queries.key("ffn").all()
    found = calibrate(lm.model, ffn, queries.targets, store.targets, store.vocab_size)
    assert (
        found.valid_ppl
        <= np.exp(-tempered_logprobs(lm.model, ffn, queries.targets, 1.0).mean()) + 1e-6
    )
    assert 0 <= found.share <= 1
    assert 1 / 8 <= found.temperature <= 8
