"""How a command is called here: by itself as ``pynacount``, in Flask as ``flask tallies``."""

from __future__ import annotations

import click


def program() -> str:
    """What stands before ``repair`` where a message says how to call it."""
    context = click.get_current_context(silent=True)
    if context is None or context.parent is None:
        return "pynacount"
    return context.parent.command_path
