"""A text that grows token by token, handed out in pieces that are certain."""

from collections.abc import Sequence
from typing import Any

from knnlm.text.tokenizer import CONTEXT_TOKENS_KEPT, decode_continuation

HALF_A_LETTER = "\N{REPLACEMENT CHARACTER}"
_BYTES_OF_A_LETTER = 4  # in UTF-8, at most; a token has at least one


class TextPieces:
    """Turns new tokens into pieces of text.

    They are decoded from the prompt's last tokens on: alone, a token may lose its leading space or
    be half a letter.

    Args:
        tokenizer: A Hugging Face tokenizer.
        prompt: The tokens before the first new one.
        special: Show special tokens too.
        whole: Whether the reader has all of the prompt's text; else half a letter at its end was
            held back, and is handed out here.
    """

    def __init__(
        self, tokenizer: Any, prompt: Sequence[int], special: bool = False, whole: bool = True
    ) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._ids = list(prompt[-CONTEXT_TOKENS_KEPT:])
        self._held = 0  # tokens since there was something certain
        shown = self._decoded()
        self._shown = shown if whole else without_half_a_letter(shown)

    def add(self, *tokens: int) -> str:
        """Take tokens and return the text that became certain, often "" for a part of a letter."""
        self._ids += tokens
        self._held += len(tokens)
        return self._new(final=False)

    def end(self) -> str:
        """Return what was held back."""
        return self._new(final=True)

    def _decoded(self) -> str:
        return decode_continuation(self._tokenizer, [], self._ids, self._special)

    def _new(self, final: bool) -> str:
        text = self._decoded()
        complete = self._held >= _BYTES_OF_A_LETTER  # so these tokens are not one letter's
        if not (final or complete):
            text = without_half_a_letter(text)
        # A new token may complete the letter that was shown as a half one; nothing else changes.
        start = len(self._shown.rstrip(HALF_A_LETTER))
        while start < len(self._shown) and self._shown[start] == text[start : start + 1]:
            start += 1
        piece = text[start:]
        if piece or complete:
            self._shown, self._held = text, 0
            if len(self._ids) > 4 * CONTEXT_TOKENS_KEPT:  # or all is decoded again and again
                held = len(self._decoded()) - len(text)
                self._ids = self._ids[-CONTEXT_TOKENS_KEPT:]
                self._shown = self._decoded()
                self._shown = self._shown[: len(self._shown) - held]
        return piece


def without_half_a_letter(text: str) -> str:
    """A text without the bytes at its end that may become a letter."""
    certain = text.rstrip(HALF_A_LETTER)
    return text[: max(len(certain), len(text) - _BYTES_OF_A_LETTER + 1)]


def token_texts(tokenizer: Any, tokens: Sequence[int], before: Sequence[int] = ()) -> list[str]:
    """What each token adds to the text; joined, they are the text.

    A letter that is spelled by several tokens comes with the last of them, and "" with the others.

    Args:
        tokenizer: A Hugging Face tokenizer.
        tokens: The tokens.
        before: Those before them.

    Returns:
        A text for each token; special tokens are shown.
    """
    pieces = TextPieces(tokenizer, before, special=True)
    texts = [pieces.add(token) for token in tokens]
    if texts:
        texts[-1] += pieces.end()
    return texts
