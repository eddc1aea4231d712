"""The terminal that commands print on."""

from __future__ import annotations

from rich.console import Console

WIDTH = 80
"""Columns: the lines are laid out for this many, whatever the terminal has."""


def terminal() -> Console:
    """A console of no more than :data:`WIDTH` columns; without colour where nobody watches."""
    console = Console(highlight=False, emoji=False)
    console.width = min(console.width, WIDTH)
    return console
