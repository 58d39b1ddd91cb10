"""Taps: forward hooks that read states while the model runs, verified when they attach.

`forward` is never replaced. The model's body runs without its output embedding unless log-probabilities are asked for.
Two facts are checked on a small probe before the first use, and a model that fails them is refused with the reason:

  head(ffn) equals the logits that the model itself returns;
  att changes when the last block's attention is silenced (a parallel block would fail this).
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from knnlm.errors import KnnlmError, UsageError, unknown
from knnlm.taps.families import FAMILIES

KEYS = ("att", "ffn")
_PROBE_TOKENS = 12


class States(NamedTuple):
    """States of a batch (B, T, D) at every position; None where not asked for."""

    att: torch.Tensor | None
    ffn: torch.Tensor

    def of(self, key: str) -> torch.Tensor:
        """The states named `key`."""
        found = self.att if key == "att" else self.ffn
        assert found is not None
        return found


def checked_keys(names: Sequence[str]) -> tuple[str, ...]:
    """`names` without repetition, in the order of KEYS; an unknown one is an error."""
    for name in names:
        if name not in KEYS:
            raise unknown("key", name, KEYS)
    if not names:
        raise UsageError(f"no key given: choose of {', '.join(KEYS)}")
    return tuple(k for k in KEYS if k in names)


class Tap:
    """Reads a causal LM. Not safe for concurrent calls: the hook keeps what it saw until the call returns."""

    def __init__(self, model: Any, keys: Sequence[str] = KEYS) -> None:
        self.model, self.keys = model, checked_keys(keys)
        self.reader = self.attention = None
        if "att" in self.keys:
            self.reader, self.attention = _find(model)
        self._verify()

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""
        found = next(iter(self.model.parameters())).device
        assert isinstance(found, torch.device)
        return found

    def read(self, ids: torch.Tensor) -> States:
        """States at every position of `ids` (B, T), without running the output embedding."""
        seen: list[torch.Tensor] = []
        with _watch(self.reader, seen):
            ffn = self.model.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return States(self._att(seen, ids), ffn)

    def logits(self, ffn: torch.Tensor) -> torch.Tensor:
        """The model's own logits for states (…, D) that enter its output embedding."""
        found = self.model.get_output_embeddings()(ffn)
        assert isinstance(found, torch.Tensor)
        return found

    def widths(self) -> dict[str, int]:
        """Width of each key."""
        states = self.read(self._probe())
        return {key: states.of(key).shape[-1] for key in self.keys}

    def _att(self, seen: list[torch.Tensor], ids: torch.Tensor) -> torch.Tensor | None:
        # OPT hands its feed-forward layer a flattened (B·T, D)
        return seen[0].reshape(*ids.shape, -1) if seen else None

    def _probe(self) -> torch.Tensor:
        vocabulary = self.model.get_output_embeddings().weight.shape[0]
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(vocabulary, (2, _PROBE_TOKENS), generator=generator)
        return ids.to(self.device)

    @torch.inference_mode()
    def _verify(self) -> None:
        ids = self._probe()
        states = self.read(ids)
        wanted = self.model(input_ids=ids, use_cache=False).logits
        error = (self.logits(states.ffn) - wanted).abs().max().item()
        if not error <= 1e-3 * wanted.abs().max().item():
            raise KnnlmError(
                f"cannot read 'ffn' from {type(self.model).__name__}: its output embedding does not give its logits "
                f"(off by {error:.2g}), so it scales or caps them in a way that knnlm does not know yet"
            )
        if states.att is not None:
            with _silence(self.attention):
                silenced = self.read(ids).att
            assert silenced is not None
            if (silenced - states.att).abs().max().item() == 0.0:
                raise KnnlmError(
                    f"cannot read 'att' from {type(self.model).__name__}: what its last feed-forward layer reads does "
                    "not depend on the last attention; use --keys ffn"
                )


def _find(model: Any) -> tuple[Any, Any]:
    kind = model.config.model_type
    if kind not in FAMILIES:
        raise KnnlmError(
            f"'att' is not defined yet for {kind} models (known: {', '.join(sorted(FAMILIES))}): use --keys ffn"
        )
    family = FAMILIES[kind]
    if kind == "opt" and not model.config.do_layer_norm_before:
        raise KnnlmError(
            "this OPT model normalises after its feed-forward layer, so 'att' is not defined: use --keys ffn"
        )
    block = model.get_submodule(family.blocks)[-1]
    return block.get_submodule(family.reader), block.get_submodule(family.attention)


@contextlib.contextmanager
def _watch(module: Any, seen: list[torch.Tensor]) -> Iterator[None]:
    if module is None:
        yield
        return
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
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

    handle = module.register_forward_hook(zero)
    try:
        yield
    finally:
        handle.remove()
