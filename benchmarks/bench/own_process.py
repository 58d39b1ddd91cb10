"""Time and memory of one piece of work, in a process of its own.

The process runs a module with one argument. It writes "ready" on stdout, waits for a line, writes
"done" when the work was done once, and then a line of JSON. Until "done" its memory is read from
/proc every few milliseconds by this process, which nothing in the other one can hold up.
Pages of memory-mapped files are part of the resident memory as long as the kernel keeps them, but
not of the anonymous memory, which is what the work itself asked for.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

_SAMPLED_EVERY = 0.003
_BENCHMARKS = Path(__file__).parent.parent


class Memory(NamedTuple):
    """Bytes of a process; zeros where the system does not say.

    Attributes:
        resident: All that is in memory, pages of files included.
        anonymous: Without pages of files.
    """

    resident: int
    anonymous: int


class Measured(NamedTuple):
    """What a process said, and how far its memory grew.

    Attributes:
        result: The JSON of its last line.
        peak: The most memory while it worked, less what it had before.
    """

    result: dict[str, Any]
    peak: Memory


def in_own_process(module: str, argument: dict[str, Any]) -> Measured:
    """Run a module of the benchmarks on an argument, which it gets as JSON.

    Args:
        module: Its dotted name.
        argument: What it reads from its command line.

    Raises:
        RuntimeError: The process failed.
    """
    paths = [str(_BENCHMARKS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", module, json.dumps(argument)]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as messages,
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=messages, text=True, env=environment
        ) as process,
    ):
        try:
            peak, result = _watched(process)
        except BaseException as error:
            process.kill()
            messages.seek(0)
            error.add_note(messages.read()[-2000:])
            raise
    return Measured(result, peak)


def _watched(process: "subprocess.Popen[str]") -> tuple[Memory, dict[str, Any]]:
    """How far its memory grew, and its result."""
    assert process.stdin is not None
    assert process.stdout is not None
    lines = process.stdout
    _expect(lines.readline(), "ready")
    before = peak = _memory(process.pid)
    process.stdin.write("go\n")
    process.stdin.flush()
    while not select.select([lines], [], [], _SAMPLED_EVERY)[0]:
        peak = Memory(*map(max, peak, _memory(process.pid)))
    _expect(lines.readline(), "done")
    grown = Memory(peak.resident - before.resident, peak.anonymous - before.anonymous)
    return grown, json.loads(lines.readline())


def _expect(line: str, word: str) -> None:
    if line.strip() != word:
        raise RuntimeError(f"the measured process wrote '{line.strip()}' instead of '{word}'")


def _memory(process: int) -> Memory:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return Memory(0, 0)
    sizes = dict(line.split(":", 1) for line in text.splitlines())
    resident, anonymous = (
        1024 * int(sizes.get(name, "0").split()[0]) for name in ("VmRSS", "RssAnon")
    )
    return Memory(resident, anonymous)
