"""``pynacount explain``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import get_args

import click

from pynacount.commands.called import program
from pynacount.errors import TargetError
from pynacount.explaining import Explained, Unexplained, as_boto3, as_cli, as_json
from pynacount.explaining import explain as explained
from pynacount.explaining.requests import Verb
from pynacount.fields import CounterField
from pynacount.targets import one_model_of_any, repeated_pairs_of

_FORMS: dict[str, Callable[[Sequence[Explained]], str]] = {"json": as_json, "boto3": as_boto3, "cli": as_cli}

_KINDS = ", ".join(get_args(Verb))


@click.command(short_help="Show the requests of a counted write.")
@click.argument("target")
@click.argument("variables", metavar="NAME=VALUE...", nargs=-1)
@click.option("--as", "form", type=click.Choice(list(_FORMS)), default="json", show_default=True, help="What to paste.")
@click.option("--only", type=click.Choice(get_args(Verb)), metavar="KIND", help=f"One of: {_KINDS}.")
@click.option("--by", metavar="AMOUNT", default="1", help="Of a plain counter: by how much.")
@click.option("--once", metavar="TOKEN", help="Of a plain counter: counted once for this token.")
def explain(target: str, variables: tuple[str, ...], form: str, only: str | None, by: str, once: str | None) -> None:
    """Show the exact requests by which a child is created and deleted, or many
    children at once, by which a plain counter is incremented and decremented,
    and by which a batch of a stream moves a counter that is kept from it; with
    --only page, the one that reads a page of a feed, and with --only parent,
    the one that creates the parent.

    TARGET is module:Model or module:Model.counter, of the parent. NAME=VALUE
    are the variables of its key and of the child's, and attributes that the
    child counts by:

    \b
      pynacount explain app.models:Post post_id=a91f user_id=7c20 --as boto3
      pynacount explain app.models:Post post_id=a91f user_id=7c20 user_id=81fa
      pynacount explain app.models:Stats.plays video_id=9f3a --once order-17

    A counter with group_commit sends calls together: the price of each in a
    group of 99 stands beside that of a lone one. Of a counter in shards it is
    said which one is written, where the parent has as many as are declared.

    Nothing is sent. The library sends them with a ClientRequestToken of its
    own; the AWS CLI and boto3 add one to each call.

    Exit status: 0 done; 2 the command could not be run as it was called.
    """
    given, many = repeated_pairs_of(variables)
    counters = one_model_of_any(target)
    if all(counter.is_counted for counter in counters):
        _refuse_moves(counters[0], only, by, once)
    found = list(explained(counters, given, _amount(by), once, many))
    wanted = {only} if only else {*get_args(Verb)} - {"page", "parent"}
    shown = [one for one in found if isinstance(one, Explained) and one.verb in wanted]
    unexplained = [one for one in found if isinstance(one, Unexplained)]
    left_out = [one for one in unexplained if one.verb in wanted or (one.verb is None and only != "parent")]
    if not shown:
        raise TargetError("nothing to explain: " + "; ".join(f"{one.model}: {one.why}" for one in left_out))
    click.echo(_FORMS[form](shown))
    for one in left_out:
        click.echo(f"{program()} explain: {one.model} left out: {one.why}", err=True)


def _refuse_moves(counter: CounterField, only: str | None, by: str, once: str | None) -> None:
    """Raise :class:`TargetError` for what is asked of a plain counter alone."""
    asked = "--once" if once is not None else "--by" if by != "1" else f"--only {only}"
    if asked not in ("--only increment", "--only decrement", "--once", "--by"):
        return
    raise TargetError(
        f"{asked} is for plain counters, and {counter.label} counts children: they alone move it. Explain their "
        f"writes by --only create and --only delete"
    )


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise TargetError(f"--by {text!r} is no number") from None
