"""States other than att and ffn, and the calibrated LM."""

import numpy as np
import torch

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries, open_entries
from knnlm.evaluation.calibration import (
    Calibration,
    TemperedLM,
    calibrate,
    calibrated_logprobs,
    unigram_logprobs,
)
from knnlm.hidden_states import StateReader
from knnlm.models.load import LanguageModel
from knnlm_paper.measuring.other_states import other_state


def test_att_before_its_norm_becomes_att_by_that_norm(lm: LanguageModel, store: Entries) -> None:
    block = lm.model.model.decoder.layers[-1]
    ids = torch.arange(2, 14)[None]
    with torch.inference_mode(), StateReader(lm.model, ("att",)) as reader:
        att = reader.read(ids).of("att")
    with (
        torch.inference_mode(),
        StateReader(lm.model, ("att",), replace_att=other_state(lm.model, "att-raw")) as reader,
    ):
        raw = reader.read(ids).of("att")
        assert torch.allclose(block.final_layer_norm(raw), att, atol=1e-6)
        assert not torch.allclose(raw, att, atol=1e-2)
    with (
        torch.inference_mode(),
        StateReader(lm.model, ("att",), replace_att=other_state(lm.model, "att-earlier")) as reader,
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
    from knnlm.text import open_text

    out = store.path.parent / "raw"
    build_entries(
        lm,
        open_text(str(texts["valid"]), "valid"),
        out,
        keys=("att",),
        replace_att=other_state(lm.model, "att-raw"),
    )
    assert open_entries(out).meta["taps"]["att"] == "input of the last block's norm"


def test_a_calibration_that_changes_nothing_is_the_lm(
    lm: LanguageModel, queries: Entries, store: Entries
) -> None:
    scores = TemperedLM(lm.model, queries.key("ffn").all(), queries.targets)
    unigrams = unigram_logprobs(store.targets, queries.targets, store.vocab_size)
    same = calibrated_logprobs(scores, unigrams, Calibration(1.0, 0.0, 0.0))
    assert np.allclose(same, queries.lm_logprob, atol=2e-2)  # states are stored in fp16


def test_calibration_is_not_worse_than_the_lm_or_the_unigrams(
    lm: LanguageModel, queries: Entries, store: Entries
) -> None:
    scores = TemperedLM(lm.model, queries.key("ffn").all(), queries.targets)
    unigrams = unigram_logprobs(store.targets, queries.targets, store.vocab_size)
    calibration = calibrate(scores, scores.logprobs(1.0), unigrams).calibration
    assert calibration.valid_ppl <= np.exp(-scores.logprobs(1.0).mean()) + 1e-6
    assert calibration.valid_ppl <= np.exp(-unigrams.mean()) + 1e-6
    assert 0 <= calibration.share <= 1
    assert calibration.temperature > 0
