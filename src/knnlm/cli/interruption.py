"""Ctrl-C: one sentence and exit code 1, whatever the command is doing.

This is imported before anything else of the command, so it imports next to nothing. Work that was
begun ends with KeyboardInterrupt, which keeps what was done. While a module is imported that does
not help: libraries hide the exception, or print it from where nobody can catch it. Nothing is lost
then (what is on disk survives a kill), so the process ends at once.
"""

import os
import signal
import sys
from types import FrameType

NOTHING_TO_RESUME = ("generate", "serve", "info", "verify")
"""Verbs that begin again, whatever an interrupted one did."""
_IMPORT = "<frozen importlib"  # where Python says that its import system is


def handle_interrupts() -> None:
    """From now on Ctrl-C ends an import at once, and raises KeyboardInterrupt elsewhere.

    Where whoever started the process had Ctrl-C ignored, as for a job in the background, it stays
    ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def ignore_interrupts() -> None:
    """From now on Ctrl-C does nothing: the command is done, and the process about to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def say_interrupted(arguments: list[str]) -> int:
    """Print the sentence about an interrupted command, and return its exit code."""
    verb = arguments[0] if arguments else "-"
    resumes = not verb.startswith("-") and verb not in NOTHING_TO_RESUME
    advice = ": run the same command again to resume" if resumes else ""
    print(f"knnlm: interrupted{advice}", file=sys.stderr, flush=True)
    return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        os._exit(say_interrupted(sys.argv[1:]))
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORT):
            return True
        frame = frame.f_back
    return False
