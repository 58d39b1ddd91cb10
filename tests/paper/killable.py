"""A program that reproduces a recipe in a child process for each line it is told, so that tests may kill the child.

It imports once and says "ready". Then, for each line: the child's id, and how the child ended.
"""

import os
import sys
from pathlib import Path

from knnlm.paper.recipes import chosen
from knnlm.paper.runner import reproduce
from knnlm.paper.scales import SMOKE_SCALE


def main(out: str, name: str) -> None:
    print("ready", flush=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                reproduce(chosen(SMOKE_SCALE, [name]), SMOKE_SCALE, Path(out), None)
                os._exit(0)
            finally:
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
