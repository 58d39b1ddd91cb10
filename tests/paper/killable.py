"""A program that reproduces a recipe in a child process for each number it is told; the child kills
itself there.

The number says before which of its commits (renames of finished files) the child dies without any
notice. For each line the program tells how the child ended."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import transformers

from knnlm.paper.recipes import chosen
from knnlm.paper.runner import reproduce
from knnlm.paper.scales import SMOKE_SCALE


def die_before(commit: int) -> None:
    """Let this process kill itself before its `commit`-th rename."""
    real, seen = os.replace, 0

    def replace(source: Any, target: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == commit:
            os.kill(os.getpid(), signal.SIGKILL)
        real(source, target)

    os.replace = replace  # type: ignore[assignment]


def main(out: str, name: str) -> None:
    """Reproduce `name` into `out`, again and again."""
    for lazy in (
        "OPTForCausalLM",
        "AutoTokenizer",
        "AutoModelForCausalLM",
        "AutoConfig",
        "PreTrainedTokenizerFast",
    ):
        getattr(transformers, lazy)  # once here, not in every child
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                die_before(int(line))
                reproduce(chosen(SMOKE_SCALE, [name]), SMOKE_SCALE, Path(out), None)
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
