"""Proof that a reader reads what it says, on a small probe, each time one attaches. A model that
fails is refused.

  causal   no state changes when tokens to its right do;
  logits   the model's own treatment of head(ffn) gives the logits that it returns, for states as they are and for far
           larger ones, on which a soft-cap shows;
  att      changes when the last block's attention is silenced, and went through a norm: what the feed-forward layer
           reads is the output of one of the block's norms or, in a parallel block, is that norm of the block's input.

Hooks that change something act only on the calls of this check: other threads may be using the same
model."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from knnlm.errors import KnnlmError
from knnlm.models.summed_embeddings import vocabulary_size

if TYPE_CHECKING:
    from knnlm.hidden_states.reader import StateReader, States

_PROBE_TOKENS = 12
_LARGE = 64.0


def probe(reader: "StateReader") -> torch.Tensor:
    """A few random tokens (2, 12)."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary_size(reader.head), (2, _PROBE_TOKENS), generator=generator)
    return ids.to(reader.device)


@torch.inference_mode()
def verify(reader: "StateReader", att: bool = True) -> None:
    """Check everything; `att` says whether the state in its place is to be att."""
    ids = probe(reader)
    states = reader.read(ids)
    for factor in (1.0, _large_factor(reader, states.ffn)):
        _check_logits(reader, ids, states.ffn, factor)
    _check_causal(reader, ids, states)
    if att and reader.point is not None:
        _check_attention(reader, ids, states.of("att"))
        _check_norm(reader, ids)


@torch.inference_mode()
def body_gives_ffn(reader: "StateReader") -> bool:
    """Whether the body's output is what the output embedding reads; if something lies between, all
    must run."""
    ids = probe(reader)
    with reader.watch() as seen:
        reader.model(input_ids=ids, use_cache=False)
    body = getattr(
        reader.model.base_model(input_ids=ids, use_cache=False), "last_hidden_state", None
    )
    return body is not None and body.shape == seen.ffn.shape and _close(reader, body, seen.ffn)


def _large_factor(reader: "StateReader", ffn: torch.Tensor) -> float:
    """Large enough to show a cap, not so large that the model's number type overflows."""
    largest = max(ffn.abs().max().item(), reader.logits(ffn).abs().max().item(), 1.0)
    return max(1.0, min(_LARGE, torch.finfo(ffn.dtype).max / 4 / largest))


def _check_logits(
    reader: "StateReader", ids: torch.Tensor, ffn: torch.Tensor, factor: float
) -> None:
    def scale(_: Any, inputs: tuple[Any, ...]) -> Any:
        return (inputs[0] * factor, *inputs[1:]) if reader.watching() is not None else None

    with reader.watch(), _hook(reader.head.register_forward_pre_hook(scale)):
        wanted = reader.model(input_ids=ids, use_cache=False).logits.float()
    error = (reader.logits(ffn * factor).float() - wanted).abs().max().item()
    if not error <= _tolerance(reader) * wanted.abs().max().item():
        raise KnnlmError(
            f"cannot read 'ffn' from {type(reader.model).__name__}: its output embedding does not "
            "give its logits "
            f"(off by {error:.2g}), so it scales or caps them in a way that knnlm does not know yet"
        )


def _check_causal(reader: "StateReader", ids: torch.Tensor, states: "States") -> None:
    half = _PROBE_TOKENS // 2
    changed = ids.clone()
    changed[:, half:] = ids.flip(0, 1)[:, half:]
    again = reader.read(changed)
    for key in reader.keys:
        before, after = states.of(key)[:, :half], again.of(key)[:, :half]
        if not _close(reader, before, after):
            raise KnnlmError(
                f"{type(reader.model).__name__} is not causal: its '{key}' states change with "
                "tokens to their right, so "
                "they would see what they predict; give a causal LM"
            )


def _check_attention(reader: "StateReader", ids: torch.Tensor, att: torch.Tensor) -> None:
    def zero(_: Any, __: Any, output: Any) -> Any:
        if reader.watching() is None:
            return None
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output)

    assert reader.point is not None
    with _hook(
        reader.point.attention.register_forward_hook(zero, prepend=True)
    ):  # before ours looks
        silenced = reader.read(ids).of("att")
    if (silenced - att).abs().max().item() == 0.0:
        raise KnnlmError(
            f"cannot read 'att' from {type(reader.model).__name__}: the {reader.point.words} does "
            "not depend on the "
            "last attention; use --keys ffn"
        )


def _check_norm(reader: "StateReader", ids: torch.Tensor) -> None:
    """att is normalised, and by the right norm."""
    point = reader.point
    assert point is not None
    normed: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        if reader.watching() is not None and isinstance(output, torch.Tensor):
            normed.append(output)

    norms = [m for m in point.block.modules() if "norm" in type(m).__name__.lower()]
    with contextlib.ExitStack() as hooks, reader.watch() as seen:
        for module in norms:
            hooks.enter_context(_hook(module.register_forward_hook(keep)))
        reader.model.base_model(input_ids=ids, use_cache=False)
    if (
        point.parallel
    ):  # parallel: the norm must be the one through which the feed-forward layer reads
        right = point.norm is not None and _same(
            reader, point.norm(seen.tensors["entered"]), seen.tensors["read"]
        )
    else:
        right = point.norm is not None or any(
            _same(reader, output, seen.tensors["read"]) for output in normed
        )
    if not right:
        raise KnnlmError(
            f"cannot read 'att' from {type(reader.model).__name__}: the {point.words} is not "
            "normalised as what its last "
            "feed-forward layer reads; use --keys ffn"
        )


def _same(reader: "StateReader", a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() == b.numel() and _close(reader, a.flatten(), b.flatten())


def _close(reader: "StateReader", a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal but for rounding: not so when something is not a number."""
    return (a - b).abs().max().item() <= _tolerance(reader) * a.abs().max().item()


def _tolerance(reader: "StateReader") -> float:
    return 1e-3 if reader.head.weight.dtype == torch.float32 else 3e-2


@contextlib.contextmanager
def _hook(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()
