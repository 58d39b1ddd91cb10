"""A store knows its documents, the text around a row, and the model that made it."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import open_entries
from knnlm.errors import KnnlmError
from knnlm.hidden_states import StateReader
from knnlm.hidden_states.verify import probe_tokens
from knnlm.models.load import LanguageModel, load_model, model_fingerprint
from knnlm.text.documents import Document
from knnlm.text.tokenizer import tokenizer_fingerprint, train_tokenizer

from .helpers import Texts, library, sentence
from .test_build import holds_each_token_once, tokens_of


def test_a_store_of_several_parts_holds_each_token_once(pristine: Path, lm: LanguageModel) -> None:
    store = open_entries(pristine)
    holds_each_token_once(store, lm, library())
    numbers = store.table.columns["document"].all()
    cuts = np.cumsum([part["rows"] for part in store.table.manifest["parts"]])[:-1]
    assert any(numbers[cut - 1] == numbers[cut] for cut in cuts), (
        "no document reaches into the next part"
    )


@pytest.mark.parametrize("before", [0, 1, 4, 1000])
def test_context_is_the_text_before_the_target_and_stays_in_its_document(
    pristine: Path, lm: LanguageModel, before: int
) -> None:
    store = open_entries(pristine)
    row = 0
    for document in library():
        ids = tokens_of(lm, document)
        for place in range(1, len(ids)):
            np.testing.assert_array_equal(
                store.context(row, before), ids[max(1, place - before) : place]
            )
            assert store.document_of(row) == document.name
            row += 1
    assert row == store.count


def test_the_model_that_made_a_store_is_accepted_also_when_opened_again(
    pristine: Path, lm: LanguageModel, tiny_model: Path
) -> None:
    open_entries(pristine).require_model(lm)
    open_entries(str(pristine)).require_model(load_model(tiny_model))


def test_another_model_is_refused_even_if_one_weight_differs(
    pristine: Path, lm: LanguageModel
) -> None:
    model = copy.deepcopy(lm.model)
    with torch.no_grad():
        model.model.decoder.layers[0].fc1.bias[0] += 1e-3
    other = lm._replace(model=model, source="elsewhere", fingerprint=model_fingerprint(model))
    with pytest.raises(
        KnnlmError,
        match=rf"built with another model \({lm.source}\) than elsewhere: use that model",
    ):
        open_entries(pristine).require_model(other)


def test_another_tokenizer_is_refused(pristine: Path, lm: LanguageModel) -> None:
    tokenizer = train_tokenizer([sentence(200, seed=5)], 280)
    other = lm._replace(tokenizer=tokenizer, tokenizer_fingerprint=tokenizer_fingerprint(tokenizer))
    with pytest.raises(
        KnnlmError, match="built with another tokenizer than the one of .*: restore that tokenizer"
    ):
        open_entries(pristine).require_model(other)


def loud(lm: LanguageModel) -> LanguageModel:
    """The model with a residual stream that half precision cannot hold."""
    model = copy.deepcopy(lm.model)
    with torch.no_grad():
        model.model.decoder.layers[-1].fc2.bias[3] = 70_000.0
    return lm._replace(model=model, fingerprint=model_fingerprint(model))


def test_states_beyond_half_precision_are_refused_with_the_option_that_holds_them(
    tmp_path: Path, lm: LanguageModel
) -> None:
    with pytest.raises(
        KnnlmError, match="some ffn values do not fit float16: build with --dtype float32"
    ):
        build_entries(loud(lm), library(), tmp_path / "half")
    store = build_entries(loud(lm), library(), tmp_path / "full", dtype="float32", logprobs=True)
    assert (store.key("ffn").all()[:, 3] > 65_504).all()
    assert build_entries(loud(lm), library(), tmp_path / "att", keys=["att"]).count == store.count


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_states_that_are_no_numbers_are_never_stored(
    tmp_path: Path, lm: LanguageModel, dtype: str
) -> None:
    model = copy.deepcopy(lm.model)
    with StateReader(lm.model) as reader:
        probed = set(probe_tokens(reader).flatten().tolist())
    token = next(
        t for t in tokens_of(lm, Document("all", sentence(99, 1))).tolist() if t not in probed
    )
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = torch.inf
    remedy = "build with --dtype float32" if dtype == "float16" else "the model is broken"
    with pytest.raises(KnnlmError, match=f"values do not fit {dtype}: {remedy}"):
        build_entries(
            lm._replace(model=model),
            Texts([Document("all", sentence(99, 1))]),
            tmp_path,
            dtype=dtype,
        )
