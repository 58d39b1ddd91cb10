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
        special: Show special tokens too.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int], special: bool = False) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._ids = list(prompt[-CONTEXT_TOKENS_KEPT:])
        self._shown = len(self._decoded().rstrip(_HALF_A_LETTER))

    def add(self, *tokens: int) -> str:
        """Take tokens and return the text that became certain, often "" for a part of a letter."""
        self._ids += tokens
        return self._new(final=False)

    def end(self) -> str:
        """Return what was held back."""
        return self._new(final=True)

    def _decoded(self) -> str:
        return decode_continuation(self._tokenizer, [], self._ids, self._special)

    def _new(self, final: bool) -> str:
        text = self._decoded()
        if len(text) <= self._shown or (not final and text.endswith(_HALF_A_LETTER)):
            return ""
        piece, self._shown = text[self._shown :], len(text)
        if len(self._ids) > 4 * CONTEXT_TOKENS_KEPT:  # a long text is not decoded again and again
            self._ids = self._ids[-CONTEXT_TOKENS_KEPT:]
            self._shown = len(self._decoded())
        return piece


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
