"""``pynacount demo``."""

from __future__ import annotations

import sys
from contextlib import closing

import click
from pynamodb.exceptions import PynamoDBException

from pynacount.commands.terminal import terminal
from pynacount.demo.printing import Printer
from pynacount.demo.script import play


@click.command(short_help="Show likes that cannot be miscounted.")
def demo() -> None:
    """Show likes that cannot be miscounted, and check them.

    A table of real data is counted for the first time and compared with the
    published totals. Then likes meet what happens to them in production: a
    double click, a lost response, an edit at the same moment, a deleted post.
    Each request is shown as it was sent.

    It takes a few seconds and needs no AWS account: it runs on moto, inside
    this process. Exit status: 0 if every number and every answer was right,
    else 1.
    """
    printer = Printer(terminal())
    try:
        with closing(play()) as parts:
            for part in parts:
                printer.show(part)
    except ImportError as error:
        click.echo(f"pynacount demo: {error}", err=True)
        sys.exit(2)
    except PynamoDBException as error:
        printer.wrong.append(f"it broke off by {type(error).__name__}: {error.msg}")
    printer.conclude()
    sys.exit(1 if printer.wrong else 0)
