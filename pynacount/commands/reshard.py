"""``pynacount reshard``."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing

import click

from pynacount.commands.called import program
from pynacount.commands.interrupts import stop_at_interrupt
from pynacount.commands.options import Rate
from pynacount.commands.records import json_line, key_record
from pynacount.commands.trouble import FAILED
from pynacount.commands.words import tallies
from pynacount.shards import MAX_SHARDS
from pynacount.tallies import Spread, Tracking, reshard
from pynacount.tallies.scanning import DEFAULT_WORKERS
from pynacount.targets import key_variables, one_model_of_any, resolve


@click.command("reshard", short_help="Change the number of shards of tallies.")
@click.argument("target")
@click.option("--to", type=click.IntRange(1, MAX_SHARDS), required=True, metavar="N", help="Shards; 1 is none.")
@click.option("--key", metavar="NAME=VALUE", multiple=True, help="Only the parent of this key; once for each variable.")
@click.option("--workers", type=click.IntRange(1, 64), default=DEFAULT_WORKERS, show_default=True, help="Threads.")
@click.option("--rcu-per-second", type=Rate(), help="Most read units a second of the scan.")
@click.option("--dry-run", is_flag=True, help="Write nothing; say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the last a summary.")
def reshard_command(
    target: str,
    to: int,
    key: tuple[str, ...],
    workers: int,
    rcu_per_second: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Spread tallies over N shards, or bring them back onto their parents.

    TARGET is module, module:Model or module:Model.counter:

    \b
      pynacount reshard app.models:Post --to 16 --key post_id=a91f
      pynacount reshard app.models:Post.like_tally --to 8

    Nothing is counted anew, nobody waits, and every moment's sum is right. It
    can be run again at any time, and by several at once; stopped or killed, it
    is called again. Parents without a tally are passed over.

    In shards, the tally is not on the parent: post.like_tally is None, and is
    read by Post.like_tally.value(post), or in a page of a feed. See to that
    before you begin.

    Exit status: 0 all are in N shards; 1 some could not be brought there; 2 the
    command could not be run as it was called.
    """
    named = "." in target.partition(":")[2]
    counters = one_model_of_any(target) if key or named else resolve(target)
    model = counters[0].owner
    track = Tracking()
    found = reshard(
        counters,
        to,
        refs=[model.ref(**key_variables(model, key))] if key else None,
        workers=workers,
        rcu_per_second=rcu_per_second,
        tracking=track,
        dry_run=dry_run,
    )
    statuses: Counter[str] = Counter()
    with closing(found), stop_at_interrupt(_tell_stopping) as stopping:
        for one in found:
            statuses[one.status] += 1
            click.echo(json_line(_record(one)) if as_json else _told(one))
            if stopping.is_set():
                break
    stopped = stopping.is_set()
    changed = statuses["planned" if dry_run else "resharded"]
    if as_json:
        done = {"kind": "summary", "to": to, **statuses, "retries": track.retries, "stopped": stopped}
        click.echo(json_line(done))
    else:
        would = "would be " if dry_run else ""
        click.echo(f"{tallies(changed)} {would}brought into {_shards(to)}")
    sys.exit(FAILED if statuses["failed"] or stopped else 0)


def _tell_stopping() -> None:
    click.echo(f"{program()} reshard: finishing the parents at hand; Ctrl-C again to break off", err=True)


def _record(one: Spread) -> dict[str, object]:
    record: dict[str, object] = {
        "counter": one.counter,
        "key": key_record(one.key),
        "status": one.status,
        "was": one.was,
        "now": one.now,
    }
    return {**record, "message": one.message} if one.message else record


def _told(one: Spread) -> str:
    if one.message:
        return f"{one.status:<9}  {one.message}"
    verb = "planned" if one.status == "planned" else "done"
    return f"{verb:<9}  {one.counter} {one.key}: {one.was} -> {one.now}"


def _shards(number: int) -> str:
    return "1 shard, on the parent" if number == 1 else f"{number} shards"
