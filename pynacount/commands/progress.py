"""What a command shows of work that takes long: one line that moves, or a line now and then where it is piped."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import Self

PLAIN_EVERY = 5.0
"""Seconds between two lines of progress where nobody watches a terminal."""


class Progress:
    """Used in a ``with`` block. Beside JSON it goes to stderr, and only where that is a terminal."""

    def __init__(self, *, as_json: bool) -> None:
        self._quiet = as_json
        self._console = Console(highlight=False, emoji=False, stderr=as_json)
        # Beside JSON nothing else may come to stdout, nor JSON to the console, which is stderr then.
        self._live = Live(console=self._console, transient=True, auto_refresh=False, redirect_stdout=not as_json)
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """A line that stays."""
        self._console.print(Text(line), soft_wrap=True)

    def show(self, line: Callable[[], str]) -> None:
        """Where it stands."""
        if self._console.is_terminal:
            self._live.update(Text(line()), refresh=True)
        elif not self._quiet and time.monotonic() - self._told > PLAIN_EVERY:
            self._told = time.monotonic()
            click.echo(line())
