"""Taps: forward hooks that read states while the model runs, verified when they attach.

`forward` is never replaced. The model's body runs without its output embedding unless
log-probabilities are asked for. What is read is checked on a small probe before the first use
(verify.py), and a model that fails is refused."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import torch

from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.hidden_states.att import AttLocation, locate_att
from knnlm.hidden_states.output_head import model_logits, output_embedding
from knnlm.hidden_states.verify import body_gives_ffn, probe, verify

KEYS = ("att", "ffn")


class States(NamedTuple):
    """States of a batch (B, T, D) at every position; None where not asked for."""

    att: torch.Tensor | None
    ffn: torch.Tensor

    def of(self, key: str) -> torch.Tensor:
        """The states named `key`."""
        found = self.att if key == "att" else self.ffn
        assert found is not None
        return found


class Seen:
    """What one call of the model showed to its reader."""

    def __init__(self, reader: "StateReader") -> None:
        self.reader = reader
        self.tensors: dict[str, torch.Tensor] = {}

    def att(self, batch: int) -> torch.Tensor:
        """att at every position, (B, T, D); OPT hands its feed-forward layer a flattened (B·T,
        D)."""
        point, seen = self.reader.point, self.tensors
        assert point is not None
        found = point.state(seen)
        return found.reshape(batch, -1, found.shape[-1])

    @property
    def ffn(self) -> torch.Tensor:
        """What entered the output embedding: only the positions that the model was asked to predict
        at."""
        return self.tensors["head"]


# Whoever watches in this thread: hooks stay attached while the reader lives, and calls of other
# threads do not mix.
_WATCHING: ContextVar[Seen | None] = ContextVar("knnlm_tap", default=None)


def checked_keys(names: Sequence[str]) -> tuple[str, ...]:
    """`names` without repetition, in the order of KEYS; an unknown one is an error. A string is a
    list with commas."""
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    for name in names:
        if name not in KEYS:
            raise unknown("key", name, KEYS)
    if not names:
        raise UsageError(f"no key given: choose of {', '.join(KEYS)}")
    return tuple(k for k in KEYS if k in names)


def default_keys(model: Any, att_module: str | None = None) -> tuple[tuple[str, ...], str]:
    """Both keys, or "ffn" alone where "att" is not defined, and then a sentence that says why."""
    if att_module is not None:
        return KEYS, ""
    try:
        locate_att(model)
    except KnnlmError as error:
        return ("ffn",), f"storing 'ffn' states only: {error}"
    return KEYS, ""


class StateReader:
    """Reads a causal LM, from any number of threads. Use it in a `with`, or close it, to take its
    hooks away."""

    def __init__(
        self,
        model: Any,
        keys: Sequence[str] = KEYS,
        att_module: str | None = None,
        *,
        instead: AttLocation | None = None,
    ) -> None:
        """`instead` reads another state in the place of att, for experiments: it is not checked to
        be att."""
        self.model, self.keys = model, checked_keys(keys)
        self.head = output_embedding(model)
        self.point = (instead or locate_att(model, att_module)) if "att" in self.keys else None
        self._handles = self._attach()
        self.whole = (
            True  # until it is known that the body's output is what the output embedding reads
        )
        try:
            self.whole = not body_gives_ffn(self)
            verify(self, att=instead is None)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Take the hooks away."""
        while self._handles:
            self._handles.pop().remove()

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""
        found = self.model.get_input_embeddings().weight.device
        assert isinstance(found, torch.device)
        return found

    @contextlib.contextmanager
    def watch(self) -> Iterator[Seen]:
        """While this lasts, calls of the model in this thread are seen."""
        seen = Seen(self)
        token = _WATCHING.set(seen)
        try:
            yield seen
        finally:
            _WATCHING.reset(token)

    def read(self, ids: torch.Tensor) -> States:
        """States at every position of `ids` (B, T), without running the output embedding."""
        with self.watch() as seen:
            if self.whole:
                self.model(input_ids=ids, use_cache=False)
                ffn = seen.ffn
            else:
                ffn = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return States(seen.att(len(ids)) if self.point is not None else None, ffn)

    def logits(self, ffn: torch.Tensor) -> torch.Tensor:
        """The model's own logits for states (…, D) that enter its output embedding."""
        return model_logits(self.model, ffn)

    def widths(self) -> dict[str, int]:
        """Width of each key."""
        with torch.inference_mode():
            states = self.read(probe(self))
        return {key: states.of(key).shape[-1] for key in self.keys}

    def describe(self) -> dict[str, str]:
        """What each key is, in words, for the record."""
        words = {
            "att": self.point.words if self.point is not None else "",
            "ffn": "input of the output embedding",
        }
        return {key: words[key] for key in self.keys}

    def _attach(self) -> list[Any]:
        handles = [self.head.register_forward_pre_hook(self._keep_input("head"), with_kwargs=True)]
        if self.point is not None:
            handles.append(
                self.point.attention.register_forward_hook(self._keep_output("attended"))
            )
            read, entered = self._keep_input("read"), self._keep_input("entered")
            handles.append(
                self.point.feed_forward.register_forward_pre_hook(read, with_kwargs=True)
            )
            if self.point.parallel:
                handles.append(
                    self.point.block.register_forward_pre_hook(entered, with_kwargs=True)
                )
        return handles

    def _keep_input(self, name: str) -> Any:
        def keep(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if (seen := self.watching()) is not None:
                seen.tensors[name] = arguments[0] if arguments else named["hidden_states"]

        return keep

    def _keep_output(self, name: str) -> Any:
        def keep(_: Any, __: Any, output: Any) -> None:
            if (seen := self.watching()) is not None:
                seen.tensors[name] = output[0] if isinstance(output, tuple) else output

        return keep

    def watching(self) -> Seen | None:
        """What keeps the call that runs now, if it is one of ours; other threads may use the same
        model."""
        seen = _WATCHING.get()
        return seen if seen is not None and seen.reader is self else None
