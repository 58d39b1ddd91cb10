"""Finding "att" in a model: a family's paths, or a path that the user gave, as modules. Knows nothing of hooks."""

from typing import Any, NamedTuple

import torch

from knnlm.errors import KnnlmError, UsageError
from knnlm.taps.families import family_of


class AttPoint(NamedTuple):
    """The modules of one model that give att; `words` says in one line what the vector is."""

    attention: Any
    block: Any
    reader: Any | None
    norm: Any | None
    words: str

    def state(self, read: torch.Tensor | None, entered: torch.Tensor | None, attended: torch.Tensor) -> torch.Tensor:
        """att, from what the reader read, or from what entered the block and what its attention gave."""
        if self.reader is None:
            assert entered is not None
            found = entered + attended.reshape(entered.shape)
        else:
            assert read is not None
            found = read
        return found if self.norm is None else self.norm(found)


def find_att(model: Any, module: str | None = None) -> AttPoint:
    """Where att is: by family, or the input of `module` (a dotted path below the causal LM)."""
    return _by_family(model) if module is None else _by_path(model, module)


def _by_family(model: Any) -> AttPoint:
    family = family_of(model.config)
    blocks = model.get_submodule(family.blocks)
    place = f"{family.blocks}.{len(blocks) - 1}"
    block = blocks[-1]

    def below(path: str | None) -> Any:
        if path is None:
            return None
        return model.get_submodule(path[1:]) if path.startswith("/") else block.get_submodule(path)

    vector = f"input of {family.reader}" if family.reader else f"block input + {family.attention}"
    norm = f"{family.norm.lstrip('/')} of " if family.norm else ""
    words = f"{norm}{vector} in {place}"
    return AttPoint(below(family.attention), block, below(family.reader), below(family.norm), words)


def _by_path(model: Any, path: str) -> AttPoint:
    """The module a user named. Its block must have one attention, or nothing could be checked."""
    try:
        reader = model.get_submodule(path)
    except AttributeError as error:
        raise UsageError(
            f"{type(model).__name__} has no module '{path}': give a path such as {_example(model)}"
        ) from error
    block_path = _enclosing_block(path)
    block = model.get_submodule(block_path)
    attentions = {
        name: m
        for name, m in block.named_modules()
        if name and type(m).__name__.lower().endswith(("attention", "attn", "sdpaattention", "flashattention2"))
    }
    outer = [m for n, m in attentions.items() if not any(n.startswith(o + ".") for o in attentions)]
    if len(outer) != 1:
        raise KnnlmError(
            f"cannot check 'att' at {path}: {block_path or 'the model'} has {len(outer)} attention modules instead of "
            "one: use --keys ffn"
        )
    return AttPoint(outer[0], block, reader, None, f"input of {path}, as named by --att-module")


def _enclosing_block(path: str) -> str:
    """`path` up to its last number, which is a block's place in its list."""
    parts = path.split(".")
    last = max((i for i, part in enumerate(parts) if part.isdigit()), default=-1)
    return ".".join(parts[: last + 1])


def _example(model: Any) -> str:
    """A module of the last block, to show what a path looks like."""
    names = [name for name, _ in model.named_modules() if any(part.isdigit() for part in name.split("."))]
    return next((n for n in reversed(names) if n.split(".")[-2].isdigit()), "model.layers.11.mlp")
