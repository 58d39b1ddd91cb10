"""A text token by token: what the LM gave, what the neighbors gave, and who they were.

Everything here runs in the engine's thread. What takes long yields now and then: others take their
steps there, and who has gone is noticed."""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from knnlm.files import finite
from knnlm.integrations.server.continuation import TokenLogs, top_logs
from knnlm.integrations.server.predictor import Mixing, Prediction, Predictor
from knnlm.integrations.server.sources import described
from knnlm.search import Neighbors
from knnlm.text import decode_continuation, token_texts

_ROWS_AT_A_TURN = 8  # each takes milliseconds where many neighbors are described
_LEFT_OUT = 2  # documents that the page can leave out at once


class Scoring(NamedTuple):
    """What is asked about a text."""

    start: int
    neighbors: int
    """How many are described."""
    top: int
    votes: bool


def prompt_logs(
    predictor: Predictor, tokens: Sequence[int], mixing: Mixing, top: int
) -> Generator[None, None, list[TokenLogs]]:
    """log P of each token of a prompt but the first, and of the most probable ones."""
    logs: list[TokenLogs] = []
    targets = list(tokens[1:])
    if not targets:
        return logs
    for prediction in predictor.read(tokens[:-1]):
        mixed = predictor.mixed(prediction, mixing)
        for row in range(len(prediction.lm)):
            token = targets[len(logs)]
            component = None if mixed.component is None else float(mixed.component[row, token])
            log, lm = float(mixed.logs[row, token]), float(prediction.lm[row, token])
            logs.append(TokenLogs(token, log, top_logs(mixed.logs[row], top), lm, component, None))
        yield
    return logs


def score(
    predictor: Predictor, tokens: Sequence[int], mixing: Mixing, asked: Scoring
) -> Generator[None, None, bytes]:
    """The answer of /api/score, as JSON.

    Args:
        predictor: The model.
        tokens: The text.
        mixing: What is mixed with the LM.
        asked: What is asked about it.
    """
    described_tokens: list[dict[str, Any]] = []
    texts = token_texts(predictor.tokenizer, tokens)
    votes = _Votes(predictor, mixing) if asked.votes and mixing.k is not None else None
    first = 1
    for prediction in predictor.read(tokens[:-1]):
        count = len(prediction.lm)
        skip = max(0, asked.start - first)
        if skip < count:
            rows = prediction.rows(slice(skip, None))
            targets = list(tokens[first + skip : first + count])
            near = None if votes is None else votes.add(rows)
            described_tokens += yield from _described(
                predictor, rows, targets, tokens, first + skip, mixing, asked, near
            )
        first += count
        yield
    for each, text in zip(described_tokens, texts[asked.start :], strict=True):
        each["text"] = text
    answer: dict[str, Any] = {
        "settings": settings_json(mixing),
        "prompt": texts[: asked.start],
        "tokens": described_tokens,
    }
    if votes is not None:
        answer["votes"] = votes.as_json()
    return orjson.dumps(finite_numbers(answer), option=orjson.OPT_SERIALIZE_NUMPY)


def settings_json(mixing: Mixing) -> dict[str, Any]:
    """λ, τ, k and the component, as requests name them."""
    return {
        "component": mixing.component,
        "lambda": mixing.lam,
        "tau": mixing.tau,
        "k": mixing.k,
    }


def finite_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: log 0 is null."""
    arrays = answer.pop("votes", None)
    cleaned: dict[str, Any] = finite(answer)
    if arrays is not None:
        cleaned["votes"] = arrays
    return cleaned


def _described(
    predictor: Predictor,
    prediction: Prediction,
    targets: list[int],
    tokens: Sequence[int],
    first: int,
    mixing: Mixing,
    asked: Scoring,
    near: Neighbors | None,
) -> Generator[None, None, list[dict[str, Any]]]:
    """The tokens whose predictions these are; `first` is the place of the first of them."""
    mixed = predictor.mixed(prediction, mixing, near)
    index = torch.tensor(targets, device=mixed.logs.device)[:, None]
    chosen = mixed.logs.gather(1, index)
    ranks = (mixed.logs > chosen).sum(1) + 1
    answer = []
    for row, token in enumerate(targets):
        if row and row % _ROWS_AT_A_TURN == 0:
            yield
        component = None if mixed.component is None else float(mixed.component[row, token])
        voting = None if mixed.neighbors is None else mixed.neighbors.of(row)
        answer.append(
            {
                "id": token,
                "lm_logprob": float(prediction.lm[row, token]),
                "component_logprob": component,
                "logprob": float(chosen[row]),
                "rank": int(ranks[row]),
                "lm_top": _named(predictor, tokens, first + row, prediction.lm[row], asked.top),
                "top": _named(predictor, tokens, first + row, mixed.logs[row], asked.top),
                "neighbors": []
                if voting is None
                else described(
                    predictor.entries,
                    predictor.tokenizer,
                    voting,
                    mixing.tau,
                    asked.neighbors,
                    token,
                ),
            }
        )
    return answer


def _named(
    predictor: Predictor, tokens: Sequence[int], place: int, logs: torch.Tensor, count: int
) -> list[dict[str, Any]]:
    before = list(tokens[:place])
    return [
        {
            "id": token,
            "text": decode_continuation(predictor.tokenizer, before, [token], special=True),
            "logprob": log,
        }
        for token, log in top_logs(logs, count)
    ]


class _Votes:
    """Every vote as arrays, and more neighbors than vote, so that the page can leave any two
    documents out: without their entries, the next ones take their places."""

    def __init__(self, predictor: Predictor, mixing: Mixing) -> None:
        self.predictor, self.mixing = predictor, mixing
        self.numbers = predictor.entries.document_numbers
        self.positions: list[dict[str, Any]] = []
        self.vocabulary: set[int] = set()
        self.documents: dict[int, int] = {}

    def add(self, prediction: Prediction) -> Neighbors:
        """Further positions; their neighbors, more than vote."""
        assert self.mixing.k is not None
        k = self.mixing.k
        near = self.predictor.retrieve(prediction, self.mixing, self._retrieved(k))
        assert near is not None
        for row in range(len(prediction.lm)):
            ids = near.ids[row][near.ids[row] >= 0]
            documents = self.numbers[ids]
            length = enough_without_any(documents, k, _LEFT_OUT)
            self.positions.append(
                self._position(
                    ids[:length], near.scores[row][:length], documents[:length], prediction.lm[row]
                )
            )
        return near

    def _retrieved(self, k: int) -> int:
        """How many neighbors are asked for. Where the neighbors of an index are scored again, more
        of them would come in another order, and others would vote."""
        return k if self.predictor.rescores else 2 * k

    def _position(
        self,
        ids: NDArray[np.int64],
        scores: NDArray[np.float32],
        documents: NDArray[np.int32],
        lm: torch.Tensor,
    ) -> dict[str, Any]:
        tokens = self.predictor.entries.targets[ids]
        distinct, which = np.unique(tokens, return_inverse=True)
        self.vocabulary.update(distinct.tolist())
        for number in np.unique(documents).tolist():
            self.documents.setdefault(number, len(self.documents))
        local = np.array([self.documents[n] for n in documents.tolist()], np.int32)
        logs = lm[torch.from_numpy(distinct.astype(np.int64))].double().cpu().numpy()
        return {
            "entries": ids,
            "scores": scores.astype(np.float64),
            "documents": local,
            "distinct": distinct,
            "lm_logprobs": np.maximum(logs, -1e30),
            "which": which.astype(np.int32),
            "all": len(ids) == self.predictor.entries.count,
        }

    def as_json(self) -> dict[str, Any]:
        """The arrays, what their tokens spell, and the names of their documents."""
        entries, tokenizer = self.predictor.entries, self.predictor.tokenizer
        return {
            "positions": self.positions,
            "vocabulary": {
                str(token): decode_continuation(tokenizer, [], [token], special=True)
                for token in sorted(self.vocabulary)
            },
            "documents": [entries.documents[number].name for number in self.documents],
        }


def enough_without_any(documents: NDArray[np.int32], k: int, left_out: int = 1) -> int:
    """How many of the nearest neighbors are needed so that k are left without any documents.

    Of the first m neighbors, the `left_out` documents that have the most of them have as many as
    there are levels they reached: a document that is among the first to have its n-th neighbor adds
    one to what leaving out may cost.

    Args:
        documents: The document of each neighbor, nearest first.
        k: How many vote.
        left_out: How many documents may be left out at once, whichever they are.

    Returns:
        The smallest such number; all there are, if they are not enough.

    Example:
        >>> enough_without_any(np.array([5, 5, 7, 7, 8, 5]), k=2)
        4
        >>> enough_without_any(np.array([5, 5, 7, 7, 8, 5, 8]), k=2, left_out=2)
        7
    """
    # how many documents have reached the length that this one reaches here
    rank = _occurrence(_occurrence(documents))
    left = np.cumsum(rank > left_out)
    return int(np.searchsorted(left, k)) + 1 if len(left) and left[-1] >= k else len(documents)


def _occurrence(values: NDArray[Any]) -> NDArray[np.int64]:
    """1 for the first with its value, 2 for the second, and so on."""
    order = np.argsort(values, kind="stable")
    _, starts, counts = np.unique(values[order], return_index=True, return_counts=True)
    nth = np.empty(len(values), np.int64)
    nth[order] = np.arange(len(values)) - np.repeat(starts, counts) + 1
    return nth
