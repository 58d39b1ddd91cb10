"""One text that is being continued: how its next token is chosen, and when it ends."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch

from knnlm.integrations.server.predictor import Mixed, Mixing
from knnlm.search import Neighbors
from knnlm.text import TextPieces

_GREEDY = 1e-5  # at a lower temperature the most probable token is chosen
FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """How tokens are chosen, in the words of the OpenAI API."""

    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None


class TokenLogs(NamedTuple):
    """log P of a token, and of the most probable ones."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    lm_logprob: float
    component_logprob: float | None
    neighbors: Neighbors | None
    """Of this one position; None unless they were asked for."""


class NewText(NamedTuple):
    """What one step added to a text."""

    text: str
    logs: TokenLogs | None
    """None where the token was not asked for in detail, and in what is held back to the end."""
    finish: FinishReason | None


@dataclass(kw_only=True)
class Continuation:
    """A text that is being continued. The engine's thread alone continues it.

    Args:
        prompt: Its tokens so far.
        mixing: What is mixed with the LM.
        choosing: How tokens are chosen.
        max_tokens: How many tokens to add, at most.
        stops: Strings at which the text ends; they are not part of it.
        ends: Tokens at which the text ends.
        top: How many of the most probable tokens are reported; None reports no log P at all.
        sources: Whether neighbors are reported.
        whole: Whether the reader has all of the prompt's text, half a letter at its end too.
        emit: Called in the engine's thread with every step's new text, or with an error; with an
            error also from another thread.
    """

    prompt: Sequence[int]
    mixing: Mixing
    choosing: Choosing
    max_tokens: int
    stops: tuple[str, ...]
    ends: frozenset[int]
    top: int | None
    sources: bool
    tokenizer: Any
    emit: Callable[[NewText | Exception], None]
    whole: bool = True
    new: list[int] = field(default_factory=list)
    finished: bool = False
    cancelled: bool = False

    def __post_init__(self) -> None:
        self._pieces = TextPieces(self.tokenizer, self.prompt, whole=self.whole)
        self._held = HeldBack(self.stops)
        self._counts: Counter[int] = Counter()
        self._generator = torch.Generator()
        if self.choosing.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(self.choosing.seed)

    def cancel(self) -> None:
        """Ask for an end; the engine leaves it out of its next step. From any thread."""
        self.cancelled = True

    def take(self, mixed: Mixed, lm: torch.Tensor) -> None:
        """Choose the next token, say so, and note whether the text has ended.

        Args:
            mixed: log P of the next token (1, V).
            lm: log p_LM (V,).
        """
        token = choose(mixed.logs[0], self.choosing, self._counts, self._generator)
        self.new.append(token)
        self._counts[token] += 1
        logs = self._logs(token, mixed, lm)
        if token in self.ends:
            self._end("", logs, "stop")
            return
        text, stopped = self._held.add(self._pieces.add(token))
        if stopped:
            self._finish(NewText(text, logs, "stop"))
        elif len(self.new) >= self.max_tokens:
            self._end(text, logs, "length")
        else:
            self.emit(NewText(text, logs, None))

    def fail(self, error: Exception) -> None:
        """End with an error. From any thread."""
        self.finished = True
        self.emit(error)

    def _end(self, text: str, logs: TokenLogs | None, reason: FinishReason) -> None:
        rest, stopped = self._held.add(self._pieces.end())
        held = "" if stopped else self._held.rest()
        self._finish(NewText(text + rest + held, logs, "stop" if stopped else reason))

    def _finish(self, last: NewText) -> None:
        self.finished = True
        self.emit(last)

    def _logs(self, token: int, mixed: Mixed, lm: torch.Tensor) -> TokenLogs | None:
        if self.top is None and not self.sources:
            return None
        top = top_logs(mixed.logs[0], self.top or 0)
        component = None if mixed.component is None else float(mixed.component[0, token])
        near = mixed.neighbors if self.sources else None
        return TokenLogs(token, float(mixed.logs[0, token]), top, float(lm[token]), component, near)


class HeldBack:
    """Text that may be the beginning of a stop string is held back until it is certain.

    Args:
        stops: The stop strings.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._text = ""

    def add(self, piece: str) -> tuple[str, bool]:
        """Take a piece, return the text that is certain, and whether a stop string came."""
        self._text += piece
        ends = [at for stop in self._stops if (at := self._text.find(stop)) >= 0]
        if ends:
            text, self._text = self._text[: min(ends)], ""
            return text, True
        keep = max((_overlap(self._text, stop) for stop in self._stops), default=0)
        cut = len(self._text) - keep
        text, self._text = self._text[:cut], self._text[cut:]
        return text, False

    def rest(self) -> str:
        """What is held back, when nothing follows."""
        text, self._text = self._text, ""
        return text


def _overlap(text: str, stop: str) -> int:
    """How many of the last characters of the text begin the stop string."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


def choose(
    logs: torch.Tensor, how: Choosing, counts: Counter[int], generator: torch.Generator
) -> int:
    """Choose a token.

    Args:
        logs: log P over the vocabulary (V,).
        how: Temperature, top-p, penalties and biases; temperature 0 is the most probable token.
        counts: How often each token has been chosen, for the penalties.
        generator: Decides the draws.
    """
    scores = logs.float().cpu()
    if how.logit_bias or (counts and (how.presence_penalty or how.frequency_penalty)):
        scores = scores.clone()
        for token, bias in how.logit_bias:
            scores[token] += bias
        for token, count in counts.items():
            scores[token] -= how.presence_penalty + count * how.frequency_penalty
    if how.temperature < _GREEDY:
        return int(scores.argmax())
    probabilities = ((scores - scores.max()) / how.temperature).softmax(-1)
    if how.top_p < 1:
        probabilities = _most_probable(probabilities, how.top_p)
    return int(torch.multinomial(probabilities, 1, generator=generator))


def _most_probable(probabilities: torch.Tensor, share: float) -> torch.Tensor:
    """The most probable tokens whose probabilities sum to a share; at least one of them."""
    ordered, tokens = probabilities.sort(descending=True)
    before = ordered.cumsum(0) - ordered
    within = before < share
    within[0] = True  # however small the share
    kept = torch.where(within, ordered, torch.zeros_like(ordered))
    return torch.zeros_like(probabilities).scatter(0, tokens, kept)


def top_logs(logs: torch.Tensor, count: int) -> tuple[tuple[int, float], ...]:
    """The most probable tokens and their log P (V,)."""
    if not count:
        return ()
    best = logs.topk(min(count, len(logs)))
    return tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))
