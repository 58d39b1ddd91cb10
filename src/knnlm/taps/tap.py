"""Taps: forward hooks that read states while the model runs, verified when they attach.

`forward` is never replaced. The model's body runs without its output embedding unless log-probabilities are asked for.
Facts are checked on a small probe before the first use, and a model that fails them is refused with the reason:

  the model's own treatment of head(ffn) gives the logits that it returns, for states as they are and far larger ones;
  att changes when the last block's attention is silenced.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

import torch

from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.taps.att import find_att
from knnlm.taps.head import output_embedding, own_logits

KEYS = ("att", "ffn")
_PROBE_TOKENS = 12
_LARGE = 64.0


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
    """What one call of the model showed to its tap."""

    def __init__(self, tap: "Tap") -> None:
        self.tap = tap
        self.tensors: dict[str, torch.Tensor] = {}

    def att(self, batch: int) -> torch.Tensor:
        """att at every position, (B, T, D); OPT hands its feed-forward layer a flattened (B·T, D)."""
        point, seen = self.tap.point, self.tensors
        assert point is not None
        found = point.state(seen.get("read"), seen.get("entered"), seen["attended"])
        return found.reshape(batch, -1, found.shape[-1])

    @property
    def ffn(self) -> torch.Tensor:
        """What entered the output embedding: only the positions that the model was asked to predict at."""
        return self.tensors["head"]


# Whoever watches in this thread: hooks stay attached while the tap lives, and calls of other threads do not mix.
_WATCHING: ContextVar[Seen | None] = ContextVar("knnlm_tap", default=None)


def checked_keys(names: Sequence[str]) -> tuple[str, ...]:
    """`names` without repetition, in the order of KEYS; an unknown one is an error."""
    for name in names:
        if name not in KEYS:
            raise unknown("key", name, KEYS)
    if not names:
        raise UsageError(f"no key given: choose of {', '.join(KEYS)}")
    return tuple(k for k in KEYS if k in names)


def possible_keys(model: Any, att_module: str | None = None) -> tuple[tuple[str, ...], str]:
    """Both keys, or "ffn" alone where "att" is not defined, and then a sentence that says why."""
    if att_module is not None:
        return KEYS, ""
    try:
        find_att(model)
    except KnnlmError as error:
        return ("ffn",), f"storing 'ffn' states only: {error}"
    return KEYS, ""


class Tap:
    """Reads a causal LM, from any number of threads. Use it in a `with`, or close it, to take its hooks away."""

    def __init__(self, model: Any, keys: Sequence[str] = KEYS, att_module: str | None = None) -> None:
        self.model, self.keys = model, checked_keys(keys)
        self.head = output_embedding(model)
        self.point = find_att(model, att_module) if "att" in self.keys else None
        self._whole = False
        self._handles = self._attach()
        try:
            self._verify()
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
            if self._whole:
                self.model(input_ids=ids, use_cache=False)
                ffn = seen.ffn
            else:
                ffn = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return States(seen.att(len(ids)) if self.point is not None else None, ffn)

    def logits(self, ffn: torch.Tensor) -> torch.Tensor:
        """The model's own logits for states (…, D) that enter its output embedding."""
        return own_logits(self.model, ffn)

    def widths(self) -> dict[str, int]:
        """Width of each key."""
        with torch.inference_mode():
            states = self.read(self._probe())
        return {key: states.of(key).shape[-1] for key in self.keys}

    def describe(self) -> dict[str, str]:
        """What each key is, in words, for the record."""
        words = {"att": self.point.words if self.point is not None else "", "ffn": "input of the output embedding"}
        return {key: words[key] for key in self.keys}

    def _attach(self) -> list[Any]:
        handles = [self.head.register_forward_pre_hook(self._keep_input("head"), with_kwargs=True)]
        if self.point is not None:
            handles.append(self.point.attention.register_forward_hook(self._keep_output("attended")))
            if self.point.reader is not None:
                handles.append(self.point.reader.register_forward_pre_hook(self._keep_input("read"), with_kwargs=True))
            else:
                entered = self._keep_input("entered")
                handles.append(self.point.block.register_forward_pre_hook(entered, with_kwargs=True))
        return handles

    def _keep_input(self, name: str) -> Any:
        def keep(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen = _WATCHING.get()
            if seen is not None and seen.tap is self:
                seen.tensors[name] = arguments[0] if arguments else named["hidden_states"]

        return keep

    def _keep_output(self, name: str) -> Any:
        def keep(_: Any, __: Any, output: Any) -> None:
            seen = _WATCHING.get()
            if seen is not None and seen.tap is self:
                seen.tensors[name] = output[0] if isinstance(output, tuple) else output

        return keep

    def _probe(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(self.head.weight.shape[0], (2, _PROBE_TOKENS), generator=generator)
        return ids.to(self.device)

    @torch.inference_mode()
    def _verify(self) -> None:
        ids = self._probe()
        self._whole = not self._body_gives_ffn(ids)
        for factor in (1.0, _LARGE):
            self._verify_logits(ids, factor)
        if self.point is not None:
            self._verify_att(ids)

    def _body_gives_ffn(self, ids: torch.Tensor) -> bool:
        """Whether the body's output is what the output embedding reads; if something lies between, all must run."""
        with self.watch() as seen:
            self.model(input_ids=ids, use_cache=False)
        output = self.model.base_model(input_ids=ids, use_cache=False)
        body = getattr(output, "last_hidden_state", None)
        if body is None or body.shape != seen.ffn.shape:
            return False
        return (body - seen.ffn).abs().max().item() <= 1e-3 * body.abs().max().item()

    def _verify_logits(self, ids: torch.Tensor, factor: float) -> None:
        states = self.read(ids)
        with _scaled_input(self.head, factor):
            wanted = self.model(input_ids=ids, use_cache=False).logits.float()
        error = (self.logits(states.ffn * factor).float() - wanted).abs().max().item()
        tolerance = 1e-3 if self.head.weight.dtype == torch.float32 else 3e-2
        if not error <= tolerance * wanted.abs().max().item():
            raise KnnlmError(
                f"cannot read 'ffn' from {type(self.model).__name__}: its output embedding does not give its logits "
                f"(off by {error:.2g}), so it scales or caps them in a way that knnlm does not know yet"
            )

    def _verify_att(self, ids: torch.Tensor) -> None:
        assert self.point is not None
        att = self.read(ids).of("att")
        with _silence(self.point.attention):
            silenced = self.read(ids).of("att")
        if (silenced - att).abs().max().item() == 0.0:
            raise KnnlmError(
                f"cannot read 'att' from {type(self.model).__name__}: the {self.point.words} does not depend on the "
                "last attention; use --keys ffn"
            )


@contextlib.contextmanager
def _scaled_input(module: Any, factor: float) -> Iterator[None]:
    handle = module.register_forward_pre_hook(lambda _, inputs: (inputs[0] * factor, *inputs[1:]))
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def _silence(module: Any) -> Iterator[None]:
    """Make an attention module return zeros; it may return a tensor or a tuple that begins with one."""

    def zero(_: Any, __: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output)

    handle = module.register_forward_hook(zero, prepend=True)  # before ours looks
    try:
        yield
    finally:
        handle.remove()
