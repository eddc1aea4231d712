"""Ctrl-C for a command that is to stop between two parents."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Stopped(SystemExit):
    """The end of a command that Ctrl-C stopped; what would come behind it is not begun."""


@contextmanager
def stop_at_interrupt(tell: Callable[[], None]) -> Iterator[threading.Event]:
    """The event is set by the first Ctrl-C, and ``tell`` is called; the next one is a ``KeyboardInterrupt`` as ever."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping  # signals are not this thread's
        return

    def handle(*_: Any) -> None:
        stopping.set()
        signal.signal(signal.SIGINT, before)
        with suppress(RuntimeError):  # it came in the midst of another line to stderr
            tell()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)
