"""The `logprobs` of an answer: log P of its tokens and of the likeliest ones.

log 0 is -9999, as in OpenAI's API: null is only for a first token, which nothing predicts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from knnlm.integrations.server.continuation import TokenLogs
from knnlm.text import TextPieces, decode_continuation

_LOG_ZERO = -9999.0
_HALF_A_LETTER = "\N{REPLACEMENT CHARACTER}"


class Prompt(NamedTuple):
    """A prompt, and the text that echo returns."""

    tokens: list[int]
    text: str
    whole: bool = True
    """False if half a letter at the end is not part of the text: what follows may complete it."""


class CompletionLogprobs:
    """Those of a completion: parallel lists, filled token by token.

    A letter of several tokens is the text of the last of them.

    Args:
        tokenizer: The model's.
        prompt: The tokens before the first one that is reported.
        offset: Where the text of the first one begins.
        whole: Whether half a letter at the prompt's end is part of the prompt's text.
    """

    def __init__(
        self, tokenizer: Any, prompt: Sequence[int], offset: int, whole: bool = True
    ) -> None:
        self.tokenizer, self.before, self.offset = tokenizer, list(prompt), offset
        self.pieces = TextPieces(tokenizer, prompt, special=True, whole=whole)

    def echo(self, prompt: Prompt, logs: Sequence[TokenLogs]) -> dict[str, Any]:
        """Those of a prompt; its first token is not predicted, and may not be part of its text."""
        first = self._lists([(prompt.tokens[0], None)])
        if not prompt.text.startswith(first["tokens"][0]):
            self.offset = 0
        rest = [self._lists([(each.token, each)]) for each in logs]
        lists = merged([first, *rest])
        assert lists is not None
        if prompt.whole:
            lists["tokens"][-1] += self.pieces.end()
        return lists

    def new(self, logs: TokenLogs, last: bool) -> dict[str, Any]:
        """Those of one new token; the last takes what is held back of a letter."""
        return self._lists([(logs.token, logs)], last)

    def _lists(
        self, tokens: Sequence[tuple[int, TokenLogs | None]], last: bool = False
    ) -> dict[str, Any]:
        lists: dict[str, Any] = {
            "tokens": [],
            "token_logprobs": [],
            "top_logprobs": [],
            "text_offset": [],
        }
        for token, logs in tokens:
            text = self.pieces.add(token)
            if last:
                text += self.pieces.end()
            lists["tokens"].append(text)
            lists["token_logprobs"].append(None if logs is None else _finite(logs.logprob))
            lists["top_logprobs"].append(None if logs is None else self._top(logs, text))
            lists["text_offset"].append(self.offset)
            self.before.append(token)
            self.offset += len(text)
        return lists

    def _top(self, logs: TokenLogs, chosen: str) -> dict[str, float]:
        """The likeliest tokens and the chosen one, under the name it has in the list of tokens.
        Tokens that spell the same text are one here; the more probable one is kept."""
        named: dict[str, float] = {}
        for token, log in (*logs.top, (logs.token, logs.logprob)):
            if token == logs.token:
                text = chosen
            else:
                text = decode_continuation(self.tokenizer, self.before, [token], special=True)
            named.setdefault(text, _finite(log))
        return named


class ChatLogprobs:
    """Those of a chat: one object for each token.

    Args:
        tokenizer: The model's.
        prompt: The tokens before the answer.
    """

    def __init__(self, tokenizer: Any, prompt: Sequence[int]) -> None:
        self.tokenizer, self.before = tokenizer, list(prompt)

    def new(self, logs: TokenLogs, last: bool) -> dict[str, Any]:
        """Those of one new token."""
        top = [self._named(token, log) for token, log in logs.top]
        named = {**self._named(logs.token, logs.logprob), "top_logprobs": top}
        self.before.append(logs.token)
        return {"content": [named]}

    def _named(self, token: int, log: float) -> dict[str, Any]:
        text = decode_continuation(self.tokenizer, self.before, [token], special=True)
        known = _HALF_A_LETTER not in text  # else its bytes are not those of a text
        return {
            "token": text,
            "logprob": _finite(log),
            "bytes": list(text.encode()) if known else None,
        }


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The lists of several tokens, one behind the other."""
    if not parts:
        return None
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def _finite(log: float) -> float:
    return max(log, _LOG_ZERO)
