"""Where "att" is in one model: the paths of its family, or a path that the user gave, resolved to
modules."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.hidden_states.families import family_of


class AttLocation(NamedTuple):
    """The modules of one model from which att is read.

    Attributes:
        attention: The attention module of the block.
        block: The block.
        feed_forward: The module whose input is att or, with a `norm`, what is normalized to att.
        parallel: Whether att is computed from the block's input and its attention's output,
            because the feed-forward layer never sees their sum.
        norm: The norm to apply to that state, where it is not normalized yet.
        description: In one line, which vector this is; manifests keep it.
    """

    attention: Any
    block: Any
    feed_forward: Any
    parallel: bool
    norm: Any | None
    description: str

    def state(self, captured: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """att, from the tensors that a reader's hooks captured (see `Capture`)."""
        state = captured["feed_forward_input"]
        if self.parallel:
            block_input = captured["block_input"]
            state = block_input + captured["attention_output"].reshape(block_input.shape)
        return state if self.norm is None else self.norm(state)


def locate_att(model: Any, module: str | None = None) -> AttLocation:
    """Find att in a model.

    Args:
        model: A causal LM of transformers.
        module: Path, below the causal LM, of the module of the last block whose input is att;
            None looks the model's family up in `FAMILIES`.

    Returns:
        The modules to read. Nothing is attached or checked numerically yet: `StateReader` does it.

    Raises:
        KnnlmError: att is not defined for this architecture, or could not be checked there.
        UsageError: `module` does not exist, or is not in the last block.
    """
    return _by_family(model) if module is None else _by_path(model, module)


def _by_family(model: Any) -> AttLocation:
    family = family_of(model.config)
    blocks = model.get_submodule(family.blocks)
    block = blocks[-1]

    def resolve(path: str | None) -> Any:
        if path is None:
            return None
        return model.get_submodule(path[1:]) if path.startswith("/") else block.get_submodule(path)

    if family.parallel:
        vector = f"block input + {family.attention}"
    else:
        vector = f"input of {family.feed_forward}"
    norm = f"{family.norm.lstrip('/')} of " if family.norm else ""
    return AttLocation(
        attention=resolve(family.attention),
        block=block,
        feed_forward=resolve(family.feed_forward),
        parallel=family.parallel,
        norm=resolve(family.norm),
        description=f"{norm}{vector} in {family.blocks}.{len(blocks) - 1}",
    )


def _by_path(model: Any, path: str) -> AttLocation:
    """The module that a user named; its block must have one attention, or att cannot be checked."""
    try:
        module = model.get_submodule(path)
    except AttributeError as error:
        raise UsageError(
            f"{type(model).__name__} has no module '{path}': give a path such as "
            f"{_example_path(model)}"
        ) from error
    block_path = _enclosing_block(path)
    if not _is_last_block(model, block_path):
        raise UsageError(
            f"{path} is not in the last block, where 'att' is: give a path such as "
            f"{_example_path(model)}"
        )
    block = model.get_submodule(block_path)
    attentions = _outermost_attentions(block)
    if len(attentions) != 1:
        raise KnnlmError(
            f"cannot check 'att' at {path}: {block_path or 'the model'} has {len(attentions)} "
            "attention modules instead of one: use --keys ffn"
        )
    return AttLocation(
        attention=attentions[0],
        block=block,
        feed_forward=module,
        parallel=False,
        norm=None,
        # in manifests: other words here would refuse to resume a build
        description=f"input of {path}, as named by --att-module",
    )


def _outermost_attentions(block: Any) -> list[Any]:
    """The attention modules of a block, without those inside another attention module."""
    attentions = {
        name: module
        for name, module in block.named_modules()
        if name and type(module).__name__.lower().endswith(("attention", "attn"))
    }
    return [
        module
        for name, module in attentions.items()
        if not any(name.startswith(f"{outer}.") for outer in attentions)
    ]


def _enclosing_block(path: str) -> str:
    """`path` up to its last number, which is a block's index in its list."""
    parts = path.split(".")
    last = max((i for i, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[: last + 1])


def _is_last_block(model: Any, block_path: str) -> bool:
    blocks, _, number = block_path.rpartition(".")
    return not number.isdigit() or int(number) == len(model.get_submodule(blocks)) - 1


def _example_path(model: Any) -> str:
    """A module of the last block, to show what a path looks like."""
    names = [
        name for name, _ in model.named_modules() if any(part.isdigit() for part in name.split("."))
    ]
    return next((n for n in reversed(names) if n.split(".")[-2].isdigit()), "model.layers.11.mlp")
