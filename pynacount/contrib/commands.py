"""The commands of ``pynacount``, for the command line of a web framework."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from pynacount.commands import group
from pynacount.commands.interrupts import Stopped
from pynacount.commands.trouble import in_one_line, status_of
from pynacount.errors import TargetError

_NOT_HERE = frozenset({"demo"})
_WITH_A_TARGET = frozenset({"reshard"})
"""What changes how tallies are stored is never done to whatever happens to be listed."""
HELP = "Exact counters on DynamoDB: seed, audit, repair and look at them."
_COLUMNS = 80


class Here(click.Command):
    """A command under a framework's own name: its examples begin as it is called."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, with the examples as they are typed here."""
        name = ctx.parent.command_path if ctx.parent is not None else ctx.command_path
        said, self.help = self.help, "\n".join(_renamed(line, name) for line in (self.help or "").splitlines())
        try:
            super().format_help_text(ctx, formatter)
        finally:
            self.help = said


def _renamed(line: str, name: str) -> str:
    """An example that becomes too long goes on in a second line."""
    if not line.strip().startswith("pynacount "):
        return line
    line = line.replace("pynacount", name, 1)
    if len(line) + 2 <= _COLUMNS:
        return line
    head, _, tail = line[: _COLUMNS - 4].rpartition(" ")
    return f"{head} \\\n      {tail}{line[_COLUMNS - 4 :]}"


def commands(targets: Callable[[], Iterable[str]]) -> list[click.Command]:
    """The commands, less those that have no application to work on.

    TARGET may be left out, but for ``reshard``: then it is the only one that ``targets()`` gives. ``audit`` goes
    through all of them.
    """
    return [_adapted(command, targets) for name, command in group.commands.items() if name not in _NOT_HERE]


def _adapted(command: click.Command, targets: Callable[[], Iterable[str]]) -> click.Command:
    params, callback = list(command.params), command.callback
    if command.name not in _WITH_A_TARGET:
        behind = [p.name for p in params if isinstance(p, click.Argument) and p.name != "target"]
        callback = _without_target(command, targets, behind[0] if behind else None)
        optional = click.Argument(["target"], required=False, metavar="[TARGET]")
        params = [optional if param.name == "target" else param for param in params]
    return Here(
        command.name,
        context_settings=command.context_settings,
        callback=callback,
        params=params,
        help=command.help,
        short_help=command.short_help,
    )


def _without_target(
    command: click.Command, targets: Callable[[], Iterable[str]], behind: str | None
) -> Callable[..., None]:
    """The command's own callback, called for the application's models where no TARGET is given."""
    run: Callable[..., None] = command.callback  # type: ignore[assignment]  # each of ours has one

    def called(target: str | None, **options: Any) -> None:
        if behind is not None and target is not None and "=" in target:
            target, options[behind] = None, (target, *options[behind])
        if target is None and command.name == "audit" and len(found := _distinct(targets())) > 1:
            _audit_each(run, found, **options)
        else:
            run(target=only_one(targets()) if target is None else target, **options)

    return called


def _audit_each(run: Callable[..., None], targets: Iterable[str], **options: Any) -> None:
    """One after the other, whatever becomes of the others; the exit status is the worst."""
    for name in ("key", "html"):
        if options[name]:
            raise TargetError(f"--{name} is of one TARGET; name one of {', '.join(targets)}")
    worst = 0
    for target in targets:
        if not options["as_json"]:
            click.echo(f"{target}:")
        try:
            run(target=target, **options)
        except Stopped:
            raise
        except SystemExit as end:
            worst = max(worst, int(end.code or 0))
        except (PynamoDBException, BotoCoreError, ClientError) as error:
            click.echo(f"{target}: {in_one_line(error)}", err=True)
            worst = max(worst, status_of(error))
    sys.exit(worst)


def only_one(targets: Iterable[str]) -> str:
    """The target that is meant where none is named. Raises :class:`TargetError` where there is none, or several."""
    found = _distinct(targets)
    if len(found) == 1:
        return found[0]
    named = f"one of {', '.join(found)}" if found else "module, module:Model or module:Model.counter"
    raise TargetError(f"which models? Name a TARGET: {named}")


def _distinct(targets: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(targets))
