"""The texts of single tokens make up the text, whatever letters they split."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knnlm.text import TextPieces, token_texts
from knnlm.text.tokenizer import encode_prompt, train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """Its vocabulary has bytes and a few English pairs: other letters are several tokens."""
    return train_tokenizer(["the cat sat on the mat, and the dog too. "] * 20, 290)


HALF = "\N{REPLACEMENT CHARACTER}"


@given(st.text(st.characters() | st.sampled_from([HALF, "é", "🐶"])))
def test_joined_they_are_the_text(tokenizer: Any, text: str) -> None:
    tokens = encode_prompt(tokenizer, text)[1:]
    assert "".join(token_texts(tokenizer, tokens)) == text


def test_a_letter_comes_with_the_last_of_its_tokens(tokenizer: Any) -> None:
    tokens = encode_prompt(tokenizer, "a🐶b")[1:]
    assert token_texts(tokenizer, tokens) == ["a", "", "", "", "🐶", "b"]
    assert token_texts(tokenizer, tokens[:3]) == ["a", "", "�"]


def test_a_letter_that_a_prompt_began_is_completed(tokenizer: Any) -> None:
    tokens = encode_prompt(tokenizer, "a🐶b")[1:]
    pieces = TextPieces(tokenizer, tokens[:3])
    assert [pieces.add(token) for token in tokens[3:]] == ["", "🐶", "b"]


@pytest.mark.parametrize("end", ["", HALF, HALF * 5])
def test_a_prompt_is_not_repeated(tokenizer: Any, end: str) -> None:
    """Its last letter may be the one that also stands for half a letter."""
    prompt, new = (encode_prompt(tokenizer, text)[1:] for text in ("the cat" + end, " sat é"))
    pieces = TextPieces(tokenizer, prompt)
    assert "".join([*(pieces.add(token) for token in new), pieces.end()]) == " sat é"


def test_half_a_letter_that_the_reader_does_not_have_is_handed_out(tokenizer: Any) -> None:
    dog = encode_prompt(tokenizer, "a🐶b")[1:]
    for new, text in ((dog[3:], "🐶b"), (dog[-1:], f"{HALF}b")):
        pieces = TextPieces(tokenizer, dog[:3], whole=False)
        assert "".join(pieces.add(token) for token in new) == text


def test_bytes_that_never_become_a_letter_are_not_decoded_again_and_again(tokenizer: Any) -> None:
    half = encode_prompt(tokenizer, "🐶")[1]
    counting = _Counting(tokenizer)
    pieces = TextPieces(counting, [])
    text = "".join([*(pieces.add(half) for _ in range(500)), pieces.end()])
    assert text == HALF * 500
    assert counting.longest < 200


class _Counting:
    """A tokenizer that notes the most tokens it decoded at once."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer, self.longest = tokenizer, 0

    def decode(self, ids: list[int], **how: Any) -> str:
        self.longest = max(self.longest, len(ids))
        return str(self.tokenizer.decode(ids, **how))


def test_special_tokens_are_shown_where_asked_for(tokenizer: Any) -> None:
    bos = tokenizer.bos_token_id
    assert token_texts(tokenizer, [bos])[0] == tokenizer.bos_token
    assert TextPieces(tokenizer, []).add(bos) == ""
