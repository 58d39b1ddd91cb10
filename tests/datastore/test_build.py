"""Text + model → store: one row for each token that can be predicted, in order, with its place."""

import copy
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from knnlm.datastore.build import build_entries
from knnlm.datastore.entries import Entries, open_entries
from knnlm.datastore.part_files import DocumentInfo
from knnlm.errors import KnnlmError, UsageError
from knnlm.hidden_states import StateReader
from knnlm.models.load import LanguageModel
from knnlm.text.documents import Document, count_words
from knnlm.text.tokenizer import train_tokenizer

from .helpers import Texts, contents, library, sentence, texts


def tokens_of(lm: LanguageModel, document: Document) -> NDArray[np.int32]:
    """The document as the tokenizer itself gives it, after the token that begins a text."""
    ids = lm.tokenizer(document.text, add_special_tokens=False)["input_ids"]
    return np.array([lm.tokenizer.bos_token_id, *ids], np.int32)


def holds_each_token_once(store: Entries, lm: LanguageModel, source: Texts) -> None:
    documents = [(d, tokens_of(lm, d)) for d in source if d.text]
    np.testing.assert_array_equal(store.targets, np.concatenate([t[1:] for _, t in documents]))
    columns = store.table.columns
    places = [np.arange(1, len(t)) for _, t in documents]
    np.testing.assert_array_equal(columns["position"].all(), np.concatenate(places))
    numbers = np.repeat(np.arange(len(documents)), [len(p) for p in places])
    np.testing.assert_array_equal(columns["document"].all(), numbers)
    assert {len(column) for column in columns.values()} == {store.count}
    assert store.documents == [
        DocumentInfo(d.name, len(t), len(d.text.split()), int(t[0])) for d, t in documents
    ]
    assert store.words == sum(len(d.text.split()) for d in source)
    assert store.table.manifest["summary"]["documents"] == len(documents)


@pytest.mark.pipeline
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    st.integers(1, 20).flatmap(lambda w: st.tuples(st.just(w), st.integers(1, w))),
    st.integers(1, 120),
    st.integers(1, 80),
)
@settings(max_examples=30)
def test_every_token_has_exactly_one_row_for_any_lengths_windows_and_parts(
    lm: LanguageModel, words: list[int], window: tuple[int, int], part_rows: int, group: int
) -> None:
    source = texts(*words)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("knnlm.datastore.build.GROUP_TOKENS", group)
        store = build_entries(
            lm,
            source,
            Path(folder),
            keys=["ffn"],
            window=window[0],
            stride=window[1],
            part_rows=part_rows,
        )
        holds_each_token_once(store, lm, source)
        assert all(part["rows"] >= part_rows for part in store.table.manifest["parts"][:-1])
        assert (store.meta["window"], store.meta["stride"]) == window


def test_words_that_count_line_ends_are_summed_over_documents(
    tmp_path: Path, lm: LanguageModel
) -> None:
    source = Texts(
        [Document("w", " = A = \n\n b c \n", line_ends=True), Document("p", "one two\n")]
    )
    store = build_entries(lm, source, tmp_path)
    assert (
        [d.words for d in store.documents]
        == [count_words(d.text, d.line_ends) for d in source]
        == [8, 2]
    )
    assert store.words == 10


def test_a_document_of_one_token_has_one_row(tmp_path: Path, lm: LanguageModel) -> None:
    store = build_entries(lm, Texts([Document("one", "x")]), tmp_path, logprobs=True)
    assert store.count == 1
    np.testing.assert_array_equal(store.targets, tokens_of(lm, Document("one", "x"))[1:])
    assert store.context(0, 5).size == 0
    assert np.isfinite(store.lm_logprob).all()


def test_without_a_first_token_a_text_loses_its_first_token_and_a_document_of_one_has_no_entry(
    tmp_path: Path, lm: LanguageModel
) -> None:
    tokenizer = copy.deepcopy(lm.tokenizer)
    tokenizer.bos_token = None
    source = Texts([Document("one", "x"), Document("three", "x y z")])
    store = build_entries(lm._replace(tokenizer=tokenizer), source, tmp_path)
    wanted = tokens_of(lm, source.documents[1])[1:]
    np.testing.assert_array_equal(store.targets, wanted[1:])
    assert [d.name for d in store.documents] == ["three"]
    assert store.documents[0].first_token == wanted[0]
    assert store.words == 2


@pytest.mark.parametrize("source", [Texts([]), texts(0), texts(0, 0)])
def test_an_empty_text_is_one_sentence(tmp_path: Path, lm: LanguageModel, source: Texts) -> None:
    with pytest.raises(KnnlmError, match="the text is empty: there is nothing to predict in it"):
        build_entries(lm, source, tmp_path)
    assert contents(tmp_path) == {}


def test_a_token_that_the_model_cannot_predict_is_one_sentence(
    tmp_path: Path, lm: LanguageModel
) -> None:
    words = " ".join(f"word{i}" for i in range(400))
    larger = train_tokenizer([words] * 3, lm.vocab_size + 200)
    source = Texts([Document("fine", "a b"), Document("strange", words)])
    with pytest.raises(
        KnnlmError,
        match=f"document strange has token .* predicts only {lm.vocab_size}: use the tok",
    ):
        build_entries(lm._replace(tokenizer=larger), source, tmp_path)


def test_unknown_names_and_impossible_windows_are_wrong_usage(
    tmp_path: Path, lm: LanguageModel
) -> None:
    with pytest.raises(UsageError, match="unknown dtype 'float8': .*choose one of float16"):
        build_entries(lm, library(), tmp_path, dtype="float8")
    with pytest.raises(UsageError, match="unknown key 'attn': did you mean 'att'"):
        build_entries(lm, library(), tmp_path, keys=["attn"])
    with pytest.raises(UsageError, match="window 9999 is longer than the model's"):
        build_entries(lm, library(), tmp_path, window=9999)
    assert contents(tmp_path) == {}


def test_the_default_window_is_what_the_model_can_read_and_the_stride_half_of_it(
    tmp_path: Path, lm: LanguageModel
) -> None:
    store = build_entries(lm, library(), tmp_path)
    assert lm.positions is not None
    assert (store.meta["window"], store.meta["stride"]) == (lm.positions, lm.positions // 2)


@pytest.mark.parametrize("keys", [("att",), ("ffn",), ("att", "ffn")])
def test_only_the_columns_asked_for_are_stored(
    tmp_path: Path, lm: LanguageModel, keys: tuple[str, ...]
) -> None:
    store = build_entries(lm, library(), tmp_path, keys=keys)
    assert set(store.table.columns) == {*keys, "target", "document", "position"}
    assert store.keys == keys
    for key in keys:
        assert store.key(key).all().shape == (store.count, lm.model.config.hidden_size)
    for missing in {"att", "ffn"} - set(keys):
        with pytest.raises(
            KnnlmError, match=f"holds no '{missing}' states .*: build it with `keys` {missing}"
        ):
            store.key(missing)
    with pytest.raises(KnnlmError, match="holds no LM log-probabilities: build it with `logprobs`"):
        _ = store.lm_logprob


def test_the_output_embedding_runs_only_where_log_probabilities_are_asked_for(
    tmp_path: Path, lm: LanguageModel
) -> None:
    calls = []
    handle = lm.model.get_output_embeddings().register_forward_hook(lambda *_: calls.append(1))
    try:
        StateReader(lm.model)
        probes = len(calls)
        build_entries(lm, library(), tmp_path / "without")
        assert len(calls) == 2 * probes
        build_entries(lm, library(), tmp_path / "with", logprobs=True)
        assert len(calls) > 3 * probes
    finally:
        handle.remove()


def test_two_builds_of_the_same_text_are_the_same_bytes(tmp_path: Path, lm: LanguageModel) -> None:
    for name in ("one", "other"):
        build_entries(lm, library(), tmp_path / name, logprobs=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert (
        open_entries(tmp_path / "one").fingerprint == open_entries(tmp_path / "other").fingerprint
    )


def test_stores_of_different_texts_have_different_fingerprints(
    tmp_path: Path, lm: LanguageModel
) -> None:
    made = [Texts([Document("d", sentence(20, seed))]) for seed in range(3)]
    stores = [build_entries(lm, source, tmp_path / str(i)) for i, source in enumerate(made)]
    assert len({store.fingerprint for store in stores}) == 3


def test_copies_inside_a_text_are_counted(
    tmp_path: Path, lm: LanguageModel, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [
        Document(f"{n}", "the cat sat on a mat" if n % 3 else f"mat {n}") for n in range(9)
    ]
    build_entries(lm, Texts(documents), tmp_path)
    assert "note: 5 of 9 documents are copies of others" in caplog.text
