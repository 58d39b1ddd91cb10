"""Threads with one core each: the pieces of a search run side by side and wait for nobody.

A matrix product on all cores waits for the slowest of them, and what comes between two products
(reading, converting, selecting) runs on one. Here every thread takes a piece and does all of it.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import torch


@contextmanager
def one_core_each() -> Iterator[ThreadPoolExecutor]:
    """As many threads as PyTorch would use for one product; in each of them it uses one."""
    count = torch.get_num_threads()
    together = Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # the first question gives a new thread the process's default
        together.wait()
        torch.set_num_threads(1)  # of this thread, and the process's default
        together.wait()

    with ThreadPoolExecutor(count) as pool:
        begun = [pool.submit(begin) for _ in range(count)]
        together.wait()
        together.wait()
        torch.set_num_threads(count)  # the default of threads that start later is as it was
        for each in begun:
            each.result()
        yield pool
