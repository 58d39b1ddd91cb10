"""Texts of different lengths that take each step together: one cache for all, padded on the left.

Padding has no part in the attention, and every text keeps its own positions, so that each is
continued as if it were alone (up to rounding). A model whose cache is not a plain one, with sliding
windows or states of its own, takes its texts one by one.
"""

from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from knnlm.integrations.server.continuation import Continuation
from knnlm.integrations.server.predictor import Prediction, Predictor
from knnlm.progress import log


class Batch:
    """The texts that are being continued.

    Args:
        predictor: The model.
    """

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._groups: list[_Group] = []

    def __len__(self) -> int:
        return sum(len(group.texts) for group in self._groups)

    @property
    def texts(self) -> list[Continuation]:
        """All of them."""
        return [text for group in self._groups for text in group.texts]

    def begin(self, text: Continuation) -> None:
        """Read a prompt and choose its first token."""
        ids = torch.tensor([list(text.prompt)], device=self._predictor.reader.device)
        prediction, cache = self._predictor.forward(input_ids=ids)
        self._choose([text], prediction)
        if not text.finished:
            self._join(_Group([text], cache, torch.ones_like(ids)))

    def step(self) -> None:
        """One more token for each text; those that ended leave."""
        for group in self._groups:
            if any(text.cancelled for text in group.texts):
                group.keep([i for i, text in enumerate(group.texts) if not text.cancelled])
            if group.texts:
                self._choose(group.texts, group.forward(self._predictor))
                group.keep([i for i, text in enumerate(group.texts) if not text.finished])
        self._groups = [group for group in self._groups if group.texts]

    def clear(self) -> None:
        """Forget all texts."""
        self._groups = []

    def _choose(self, texts: list[Continuation], prediction: Prediction) -> None:
        mixed = self._predictor.mixed_rows(prediction, [text.mixing for text in texts])
        for row, (text, each) in enumerate(zip(texts, mixed, strict=True)):
            try:
                if isinstance(each, Exception):
                    raise each
                text.take(each, prediction.lm[row])
            except Exception as error:  # the others go on
                log.error(f"a text could not be continued: {error}")
                text.fail(error)

    def _join(self, new: "_Group") -> None:
        for group in self._groups:
            if group.join(new):
                return
        self._groups.append(new)


class _Group:
    """Texts that share a cache. `mask` (B, T) has 0 where a shorter text is padded."""

    def __init__(self, texts: list[Continuation], cache: Any, mask: torch.Tensor) -> None:
        self.texts, self.cache, self.mask = texts, cache, mask

    @property
    def plain(self) -> bool:
        """Whether the cache can be padded and joined."""
        return type(self.cache) is DynamicCache and all(
            type(layer) is DynamicLayer for layer in self.cache.layers
        )

    def forward(self, predictor: Predictor) -> Prediction:
        """What the model predicts after the last token of each text."""
        last = [[text.new[-1]] for text in self.texts]
        ids = torch.tensor(last, device=self.mask.device)
        self.mask = torch.cat([self.mask, torch.ones_like(ids)], dim=1)
        prediction, self.cache = predictor.forward(
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=self.mask.sum(1, keepdim=True) - 1,
            past_key_values=self.cache,
        )
        return prediction

    def join(self, other: "_Group") -> bool:
        """Take the texts of another group, if both caches allow it."""
        if not (self.plain and other.plain):
            return False
        length = max(self.mask.shape[1], other.mask.shape[1])
        self._pad(length)
        other._pad(length)
        for mine, theirs in zip(self.cache.layers, other.cache.layers, strict=True):
            mine.keys = torch.cat([mine.keys, theirs.keys])
            mine.values = torch.cat([mine.values, theirs.values])
        self.mask = torch.cat([self.mask, other.mask])
        self.texts = [*self.texts, *other.texts]
        return True

    def keep(self, rows: list[int]) -> None:
        """Let all other texts go, and with them the padding that only they needed."""
        if len(rows) == len(self.texts):
            return
        self.texts = [self.texts[row] for row in rows]
        if not rows:
            return
        index = torch.tensor(rows, device=self.mask.device)
        self.mask = self.mask[index]
        self.cache.batch_select_indices(index)
        first = int(self.mask.argmax(1).min())
        if first and self.plain:
            self.mask = self.mask[:, first:]
            for layer in self.cache.layers:
                layer.keys = layer.keys[..., first:, :].contiguous()
                layer.values = layer.values[..., first:, :].contiguous()

    def _pad(self, length: int) -> None:
        missing = length - self.mask.shape[1]
        if missing:
            self.mask = torch.nn.functional.pad(self.mask, (missing, 0))
            for layer in self.cache.layers:
                layer.keys = torch.nn.functional.pad(layer.keys, (0, 0, missing, 0))
                layer.values = torch.nn.functional.pad(layer.values, (0, 0, missing, 0))
