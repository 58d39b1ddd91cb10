"""kill -9 at any moment, again and again: the store in the end is the store of a build that was
left alone."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from knnlm.datastore.entries import ENTRIES_KIND, open_entries
from knnlm.datastore.table import open_table, verify_table

from . import killable
from .helpers import committed, contents, sentence

pytestmark = pytest.mark.pipeline

KILLS = 10


class Builder:
    """The other process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.to, self.of = process.stdin, process.stdout
        assert self.of.readline() == "ready\n"

    def build(self, folder: Path, parts: int = 0, later: float | None = None) -> int:
        """Build, killed `later` seconds after so many parts were begun; returns how it ended: 0, or
        the signal."""
        print(folder, file=self.to, flush=True)
        child = int(self.of.readline())
        if later is not None:
            with contextlib.suppress(ProcessLookupError):  # it was faster
                while begun(folder) < parts:
                    os.kill(child, 0)
                    time.sleep(0.001)
                time.sleep(later)
                os.kill(child, signal.SIGKILL)
        return int(self.of.readline())


def begun(folder: Path) -> int:
    return len(list((folder / "parts").glob("*")))


@pytest.fixture
def builder(tmp_path: Path, tiny_model: Path) -> Iterator[Builder]:
    text = tmp_path / "text.txt"
    text.write_text("".join(sentence(12, seed) + "\n" for seed in range(250)))
    command = [sys.executable, killable.__file__, str(tiny_model), str(text)]
    alone = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | alone
    ) as process:
        yield Builder(process)


def test_killed_builds_end_as_the_build_that_was_left_alone(
    tmp_path: Path, builder: Builder
) -> None:
    assert builder.build(tmp_path / "whole") == 0
    whole = open_entries(tmp_path / "whole")
    assert len(whole.table.manifest["parts"]) >= 5
    chance, kills, seen, stores = random.Random(5), 0, set(), 0
    while kills < KILLS:
        stores += 1
        folder, ended = tmp_path / f"killed {stores}", -1
        while ended != 0:
            kept = committed(folder)
            moment = (
                (begun(folder) + chance.randrange(3), chance.uniform(0, 0.03))
                if kills < KILLS
                else ()
            )
            ended = builder.build(folder, *moment)
            assert ended in (0, signal.SIGKILL)
            kills += ended == signal.SIGKILL
            assert committed(folder) >= kept
            if committed(folder):
                seen.add(committed(folder))
                verify_table(open_table(folder, ENTRIES_KIND, unfinished=True))
        assert contents(folder) == contents(tmp_path / "whole")
    assert len(seen - {whole.count}) >= 2, "no kill came between two commits"
