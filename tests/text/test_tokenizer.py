"""Documents become token ids, and words are counted as the tokens are predicted."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import KnnlmError
from knnlm.text import tokenizer as module
from knnlm.text.documents import Document
from knnlm.text.tokenizer import (
    END_OF_TEXT,
    EncodedDocument,
    encode,
    token_stream,
    tokenizer_fingerprint,
    train_tokenizer,
)

TEXT = "The quick brown fox jumps over the lazy dog, again and again.\n" * 20


def trained(text: str = TEXT, vocab_size: int = 290) -> Any:
    return train_tokenizer([text], vocab_size)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return trained()


@pytest.fixture(scope="module")
def without_bos(tokenizer: Any) -> Any:
    changed = copy.deepcopy(tokenizer)
    changed.bos_token = None
    return changed


def one(tokenizer: Any, text: str, line_ends: bool = False) -> EncodedDocument:
    (found,) = encode(tokenizer, [Document("d", text, line_ends)])
    return found


@given(st.text(min_size=1))
def test_any_text_comes_back_as_it_was(tokenizer: Any, text: str) -> None:
    found = one(tokenizer, text)
    assert tokenizer.decode(found.tokens[1:]) == text


@pytest.mark.parametrize(
    "text",
    [
        "\r\n\t\x00",
        "naïve café",
        "日本語のテキスト",
        "👩‍👩‍👧 \u202e",
        " .  , ' s  n't",
        f"a {END_OF_TEXT} b",
    ],
)
def test_odd_text_comes_back_as_it_was(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(one(tokenizer, text).tokens[1:]) == text


def test_a_tokenizer_has_the_size_asked_for_and_merges_what_is_frequent(tokenizer: Any) -> None:
    assert len(tokenizer) == 290
    assert len(one(tokenizer, " quick").tokens) < len(one(tokenizer, " kciuq").tokens)


def test_a_document_begins_with_the_beginning_of_sequence_token(tokenizer: Any) -> None:
    found = one(tokenizer, "again")
    assert found.tokens[0] == tokenizer.bos_token_id
    assert found.tokens.dtype == np.int32
    assert found.name == "d"


def test_all_words_are_counted_where_all_tokens_are_predicted(tokenizer: Any) -> None:
    assert one(tokenizer, "The quick\nfox \n").words == 3
    assert one(tokenizer, "The quick\nfox \n", line_ends=True).words == 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("again and again", 2),  # the first token is the first word
        ("Qagain and again", 3),  # the first token is a letter of the first word
        (" again and again", 2),
        ("\nagain and again", 3),
    ],
)
def test_without_such_a_token_the_unpredicted_first_word_is_not_counted(
    text: str, words: int
) -> None:
    tokenizer = trained("again and again " * 20, 300)
    tokenizer.bos_token = None
    found = one(tokenizer, text)
    assert found.words == words
    assert tokenizer.decode(found.tokens) == text


def test_without_such_a_token_a_first_line_end_is_not_counted_either(
    tokenizer: Any, without_bos: Any
) -> None:
    assert one(without_bos, "\nfox fox\n", line_ends=True).words == 3
    assert one(tokenizer, "\nfox fox\n", line_ends=True).words == 4


def test_documents_with_nothing_to_predict_are_left_out(tokenizer: Any, without_bos: Any) -> None:
    documents = [
        Document("empty", ""),
        Document("a", "fox"),
        Document("none", ""),
        Document("single", "f"),
    ]
    assert [e.name for e in encode(tokenizer, documents)] == ["a", "single"]
    assert [e.name for e in encode(without_bos, documents)] == ["a"]


def test_documents_stay_in_order_and_batching_changes_nothing(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document(str(i), TEXT[i : i + 40 + i % 7]) for i in range(50)]
    together = list(encode(tokenizer, documents))
    assert [e.name for e in together] == [d.name for d in documents]
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 100)
    for one_way, other in zip(together, encode(tokenizer, documents), strict=True):
        assert one_way.words == other.words
        np.testing.assert_array_equal(one_way.tokens, other.tokens)


def test_documents_are_read_as_they_are_needed(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 100)
    read: list[int] = []

    def documents() -> Any:
        for i in range(1000):
            read.append(i)
            yield Document(str(i), "x" * 50)

    next(encode(tokenizer, documents()))
    assert len(read) < 5


def test_a_tokenizer_that_truncates_or_pads_is_not_allowed_to(tokenizer: Any) -> None:
    changed = copy.deepcopy(tokenizer)
    changed.backend_tokenizer.enable_truncation(4)
    changed.backend_tokenizer.enable_padding(length=500)
    np.testing.assert_array_equal(one(changed, TEXT).tokens, one(tokenizer, TEXT).tokens)


def test_training_sees_all_documents_one_after_the_other(tokenizer: Any) -> None:
    stream = token_stream(
        tokenizer, [Document("a", "fox"), Document("b", ""), Document("c", "dog")]
    )
    assert tokenizer.decode(stream) == f"{END_OF_TEXT}fox{END_OF_TEXT}dog"


@pytest.mark.parametrize("documents", [[], [Document("a", "")]])
def test_an_empty_text_is_refused(tokenizer: Any, documents: list[Document]) -> None:
    with pytest.raises(KnnlmError, match=r"the text is empty: give a file with text in it"):
        token_stream(tokenizer, documents)


def test_the_same_text_trains_the_same_tokenizer(tokenizer: Any) -> None:
    assert tokenizer_fingerprint(trained()) == tokenizer_fingerprint(tokenizer)


def test_the_fingerprint_changes_with_the_vocabulary_and_with_the_first_token(
    tokenizer: Any, without_bos: Any
) -> None:
    others = [trained(vocab_size=291), trained(TEXT.replace("fox", "cat")), without_bos]
    prints = {tokenizer_fingerprint(t) for t in [tokenizer, *others]}
    assert len(prints) == 4


def test_text_that_spells_a_special_token_stays_text() -> None:
    tokenizer = train_tokenizer(["some plain text"], 300)
    text = f"before {END_OF_TEXT} after"
    (encoded,) = encode(tokenizer, [Document("page", text)])
    assert (
        encoded.tokens.tolist().count(tokenizer.bos_token_id) == 1
    )  # the one that begins the document
    assert tokenizer.decode(encoded.tokens[1:]) == text


def test_encoding_leaves_the_callers_tokenizer_as_it_was() -> None:
    tokenizer = train_tokenizer(["some plain text"], 300)
    tokenizer.backend_tokenizer.enable_truncation(3)
    before = tokenizer_fingerprint(tokenizer)
    (encoded,) = encode(tokenizer, [Document("page", "far more than three tokens of text")])
    assert len(encoded.tokens) > 4
    assert tokenizer_fingerprint(tokenizer) == before
