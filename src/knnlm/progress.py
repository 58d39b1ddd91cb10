"""Messages and progress bars: what long work tells the person who waits.

Messages go through `logging` (logger "knnlm"): results of a step at INFO, surprises at WARNING. As
long as the program has not set up logging itself they are printed to stderr as plain lines, so that
stdout belongs to results; `logging.getLogger("knnlm").setLevel("WARNING")` makes knnlm quiet, bars
included.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from knnlm.formats import printable

log = logging.getLogger("knnlm")
LOG_SECONDS = 15.0


class _PlainStderr(logging.Handler):
    """Prints messages to stderr, unless the program logs itself; for the command line, always."""

    always = False
    rewrite: Callable[[str], str] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.always and getattr(record, "is_result", False):
            return
        if self.always or not logging.getLogger().handlers:
            line = self.format(record)
            line = line if self.rewrite is None else self.rewrite(line)
            print(printable(line), file=sys.stderr, flush=True)


_HANDLER = _PlainStderr()
log.addHandler(_HANDLER)
log.setLevel(logging.INFO)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts, as in "1 file" and "2,000 files".

    Args:
        count: The number.
        noun: One of what is counted.
        plural: Several of them, where that is not `noun` with an s.
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def log_result(message: str) -> None:
    """Log what a step came to; the command line, which prints results itself, leaves it out."""
    log.info(message, extra={"is_result": True})


@contextlib.contextmanager
def messages_on_stderr(rewrite: Callable[[str], str] | None = None) -> Iterator[None]:
    """Print messages whatever else is set up: for a program whose stderr is ours.

    Args:
        rewrite: What is made of each message before it is printed.
    """
    before, level = (_HANDLER.always, _HANDLER.rewrite), log.level
    _HANDLER.always, _HANDLER.rewrite = True, rewrite
    try:
        yield
    finally:
        _HANDLER.always, _HANDLER.rewrite = before
        log.setLevel(level)


@contextlib.contextmanager
def no_messages() -> Iterator[None]:
    """Say nothing for a while: for work that is done twice."""
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


class ProgressBar:
    """Counts units of one piece of work: a bar on a terminal, a line now and then in a log.

    Args:
        label: What is done, in a word or two.
        total: How many units there are, or None if nobody knows.
        unit: What is counted, in the plural.
        start: Units that an earlier run has done.

    Example:
        >>> with ProgressBar("build", 2, "tokens") as bar:
        ...     bar.advance(2)
    """

    def __init__(self, label: str, total: int | None, unit: str, start: int = 0) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self.start = start
        self.began = self.last_line = time.monotonic()
        self.bar: Progress | None = None

    def __enter__(self) -> "ProgressBar":
        if self._shown() and sys.stderr.isatty():
            self.bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(
                printable(self.label), total=self.total, completed=self.done, state=""
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        if kind is None and self.done > self.start:
            took = time.monotonic() - self.began
            log.info(f"{self.label}: {self.done:,} {self.unit} in {took:.1f} s ({self.rate})")

    @property
    def rate(self) -> str:
        """Units per second since the start."""
        seconds = max(time.monotonic() - self.began, 1e-9)
        speed = (self.done - self.start) / seconds
        return f"{speed:,.0f} {self.unit}/s" if speed >= 10 else f"{speed:.2g} {self.unit}/s"

    def advance(self, count: int, note: str = "") -> None:
        """Count `count` more units as done; `note` is shown beside the rate."""
        self.done += count
        if not self._shown():
            return
        state = f"{self.rate} {note}".strip()
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, state=state)
        elif time.monotonic() - self.last_line > LOG_SECONDS:
            self.last_line = time.monotonic()
            of_total = "" if self.total is None else f" of {self.total:,}"
            log.info(f"{self.label}: {self.done:,}{of_total} {self.unit}, {state}{self._left()}")

    def _shown(self) -> bool:
        return log.isEnabledFor(logging.INFO)

    def _left(self) -> str:
        if self.total is None or self.done == self.start:
            return ""
        seconds = (time.monotonic() - self.began) / (self.done - self.start)
        return f", {seconds * (self.total - self.done):.0f} s left"
