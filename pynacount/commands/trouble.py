"""What goes wrong while a command runs, in one line with the way out. The group sees to it for all commands."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import click
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)
from pynamodb.exceptions import PynamoDBException

from pynacount.errors import DeclarationError, KeyTemplateError, StateError, TargetError

FAILED = 1
"""Exit status: something was wrong, or went wrong."""
USAGE = 2
"""Exit status: the command cannot be run as it was called."""

_USAGE = (TargetError, KeyTemplateError, DeclarationError, StateError, ProfileNotFound)
_CREDENTIALS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_ENDPOINT = "check AWS_ENDPOINT_URL_DYNAMODB, AWS_REGION and the model's Meta.host, and that it runs"
_WAYS_OUT: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((NoCredentialsError, PartialCredentialsError, CredentialRetrievalError), _CREDENTIALS),
    (NoRegionError, "set AWS_REGION, or the model's Meta.region"),
    (ProfileNotFound, "set AWS_PROFILE to a profile that is there"),
    ((ConnectionError, HTTPClientError), _ENDPOINT),
)
_WAYS_OUT_BY_CODE = {
    "ResourceNotFoundException": "create the table, or mend Meta.table_name, AWS_REGION and AWS_ENDPOINT_URL_DYNAMODB",
    "AccessDeniedException": "allow it to these credentials, or choose others by AWS_PROFILE",
    "UnrecognizedClientException": _CREDENTIALS,
    "InvalidSignatureException": _CREDENTIALS,
    "ExpiredTokenException": "the session has expired; log in again",
    "ExpiredToken": "the session has expired; log in again",
    "ProvisionedThroughputExceededException": "the table is throttled; try later, or raise its capacity",
    "ThrottlingException": "the table is throttled; try later, or raise its capacity",
}


class Group(click.Group):
    """A group whose commands may raise the errors of this library, of PynamoDB and of botocore.

    Each becomes one line on stderr, and the exit status 1, or 2 where the command was called wrongly. There is no
    traceback; an error of another kind is a bug, and has one.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        take_region()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # where the terminal lacks a character, show its number
        try:
            return super().invoke(ctx)
        except (PynamoDBException, BotoCoreError, ClientError) as error:
            name = " ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand)))
            click.echo(f"{name}: {in_one_line(error)}", err=True)
            sys.exit(status_of(error))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly where nobody reads on
            where = error.filename or "the output"
            click.echo(f"{ctx.command_path}: {where} could not be read or written: {error.strerror}", err=True)
            _forget_output()
            sys.exit(FAILED)


def take_region() -> None:
    """Let ``AWS_REGION`` be the region where nothing else says one."""
    if region := os.environ.get("AWS_REGION"):
        # Every AWS tool reads it but botocore. What botocore does read, the application goes by: it stays.
        os.environ.setdefault("AWS_DEFAULT_REGION", region)


def _forget_output() -> None:
    """What is left in the buffer goes nowhere: else Python tries once more at its end, and tells of it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def status_of(error: Exception) -> int:
    """The exit status that an error ends a command with."""
    return USAGE if isinstance(error, _USAGE) else FAILED


def in_one_line(error: Exception) -> str:
    """What an error says, and the way out where it is not in it already."""
    said = " ".join(str(error.msg if isinstance(error, PynamoDBException) else error).split())
    way_out = _way_out(error)
    if not way_out or (isinstance(error, PynamoDBException) and "; create the table" in said):
        return said
    return f"{said.rstrip('.')}; {way_out}"


def _way_out(error: Exception) -> str:
    for cause in _causes(error):
        if isinstance(cause, ClientError):
            code = cause.response.get("Error", {}).get("Code", "")
            if code in _WAYS_OUT_BY_CODE:
                return _WAYS_OUT_BY_CODE[code]
        for kinds, way_out in _WAYS_OUT:
            if isinstance(cause, kinds):
                return way_out
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from, PynamoDB's own way of saying so included; each once."""
    waiting: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while waiting:
        cause = waiting.pop(0)
        if cause is not None and cause not in seen:
            seen.append(cause)
            yield cause
            waiting += [getattr(cause, "cause", None), cause.__cause__]
