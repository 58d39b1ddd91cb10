"""How long work shows itself: a bar with rate and time left on a terminal, a line now and then in a log.

Everything goes to stderr; stdout belongs to results. Knows nothing of the work.
"""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG_SECONDS = 15.0


def say(message: str, show: bool = True) -> None:
    """One line for the person who waits."""
    if show:
        print(message, file=sys.stderr, flush=True)


class Meter:
    """Counts units of one piece of work. Use as a context manager; `advance` is cheap."""

    def __init__(self, label: str, total: int | None, unit: str, show: bool, start: int = 0) -> None:
        self.label, self.total, self.unit, self.show = label, total, unit, show
        self.done = self.start = start
        self.began = self.last_line = time.monotonic()
        self.bar: Progress | None = None

    def __enter__(self) -> "Meter":
        if self.show and sys.stderr.isatty():
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=self.total, completed=self.done, state="")
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
            say(f"{self.label}: {self.done:,} {self.unit} in {took:.1f} s ({self.rate})", self.show)

    @property
    def rate(self) -> str:
        """Units per second since the start."""
        seconds = max(time.monotonic() - self.began, 1e-9)
        speed = (self.done - self.start) / seconds
        return f"{speed:,.0f} {self.unit}/s" if speed >= 10 else f"{speed:.2g} {self.unit}/s"

    def advance(self, count: int, note: str = "") -> None:
        """`count` more units are done; `note` is shown beside the rate."""
        self.done += count
        if not self.show:
            return
        state = f"{self.rate} {note}".strip()
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, state=state)
        elif time.monotonic() - self.last_line > LOG_SECONDS:
            self.last_line = time.monotonic()
            say(f"{self.label}: {self.done:,}{self._of_total()} {self.unit}, {state}{self._left()}")

    def _of_total(self) -> str:
        return "" if self.total is None else f" of {self.total:,}"

    def _left(self) -> str:
        if self.total is None or self.done == self.start:
            return ""
        seconds = (time.monotonic() - self.began) / (self.done - self.start)
        return f", {seconds * (self.total - self.done):.0f} s left"
