"""A text that grows token by token, handed out in pieces that are certain."""

from collections.abc import Sequence
from typing import Any

from knnlm.text.tokenizer import CONTEXT_TOKENS_KEPT, decode_continuation

_HALF_A_LETTER = "\N{REPLACEMENT CHARACTER}"


class TextPieces:
    """Turns new tokens into pieces of text.

    They are decoded from the prompt's last tokens on: alone, a token may lose its leading space or
    be half a letter.

    Args:
        tokenizer: A Hugging Face tokenizer.
        prompt: The tokens before the first new one.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._ids = list(prompt[-CONTEXT_TOKENS_KEPT:])
        self._shown = len(decode_continuation(tokenizer, [], self._ids))

    def add(self, *tokens: int) -> str:
        """Take tokens and return the text that became certain, often "" for a part of a letter."""
        self._ids += tokens
        return self._new(final=False)

    def end(self) -> str:
        """Return what was held back."""
        return self._new(final=True)

    def _new(self, final: bool) -> str:
        text = decode_continuation(self._tokenizer, [], self._ids)
        if len(text) <= self._shown or (not final and text.endswith(_HALF_A_LETTER)):
            return ""
        piece, self._shown = text[self._shown :], len(text)
        return piece
