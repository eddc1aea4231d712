"""The command line's entry point. It works without click and rich, to say that they are missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``pynacount``; the exit status is 2 where what the commands need is not installed."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(f'pynacount: {error.name} is missing; install it by: pip install "pynacount[demo]"', file=sys.stderr)
        sys.exit(2)
    from pynacount.commands import group

    group(prog_name="pynacount")
