"""The commands of ``pynacount``. To add one: a module here that holds it, and its name in ``group`` below."""

from __future__ import annotations

import click

import pynacount
from pynacount.commands.audit import audit_command
from pynacount.commands.demo import demo
from pynacount.commands.explain import explain
from pynacount.commands.inspect import inspect
from pynacount.commands.migrate import migrate_command
from pynacount.commands.repair import repair_command
from pynacount.commands.reshard import reshard_command
from pynacount.commands.stream import stream_command
from pynacount.commands.trouble import Group


@click.group(
    name="pynacount", cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.version_option(pynacount.__version__, prog_name="pynacount")
def group() -> None:
    """Exact counters on DynamoDB, over PynamoDB.

    Exit status: 0 done, and all was right; 1 something was wrong; 2 the
    command could not be run as it was called.
    """


group.add_command(audit_command)
group.add_command(demo)
group.add_command(explain)
group.add_command(inspect)
group.add_command(migrate_command)
group.add_command(repair_command)
group.add_command(reshard_command)
group.add_command(stream_command)
