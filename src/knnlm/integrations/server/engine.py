"""The one thread that runs the model. Texts wait for it, join a batch, and leave when they end.

Every step gives each text of the batch one more token. Between two steps at most one waiting prompt
is read, and one part of one other call is done, so that nobody is held up for long. What would have
to wait too long is refused at once.
"""

import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from knnlm.integrations.server.batch import Batch
from knnlm.integrations.server.continuation import Continuation
from knnlm.integrations.server.predictor import Predictor
from knnlm.progress import log

T = TypeVar("T")
_LAST_PART = 2.0  # seconds for what the thread is doing when everything else is given up


class TooBusy(Exception):
    """There is no room for another request: try again later."""


class ShuttingDown(Exception):
    """The server takes no more requests."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How much is done at once.

    Attributes:
        batch: Texts that take a step together.
        waiting: Texts and calls that may wait for their turn.
    """

    batch: int = 16
    waiting: int = 64

    @property
    def total(self) -> int:
        """Texts that there is room for."""
        return self.batch + self.waiting


class Engine:
    """Runs a model for many requests.

    Args:
        predictor: The model; nobody else may call it while the engine runs.
        capacity: How much is done at once.
    """

    def __init__(self, predictor: Predictor, capacity: Capacity) -> None:
        self.predictor, self.capacity = predictor, capacity
        self._batch = Batch(predictor)
        self._texts: deque[Continuation] = deque()
        self._calls: deque[tuple[Generator[None, None, Any], Future[Any]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._deadline: float | None = None
        self._begun: Continuation | None = None
        self._thread = threading.Thread(target=self._run, name="knnlm-engine", daemon=True)
        self._thread.start()

    @property
    def active(self) -> int:
        """Texts that are being continued."""
        return len(self._batch)

    @property
    def waiting(self) -> int:
        """Texts and calls that wait for their turn."""
        return len(self._texts) + len(self._calls)

    @property
    def closing(self) -> bool:
        """Whether nothing new is taken."""
        return self._closing

    def submit(self, texts: Sequence[Continuation]) -> None:
        """Let texts be continued, all of them or none.

        Raises:
            TooBusy: Too many wait already.
            ShuttingDown: The engine is closing.
        """
        with self._changed:
            self._make_room(len(texts))
            self._texts.extend(texts)
            self._changed.notify()

    def call(self, work: Generator[None, None, T]) -> "Future[T]":
        """Let the engine's thread do something with the model.

        Args:
            work: Yields between its parts; it is given up there once the future is cancelled.

        Raises:
            TooBusy: Too many wait already.
            ShuttingDown: The engine is closing.
        """
        future: Future[T] = Future()
        with self._changed:
            self._make_room(1)
            self._calls.append((work, future))
            self._changed.notify()
        return future

    def stop_taking(self) -> None:
        """Refuse what comes from now on. What has begun goes on."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def close(self, seconds: float) -> bool:
        """Take nothing new, finish what has begun, and end the thread. From any thread.

        Args:
            seconds: How long to wait for that, from the first time this is called; what is left
                then ends with `ShuttingDown`.

        Returns:
            Whether everything was finished.
        """
        self.stop_taking()
        with self._changed:
            if self._deadline is None:
                self._deadline = time.monotonic() + seconds
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        finished = not self._thread.is_alive()
        if not finished:
            self._give_up()
            self._thread.join(_LAST_PART)
        return finished

    def _give_up(self) -> None:
        """End what has begun and what waits. Who waits for it is told at once, though the thread
        may take a while to notice."""
        with self._changed:
            calls, self._calls = self._calls, deque()
            begun = [] if self._begun is None else [self._begun]
            texts, self._texts = [*self._texts, *begun], deque()
        for text in (*texts, *self._batch.texts):  # in this order: what has begun joins the batch
            text.cancel()
            text.fail(ShuttingDown())
        for _, future in calls:
            _settle(future, ShuttingDown())

    def _make_room(self, count: int) -> None:
        if self._closing:
            raise ShuttingDown
        self._drop_cancelled()
        room = self.capacity.waiting + max(0, self.capacity.batch - self.active)
        if self.waiting + count > room:
            raise TooBusy

    def _drop_cancelled(self) -> None:
        self._texts = deque(text for text in self._texts if not text.cancelled)
        self._calls = deque(call for call in self._calls if not call[1].cancelled())

    def _run(self) -> None:
        while self._wait():
            self._do_a_part_of_a_call()
            self._begin_a_text()
            if len(self._batch):
                self._step()
        self._batch.clear()

    def _wait(self) -> bool:
        """Wait until there is work. False when the engine has closed and all is done."""
        with self._changed:
            while True:
                self._drop_cancelled()
                if self._texts or self._calls or len(self._batch):
                    return True
                if self._closing:
                    return False
                self._changed.wait()

    def _do_a_part_of_a_call(self) -> None:
        """The first two calls take turns, and the others wait: if all took turns, none would be
        done early. Their futures stay pending: one that runs cannot be cancelled."""
        with self._changed:
            if not self._calls:
                return
            work, future = self._calls[0]
            if len(self._calls) > 1:
                self._calls[0], self._calls[1] = self._calls[1], self._calls[0]
        try:
            next(work)
            return
        except StopIteration as end:
            result = end.value
        except Exception as error:
            result = error
        if self._remove(future):
            _settle(future, result)

    def _remove(self, ended: "Future[Any]") -> bool:
        """Whether it was still there: what is given up has been told so."""
        with self._changed:
            count = len(self._calls)
            self._calls = deque(call for call in self._calls if call[1] is not ended)
            return len(self._calls) < count

    def _begin_a_text(self) -> None:
        with self._changed:
            if not self._texts or len(self._batch) >= self.capacity.batch:
                return
            text = self._begun = self._texts.popleft()
        try:
            if not text.cancelled:
                self._batch.begin(text)
        except Exception as error:
            text.fail(error)
        self._begun = None

    def _step(self) -> None:
        try:
            self._batch.step()
        except Exception as error:
            log.error(f"a step of generation failed: {error}")
            for text in self._batch.texts:
                text.fail(error)
            self._batch.clear()


def _settle(future: "Future[Any]", result: Any) -> None:
    """Say how a call ended, unless nobody waits for it any more."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
