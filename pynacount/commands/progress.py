"""What a command shows of work that takes long: one line that moves, or a line now and then where it is piped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import Self

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where nobody watches a terminal."""


class Progress:
    """Used in a ``with`` block, during which ``line`` says where it stands, also while nothing comes of it.

    Beside JSON it goes to stderr, and only where that is a terminal.
    """

    def __init__(self, line: Callable[[], str], *, as_json: bool) -> None:
        self._line = line
        self._console = Console(highlight=False, emoji=False, stderr=as_json)
        self._live: Live | None = None
        self._ended = threading.Event()
        self._talker: threading.Thread | None = None
        if self._console.is_terminal:
            # Beside JSON nothing else may come to stdout, nor JSON to the console, which is stderr then.
            self._live = Live(
                console=self._console,
                transient=True,
                redirect_stdout=not as_json,
                get_renderable=lambda: Text(line(), no_wrap=True, overflow="ellipsis"),
            )
        elif not as_json:
            self._talker = threading.Thread(target=self._talk, name="pynacount-progress", daemon=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        if self._talker is not None:
            self._talker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if self._talker is not None:
            self._talker.join()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(Text(line), soft_wrap=True)

    def _talk(self) -> None:
        while not self._ended.wait(PLAIN_EVERY):
            click.echo(self._line())
