"""Numerical proof, each time a reader attaches, that it reads what it claims; a model that fails is
refused.

  causal   no state changes when tokens to its right do.
  logits   the states read as ffn give the logits that the model returns, also when they are made
           far larger, where a cap on the logits shows.
  att      changes when the last block's attention is zeroed, and is normalized: what the
           feed-forward layer reads is the output of one of the block's norms or, in a parallel
           block, the chosen norm of the block's input.

Hooks that change something act only on calls of this check, because other threads may be using the
same model."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from knnlm.errors import KnnlmError
from knnlm.models import vocabulary_size

if TYPE_CHECKING:
    from knnlm.hidden_states.reader import StateReader, States

_PROBE_TOKENS = 12
_LARGE = 64.0


def probe_tokens(reader: "StateReader") -> torch.Tensor:
    """A few random token ids (2, 12), always the same ones."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary_size(reader.head), (2, _PROBE_TOKENS), generator=generator)
    return ids.to(reader.device)


@torch.inference_mode()
def verify_reader(reader: "StateReader", check_att: bool = True) -> None:
    """Check everything that a reader reads.

    Args:
        reader: A reader that has just attached its hooks.
        check_att: Whether its att must pass as att; another state may be read instead of it.

    Raises:
        KnnlmError: A check failed; the message says which.
    """
    ids = probe_tokens(reader)
    states = reader.read(ids)
    for factor in (1.0, _large_factor(reader, states.ffn)):
        _check_logits(reader, ids, states.ffn, factor)
    _check_causal(reader, ids, states)
    if check_att and reader.att_location is not None:
        _check_attention(reader, ids, states.of("att"))
        _check_norm(reader, ids)


@torch.inference_mode()
def base_model_outputs_ffn(reader: "StateReader") -> bool:
    """Whether the output of the base model is what the output embedding reads.

    If something lies between the two, the whole model must run to read ffn.
    """
    ids = probe_tokens(reader)
    with reader.capture() as capture:
        reader.model(input_ids=ids, use_cache=False)
    output = reader.model.base_model(input_ids=ids, use_cache=False)
    hidden = getattr(output, "last_hidden_state", None)
    return (
        hidden is not None
        and hidden.shape == capture.ffn.shape
        and _close(reader, hidden, capture.ffn)
    )


def _large_factor(reader: "StateReader", ffn: torch.Tensor) -> float:
    """Large enough to show a cap, not so large that the model's number type overflows."""
    largest = max(ffn.abs().max().item(), reader.logits(ffn).abs().max().item(), 1.0)
    return max(1.0, min(_LARGE, torch.finfo(ffn.dtype).max / 4 / largest))


def _check_logits(
    reader: "StateReader", ids: torch.Tensor, ffn: torch.Tensor, factor: float
) -> None:
    def scale(_: Any, inputs: tuple[Any, ...]) -> Any:
        return (inputs[0] * factor, *inputs[1:]) if reader.current_capture() is not None else None

    with reader.capture(), _temporary(reader.head.register_forward_pre_hook(scale)):
        wanted = reader.model(input_ids=ids, use_cache=False).logits.float()
    error = (reader.logits(ffn * factor).float() - wanted).abs().max().item()
    # `not <=` instead of `>`: NaN must not pass
    if not error <= _tolerance(reader) * wanted.abs().max().item():
        raise KnnlmError(
            f"cannot read 'ffn' from {type(reader.model).__name__}: its output embedding does not "
            f"give its logits (off by {error:.2g}), so it scales or caps them in a way that knnlm "
            "does not know yet"
        )


def _check_causal(reader: "StateReader", ids: torch.Tensor, states: "States") -> None:
    half = _PROBE_TOKENS // 2
    changed = ids.clone()
    changed[:, half:] = ids.flip(0, 1)[:, half:]
    other = reader.read(changed)
    for key in reader.keys:
        if not _close(reader, states.of(key)[:, :half], other.of(key)[:, :half]):
            raise KnnlmError(
                f"{type(reader.model).__name__} is not causal: its '{key}' states change with "
                "tokens to their right, so they would see what they predict; give a causal LM"
            )


def _check_attention(reader: "StateReader", ids: torch.Tensor, att: torch.Tensor) -> None:
    """att depends on the attention of the last block."""

    def zero(_: Any, __: Any, output: Any) -> Any:
        if reader.current_capture() is None:
            return None
        if isinstance(output, tuple):
            return (torch.zeros_like(output[0]), *output[1:])
        return torch.zeros_like(output)

    location = reader.att_location
    assert location is not None
    # prepended, so that the reader's own hook sees the zeros
    with _temporary(location.attention.register_forward_hook(zero, prepend=True)):
        without_attention = reader.read(ids).of("att")
    if (without_attention - att).abs().max().item() == 0.0:
        raise KnnlmError(
            f"cannot read 'att' from {type(reader.model).__name__}: the {location.description} "
            "does not depend on the last attention; use `keys` ffn"
        )


def _check_norm(reader: "StateReader", ids: torch.Tensor) -> None:
    """att is normalized, and by the right norm."""
    location = reader.att_location
    assert location is not None
    norm_outputs: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        if reader.current_capture() is not None and isinstance(output, torch.Tensor):
            norm_outputs.append(output)

    norms = [m for m in location.block.modules() if "norm" in type(m).__name__.lower()]
    with contextlib.ExitStack() as hooks, reader.capture() as capture:
        for module in norms:
            hooks.enter_context(_temporary(module.register_forward_hook(keep)))
        reader.model.base_model(input_ids=ids, use_cache=False)
    feed_forward_input = capture.tensors["feed_forward_input"]
    if location.parallel:
        # the norm must be the one through which the feed-forward layer reads
        normalized = location.norm is not None and _same(
            reader, location.norm(capture.tensors["block_input"]), feed_forward_input
        )
    else:
        normalized = location.norm is not None or any(
            _same(reader, output, feed_forward_input) for output in norm_outputs
        )
    if not normalized:
        raise KnnlmError(
            f"cannot read 'att' from {type(reader.model).__name__}: the {location.description} is "
            "not normalized as what its last feed-forward layer reads; use `keys` ffn"
        )


def _same(reader: "StateReader", a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal but for rounding and shape."""
    return a.numel() == b.numel() and _close(reader, a.flatten(), b.flatten())


def _close(reader: "StateReader", a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal but for rounding; never true of NaN."""
    return (a - b).abs().max().item() <= _tolerance(reader) * a.abs().max().item()


def _tolerance(reader: "StateReader") -> float:
    return 1e-3 if reader.head.weight.dtype == torch.float32 else 3e-2


@contextlib.contextmanager
def _temporary(handle: Any) -> Iterator[None]:
    """Remove a hook at the end."""
    try:
        yield
    finally:
        handle.remove()
