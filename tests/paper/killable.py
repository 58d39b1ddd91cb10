"""A program that reproduces an experiment in a child process for each number it is told; the child
kills itself there (tests/experiments/killable.py)."""

import sys
from pathlib import Path

from knnlm_paper.experiments import chosen
from knnlm_paper.runner import reproduce
from knnlm_paper.scales import SMOKE_SCALE
from tests.experiments.killable import killed_again_and_again


def main(out: str, name: str) -> None:
    """Reproduce `name` into `out`, again and again."""
    killed_again_and_again(
        lambda: reproduce(chosen(SMOKE_SCALE, [name]), SMOKE_SCALE, Path(out), None)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
