"""Documents become token ids, and words are counted as the tokens are predicted."""

import copy
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.errors import UsageError
from knnlm.text import tokenizer as module
from knnlm.text.documents import Document
from knnlm.text.tokenizer import (
    END_OF_TEXT,
    EncodedDocument,
    decode_continuation,
    encode_documents,
    encode_prompt,
    joined_tokens,
    reading_as_text,
    tokenizer_fingerprint,
    train_tokenizer,
    with_bos,
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


def encode_one(tokenizer: Any, text: str, line_ends: bool = False) -> EncodedDocument:
    (encoded,) = encode_documents(tokenizer, [Document("d", text, line_ends)])
    return encoded


@given(st.text(min_size=1))
def test_any_text_comes_back_as_it_was(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(encode_one(tokenizer, text).tokens[1:]) == text


@given(st.text(min_size=1))
def test_tokens_and_words_do_not_depend_on_whether_offsets_are_kept(
    tokenizer: Any, text: str
) -> None:
    rules = tokenizer.backend_tokenizer
    kept = rules.encode(text, add_special_tokens=False).ids
    encoded = encode_one(tokenizer, text)
    assert [tokenizer.bos_token_id, *kept] == encoded.tokens.tolist()
    assert encoded.words == len(text.split())


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
    assert tokenizer.decode(encode_one(tokenizer, text).tokens[1:]) == text


def test_a_tokenizer_has_the_size_asked_for_and_merges_what_is_frequent(tokenizer: Any) -> None:
    assert len(tokenizer) == 290
    assert len(encode_one(tokenizer, " quick").tokens) < len(encode_one(tokenizer, " kciuq").tokens)


def test_a_document_begins_with_the_beginning_of_sequence_token(tokenizer: Any) -> None:
    encoded = encode_one(tokenizer, "again")
    assert encoded.tokens[0] == tokenizer.bos_token_id
    assert encoded.tokens.dtype == np.int32
    assert encoded.name == "d"


def test_all_words_are_counted_where_all_tokens_are_predicted(tokenizer: Any) -> None:
    assert encode_one(tokenizer, "The quick\nfox \n").words == 3
    assert encode_one(tokenizer, "The quick\nfox \n", line_ends=True).words == 5


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
    encoded = encode_one(tokenizer, text)
    assert encoded.words == words
    assert tokenizer.decode(encoded.tokens) == text


def test_without_such_a_token_a_first_line_end_is_not_counted_either(
    tokenizer: Any, without_bos: Any
) -> None:
    assert encode_one(without_bos, "\nfox fox\n", line_ends=True).words == 3
    assert encode_one(tokenizer, "\nfox fox\n", line_ends=True).words == 4


def test_documents_with_nothing_to_predict_are_left_out(tokenizer: Any, without_bos: Any) -> None:
    documents = [
        Document("empty", ""),
        Document("a", "fox"),
        Document("none", ""),
        Document("single", "f"),
    ]
    assert [e.name for e in encode_documents(tokenizer, documents)] == ["a", "single"]
    assert [e.name for e in encode_documents(without_bos, documents)] == ["a"]


def test_documents_stay_in_order_and_batching_changes_nothing(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document(str(i), TEXT[i : i + 40 + i % 7]) for i in range(50)]
    at_once = list(encode_documents(tokenizer, documents))
    assert [e.name for e in at_once] == [d.name for d in documents]
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 100)
    for one, other in zip(at_once, encode_documents(tokenizer, documents), strict=True):
        assert one.words == other.words
        np.testing.assert_array_equal(one.tokens, other.tokens)


def test_documents_are_read_as_they_are_needed(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 100)
    read: list[int] = []

    def documents() -> Any:
        for i in range(1000):
            read.append(i)
            yield Document(str(i), "x" * 50)

    next(encode_documents(tokenizer, documents()))
    assert len(read) < 5


def test_a_tokenizer_that_truncates_or_pads_is_not_allowed_to(tokenizer: Any) -> None:
    changed = copy.deepcopy(tokenizer)
    changed.backend_tokenizer.enable_truncation(4)
    changed.backend_tokenizer.enable_padding(length=500)
    np.testing.assert_array_equal(
        encode_one(changed, TEXT).tokens, encode_one(tokenizer, TEXT).tokens
    )


def test_training_sees_all_documents_one_after_the_other(tokenizer: Any) -> None:
    tokens = joined_tokens(
        tokenizer, [Document("a", "fox"), Document("b", ""), Document("c", "dog")]
    )
    assert tokenizer.decode(tokens) == f"{END_OF_TEXT}fox{END_OF_TEXT}dog"


@pytest.mark.parametrize("documents", [[], [Document("a", "")]])
def test_an_empty_text_has_no_tokens(tokenizer: Any, documents: list[Document]) -> None:
    tokens = joined_tokens(tokenizer, documents)
    assert len(tokens) == 0
    assert tokens.dtype == np.int32


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
    (encoded,) = encode_documents(tokenizer, [Document("page", text)])
    assert (
        encoded.tokens.tolist().count(tokenizer.bos_token_id) == 1
    )  # the one that begins the document
    assert tokenizer.decode(encoded.tokens[1:]) == text


def test_encoding_leaves_the_callers_tokenizer_as_it_was() -> None:
    tokenizer = train_tokenizer(["some plain text"], 300)
    tokenizer.backend_tokenizer.enable_truncation(3)
    before = tokenizer_fingerprint(tokenizer)
    (encoded,) = encode_documents(
        tokenizer, [Document("page", "far more than three tokens of text")]
    )
    assert len(encoded.tokens) > 4
    assert tokenizer_fingerprint(tokenizer) == before


@given(st.text(min_size=1), st.integers(0, 20))
def test_text_before_and_continuation_make_up_the_text(tokenizer: Any, text: str, cut: int) -> None:
    ids = encode_prompt(tokenizer, text)
    before, new = ids[: 1 + cut], ids[1 + cut :]
    if "\ufffd" in tokenizer.decode(before) + tokenizer.decode(new):
        return  # the cut is inside a character
    whole = decode_continuation(tokenizer, [], before) + decode_continuation(tokenizer, before, new)
    assert whole == text


def test_a_continuation_keeps_a_space_that_its_tokens_alone_would_lose() -> None:
    class Stripping:
        """Drops the space before the first token, as SentencePiece tokenizers do."""

        def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
            words = ["<s>", " the", " cat", " sat"]
            return "".join(
                words[t] for t in tokens if t > 0 or not skip_special_tokens
            ).removeprefix(" ")

    assert decode_continuation(Stripping(), [0, 1], [2, 3]) == " cat sat"
    assert decode_continuation(Stripping(), [], [2, 3]) == "cat sat"
    assert decode_continuation(Stripping(), [1], [0, 2]) == " cat"
    assert decode_continuation(Stripping(), [1], [0, 2], special=True) == "<s> cat"


def test_a_prompt_begins_as_a_document_does(tokenizer: Any, without_bos: Any) -> None:
    assert encode_prompt(tokenizer, "fox") == encode_one(tokenizer, "fox").tokens.tolist()
    assert encode_prompt(tokenizer, "") == [tokenizer.bos_token_id]
    assert encode_prompt(without_bos, "fox") == encode_one(without_bos, "fox").tokens.tolist()


def test_a_prompt_with_nothing_in_it_or_bad_unicode_is_refused(without_bos: Any) -> None:
    with pytest.raises(UsageError, match="the prompt is empty, and this model has no token"):
        encode_prompt(without_bos, "")
    with pytest.raises(UsageError, match="the prompt is not valid UTF-8"):
        encode_prompt(without_bos, "\udc80")


def test_a_tokenizer_with_bos_begins_texts_as_documents_begin(
    tokenizer: Any, without_bos: Any
) -> None:
    changed = with_bos(tokenizer)
    assert changed("fox").input_ids == encode_one(tokenizer, "fox").tokens.tolist()
    assert tokenizer("fox").input_ids == changed("fox").input_ids[1:]
    assert with_bos(changed) is changed
    assert with_bos(without_bos) is without_bos


@given(st.text(st.sampled_from("ab <|endoftext>\n"), max_size=40))
def test_a_tokenizer_that_reads_as_text_reads_prompts(
    tokenizer: Any, without_bos: Any, text: str
) -> None:
    for each in (tokenizer, without_bos):
        if text or each.bos_token_id is not None:
            assert reading_as_text(each)(text).input_ids == encode_prompt(each, text)


def test_a_tokenizer_that_reads_as_text_survives_copies_and_processes(
    tokenizer: Any, without_bos: Any
) -> None:
    for each in (tokenizer, without_bos):
        reading = reading_as_text(each)
        # what multiprocessing does to send it to a worker of a DataLoader
        sent = ForkingPickler.loads(ForkingPickler.dumps(reading))
        for other in (copy.deepcopy(reading), sent):
            text = "a <|endoftext|> b"
            assert other(text).input_ids == encode_prompt(each, text)
            assert type(other).__name__ == type(each).__name__
