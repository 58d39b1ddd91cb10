"""A program that measures conditions in a child process for each number it is told; the child kills
itself there.

The number says before which of its commits (renames of finished files) the child dies without any
notice. For each line the program tells how the child ended."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transformers

from knnlm.experiments import ExistingLM
from tests.experiments.coverage import Coverage, experiment, texts_of

CONDITIONS = tuple(Coverage(k) for k in (1, 4, 16))


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


def killed_again_and_again(work: Callable[[], object]) -> None:
    """Do the work in a child for each line of the standard input."""
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
                work()
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitpid(child, 0)[1], flush=True)


def main(out: str, texts: str, model: str) -> None:
    """Measure into `out`, again and again."""
    lms = [ExistingLM("main", model)]
    killed_again_and_again(lambda: experiment(CONDITIONS, Path(out), texts_of(Path(texts)), lms))


if __name__ == "__main__":
    main(*sys.argv[1:])
