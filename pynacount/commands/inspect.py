"""``pynacount inspect``."""

from __future__ import annotations

import json
import sys

import click

from pynacount.commands.terminal import terminal
from pynacount.commands.trouble import FAILED
from pynacount.inspecting import inspect as inspected
from pynacount.inspecting.looking import FIRST
from pynacount.inspecting.parts import Summary
from pynacount.inspecting.printing import Printer
from pynacount.inspecting.records import encoded, record
from pynacount.targets import key_variables, one_model


@click.command(short_help="Show a parent, its tally, its children.")
@click.argument("target")
@click.argument("key", metavar="NAME=VALUE...", nargs=-1)
@click.option("-n", "--first", type=click.IntRange(min=0), default=FIRST, show_default=True, help="Children to show.")
@click.option("--all", "everything", is_flag=True, help="Show all children.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the last a summary.")
def inspect(target: str, key: tuple[str, ...], first: int, everything: bool, as_json: bool) -> None:
    """Show one parent as it is stored, its tally beside its count, its children.

    TARGET is module:Model or module:Model.counter. NAME=VALUE are the variables
    of the parent's key:

    \b
      pynacount inspect app.models:Post post_id=a91f

    Nothing is written. Counting costs the read units of all the children. A
    tally that differs from its count is looked at again, as a like may be
    under way.

    Exit status: 0 nothing is wrong; 1 there is drift, or no such parent, or it
    could not be told; 2 the command could not be run as it was called.
    """
    counters = one_model(target)
    model = counters[0].owner
    ref = model.ref(**key_variables(model, key))
    printer = Printer(terminal())
    for part in inspected(counters, ref, None if everything else first):
        if not as_json:
            printer.show(part)
        elif (line := record(part)) is not None:
            click.echo(json.dumps(line, default=encoded))
        if isinstance(part, Summary) and not part.clean:
            sys.exit(FAILED)
