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


@given(st.text(st.characters(exclude_characters="\N{REPLACEMENT CHARACTER}")))
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


def test_special_tokens_are_shown_where_asked_for(tokenizer: Any) -> None:
    bos = tokenizer.bos_token_id
    assert token_texts(tokenizer, [bos])[0] == tokenizer.bos_token
    assert TextPieces(tokenizer, []).add(bos) == ""
