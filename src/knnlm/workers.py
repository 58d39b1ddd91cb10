"""Threads with one core each: the pieces of a search run side by side and wait for nobody.

A matrix product on all cores waits for the slowest of them, and what comes between two products
(reading, converting, selecting) runs on one. Here every thread takes a piece and does all of it.
"""

import functools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any, Generic, TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class _Here(threading.local):
    one_core = False


_here = _Here()


def has_one_core() -> bool:
    """Whether this thread is one of those that have a core each."""
    return _here.one_core


def core_count() -> int:
    """How many threads PyTorch uses for one product, and we for the pieces of a search."""
    return torch.get_num_threads()


def on_all_cores(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """The results of all pieces, in their order; a thread that has one core does them itself."""
    if has_one_core():
        return [work(piece) for piece in pieces]
    results: list[Any] = [None] * len(pieces)
    rest = iter(range(len(pieces)))  # shared: each thread takes the next

    def take_pieces(_: int) -> None:
        for number in rest:
            results[number] = work(pieces[number])

    threads = min(core_count(), len(pieces))
    if threads:
        list(_one_core_each(os.getpid(), core_count()).map(take_pieces, range(threads)))
    return results


class Begun(Generic[Result]):
    """Work on pieces that was started; call it for the results."""

    def __init__(self, futures: Sequence[Future[Result]]) -> None:
        self._futures = futures

    def __call__(self) -> list[Result]:
        """Wait for the results, in the order of the pieces.

        An exception of one piece is raised here, and pieces that nobody has started then are left
        out; so they are where waiting is interrupted.
        """
        try:
            return [each.result() for each in self._futures]
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Leave out the pieces that nobody has started."""
        for each in self._futures:
            each.cancel()


def begin_on_all_cores(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Begun[Result]:
    """Start work on all pieces, after what was started before."""
    pool = _one_core_each(os.getpid(), core_count())
    return Begun([pool.submit(work, piece) for piece in pieces])


@functools.cache
def _one_core_each(process: int, count: int) -> ThreadPoolExecutor:
    """Threads in each of which PyTorch uses one core. They are kept: to start them takes as long as
    a search for one token. A forked process has none of its parent's, so it starts its own."""
    together = Barrier(count + 1)

    def begin() -> None:
        _here.one_core = True
        torch.get_num_threads()  # the first question gives a new thread the process's default
        together.wait()
        torch.set_num_threads(1)  # of this thread, and the process's default
        together.wait()

    pool = ThreadPoolExecutor(count, thread_name_prefix="knnlm-core")
    begun = [pool.submit(begin) for _ in range(count)]
    together.wait()
    together.wait()
    torch.set_num_threads(count)  # the default of threads that start later is as it was
    for each in begun:
        each.result()
    return pool
