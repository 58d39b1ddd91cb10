"""Finding "att" in a model: a family's paths, or a path that the user gave, as modules. Knows
nothing of hooks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.hidden_states.families import family_of


class AttLocation(NamedTuple):
    """The modules of one model that give att; `words` says in one line what the vector is."""

    attention: Any
    block: Any
    feed_forward: Any
    parallel: bool
    norm: Any | None
    words: str

    def state(self, seen: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """att, from what the feed-forward layer read, or from what entered the block and what its
        attention gave."""
        found = seen["read"]
        if self.parallel:
            found = seen["entered"] + seen["attended"].reshape(seen["entered"].shape)
        return found if self.norm is None else self.norm(found)


def locate_att(model: Any, module: str | None = None) -> AttLocation:
    """Where att is: by family, or the input of `module` (a dotted path below the causal LM)."""
    return _by_family(model) if module is None else _by_path(model, module)


def _by_family(model: Any) -> AttLocation:
    family = family_of(model.config)
    blocks = model.get_submodule(family.blocks)
    place = f"{family.blocks}.{len(blocks) - 1}"
    block = blocks[-1]

    def below(path: str | None) -> Any:
        if path is None:
            return None
        return model.get_submodule(path[1:]) if path.startswith("/") else block.get_submodule(path)

    vector = f"block input + {family.attention}" if family.parallel else f"input of {family.reads}"
    norm = f"{family.norm.lstrip('/')} of " if family.norm else ""
    words = f"{norm}{vector} in {place}"
    attention, feed_forward = below(family.attention), below(family.reads)
    return AttLocation(attention, block, feed_forward, family.parallel, below(family.norm), words)


def _by_path(model: Any, path: str) -> AttLocation:
    """The module a user named. Its block must have one attention, or nothing could be checked."""
    try:
        reader = model.get_submodule(path)
    except AttributeError as error:
        raise UsageError(
            f"{type(model).__name__} has no module '{path}': give a path such as {_example(model)}"
        ) from error
    block_path = _enclosing_block(path)
    block = model.get_submodule(block_path)
    if not _is_last(model, block_path):
        raise UsageError(
            f"{path} is not in the last block, where 'att' is: give a path such as "
            f"{_example(model)}"
        )
    attentions = {
        name: m
        for name, m in block.named_modules()
        if name and type(m).__name__.lower().endswith(("attention", "attn"))
    }
    outer = [m for n, m in attentions.items() if not any(n.startswith(o + ".") for o in attentions)]
    if len(outer) != 1:
        raise KnnlmError(
            f"cannot check 'att' at {path}: {block_path or 'the model'} has {len(outer)} attention "
            "modules instead of "
            "one: use --keys ffn"
        )
    return AttLocation(
        outer[0], block, reader, False, None, f"input of {path}, as named by --att-module"
    )


def _enclosing_block(path: str) -> str:
    """`path` up to its last number, which is a block's place in its list."""
    parts = path.split(".")
    last = max((i for i, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[: last + 1])


def _is_last(model: Any, block_path: str) -> bool:
    blocks, _, place = block_path.rpartition(".")
    return not place.isdigit() or int(place) == len(model.get_submodule(blocks)) - 1


def _example(model: Any) -> str:
    """A module of the last block, to show what a path looks like."""
    names = [
        name for name, _ in model.named_modules() if any(part.isdigit() for part in name.split("."))
    ]
    return next((n for n in reversed(names) if n.split(".")[-2].isdigit()), "model.layers.11.mlp")
