"""The commands of ``pynacount``, for the command line of a web framework."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import click

from pynacount.commands import group
from pynacount.errors import TargetError

_NOT_HERE = frozenset({"demo"})
HELP = "Exact counters on DynamoDB: seed, audit, repair and look at them."


def commands(targets: Callable[[], Iterable[str]]) -> list[click.Command]:
    """The commands, less those that have no application to work on.

    Where a command takes nothing behind its TARGET, that may be left out: it is the one that ``targets()`` gives.
    """
    return [_adapted(command, targets) for name, command in group.commands.items() if name not in _NOT_HERE]


def _adapted(command: click.Command, targets: Callable[[], Iterable[str]]) -> click.Command:
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    if [argument.name for argument in arguments] != ["target"]:
        return command
    twin = copy.copy(command)
    optional = click.Argument(["target"], required=False, default=lambda: only_one(targets()), metavar="[TARGET]")
    twin.params = [optional if param is arguments[0] else param for param in command.params]
    return twin


def only_one(targets: Iterable[str]) -> str:
    """The target that is meant where none is named. Raises :class:`TargetError` where there is none, or several."""
    found = list(targets)
    if len(found) == 1:
        return found[0]
    named = f"one of {', '.join(found)}" if found else "module, module:Model or module:Model.counter"
    raise TargetError(f"which models? Name a TARGET: {named}")
