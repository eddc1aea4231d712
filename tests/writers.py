"""Threads that write while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def at_work(threads: int, write: Callable[[int, threading.Event], None]) -> Iterator[None]:
    """``write(number, stop)`` runs in so many threads, until the block ends and ``stop`` is set."""
    stop = threading.Event()
    pool = [threading.Thread(target=write, args=(number, stop)) for number in range(threads)]
    for thread in pool:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in pool:
            thread.join()
