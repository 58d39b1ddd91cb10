"""A program that builds a store in a child process for each folder it is told, so that tests may
kill the child.

It imports and loads once and says "ready". Then, for each line: the child's id, and how the child
ended."""

import os
import sys
from pathlib import Path

from knnlm.datastore import build
from knnlm.models.load import load_model
from knnlm.text.local_files import Files


def main(model: str, text: str) -> None:
    build.GROUP_TOKENS, build.CHECKPOINT_SECONDS = 300, 0.0
    lm = load_model(model)
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                build.build_entries(
                    lm, Files((Path(text),)), Path(line.strip()), window=16, stride=8, part_rows=600
                )
                os._exit(0)
            finally:
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
