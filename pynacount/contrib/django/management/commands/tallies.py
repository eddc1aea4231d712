"""``manage.py tallies audit`` and its like: the commands of ``pynacount``, as Django has commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import click
from botocore.exceptions import BotoCoreError, ClientError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from pynamodb.exceptions import PynamoDBException

from pynacount.commands.trouble import FAILED, USAGE, in_one_line, status_of, take_region
from pynacount.contrib.commands import HELP, commands
from pynacount.contrib.django.conf import targets


class Command(BaseCommand):
    """``tallies``."""

    help = HELP
    requires_system_checks = ()
    """None: they would say of a counter that is to be seeded that it is not."""

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Django's own, with the list of commands below."""
        self._prog = f"{os.path.basename(prog_name)} {subcommand}"
        listed = "\n".join(f"  {c.name:<9} {c.get_short_help_str(60)}" for c in _sorted())
        said = f"commands:\n{listed}\n\n{self._prog} COMMAND --help says more of each."
        style = argparse.RawDescriptionHelpFormatter
        parser = super().create_parser(prog_name, subcommand, epilog=said, **kwargs)
        parser.formatter_class = style
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        """The command and what is for it."""
        parser.add_argument("--no-input", "--noinput", action="store_true", help="Do not ask before it starts.")
        parser.add_argument(
            "command", metavar="COMMAND", choices=[c.name for c in _sorted()], help="One of those below."
        )
        parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="What the command takes.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it. What is wrong is told by ``CommandError``, with the command's own exit status."""
        options, arguments = _django_options(options)
        if options["no_input"] and any(
            param.name == "yes" for c in _sorted() for param in c.params if c.name == options["command"]
        ):
            arguments = ["--yes", *arguments]
        group = click.Group("tallies", commands={c.name or "": c for c in commands(targets)})
        prog = getattr(self, "_prog", "manage.py tallies")
        take_region()
        with self._output(options), _colour(options):
            try:
                group.main(
                    [options["command"], *arguments], prog_name=prog, standalone_mode=False, max_content_width=80
                )
            except click.ClickException as error:
                raise CommandError(
                    f"{error.format_message()} (see {prog} {options['command']} --help)", returncode=USAGE
                ) from None
            except click.Abort:
                raise CommandError("aborted; nothing was begun", returncode=FAILED) from None
            except (PynamoDBException, BotoCoreError, ClientError) as error:
                if options["traceback"]:
                    raise
                raise CommandError(in_one_line(error), returncode=status_of(error)) from error
            except SystemExit as end:
                if end.code:
                    how = "run it at --verbosity 1 to see what" if options["verbosity"] == 0 else "as told above"
                    said = f"{options['command']}: something is wrong, {how}"
                    raise CommandError(said, returncode=int(end.code)) from None

    @contextmanager
    def _output(self, options: Mapping[str, Any]) -> Iterator[None]:
        out: Any = self.stdout._out
        err: Any = self.stderr._out
        with ExitStack() as stack:
            if options["verbosity"] == 0:
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
            elif out is not sys.stdout:  # call_command(..., stdout=...)
                stack.enter_context(redirect_stdout(out))
            if err is not sys.stderr:
                stack.enter_context(redirect_stderr(err))
            yield


def _sorted() -> list[click.Command]:
    return sorted(commands(targets), key=lambda command: command.name or "")


def _django_options(options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Django's options are taken wherever they stand, behind the command too, as users of ``manage.py`` put them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("-v", "--verbosity", type=int, choices=[0, 1, 2, 3])
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    for flag in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--no-input", "--noinput", dest="no_input", action="store_true")
    found, rest = parser.parse_known_args(list(options["arguments"]))
    return {"no_input": False, **options, **vars(found)}, rest


@contextmanager
def _colour(options: Mapping[str, Any]) -> Iterator[None]:
    """rich goes by the environment."""
    name = "NO_COLOR" if options["no_color"] else "FORCE_COLOR" if options["force_color"] else ""
    before = os.environ.get(name)
    if name:
        os.environ[name] = "1"
    try:
        yield
    finally:
        if name and before is None:
            del os.environ[name]
