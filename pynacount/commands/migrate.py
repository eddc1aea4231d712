"""``pynacount migrate``."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import click

from pynacount import streams
from pynacount.commands.called import program
from pynacount.commands.eta import duration, expected_items, left, slowed
from pynacount.commands.options import Price, Rate, part_of, segments_of
from pynacount.commands.progress import Progress
from pynacount.commands.records import json_line, key_record
from pynacount.commands.trouble import FAILED
from pynacount.commands.words import several, tallies
from pynacount.tallies import Seeded, Tracking, migrate
from pynacount.tallies.prices import READ_PRICE, WRITE_PRICE, Prices
from pynacount.tallies.scanning import DEFAULT_WORKERS
from pynacount.tallies.statements import MAX_STATEMENTS
from pynacount.targets import resolve, tables_of

STATEMENTS_TAKE = 0.03
"""Seconds that are reckoned for a request that seeds 25 parents."""
SEED_TAKES = 0.02
"""Seconds that are reckoned for a parent that is counted by itself: a read, a query, a write."""


@click.command("migrate", short_help="Seed every parent of a live table.")
@click.argument("target")
@click.option("--by", type=click.Choice(["scan", "query"]), default="scan", show_default=True, help="How to count.")
@click.option("--workers", type=click.IntRange(1, 64), default=DEFAULT_WORKERS, show_default=True, help="Threads.")
@click.option("--segments", type=click.IntRange(1, 1_000_000), help="Of the parallel scan.  [default: the workers]")
@click.option(
    "--segment", "part", metavar="I/N", callback=part_of, help="Read the I-th of N segments alone, to share a table."
)
@click.option("--state", type=click.Path(dir_okay=False), help="A file to go on from, after an interruption.")
@click.option("--rcu-per-second", type=Rate(), help="Most read units a second.")
@click.option("--wcu-per-second", type=Rate(), help="Most write units a second.")
@click.option("--limit", type=click.IntRange(1), help="Most parents to seed.")
@click.option("--anew", is_flag=True, help="Those kept from a stream: count also those that have a tally.")
@click.option("--dry-run", is_flag=True, help="Read and count, and write nothing.")
@click.option("--read-price", type=Price(), default=READ_PRICE, show_default=True, help="Dollars a million read units.")
@click.option(
    "--write-price", type=Price(), default=WRITE_PRICE, show_default=True, help="Dollars a million write units."
)
@click.option("--yes", is_flag=True, help="Do not ask before it starts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the last a summary.")
def migrate_command(
    target: str,
    by: Literal["scan", "query"],
    workers: int,
    segments: int | None,
    part: tuple[int, int] | None,
    state: str | None,
    rcu_per_second: float | None,
    wcu_per_second: float | None,
    limit: int | None,
    anew: bool,
    dry_run: bool,
    read_price: float,
    write_price: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Give every parent that has no tally the right one, while people go on.

    TARGET is module, module:Model or module:Model.counter:

    \b
      pynacount migrate app.models:Post --state seeding.db

    The table is read once; children elsewhere are counted by their index or,
    where there is none, by one scan of their table. Parents that have a tally are passed over, so it
    can be run again at any time, and by several at once. Stopped by Ctrl-C, or
    killed, it goes on where it was if it has a --state.

    A counter that is kept from a stream is counted between two fences that
    are written into its children's partition. Stop the consumer of one that
    is kept by markers meanwhile, not its writers.

    Exit status: 0 all parents have their tallies; 1 some could not be seeded;
    2 the command could not be run as it was called.
    """
    counters = resolve(target)
    total, segment = segments_of(part, segments)
    labels = ", ".join(counter.label for counter in counters)
    if not (yes or dry_run or as_json) and sys.stdin.isatty():
        click.confirm(f"Seed {labels} in the table {tables_of(counters)}?", abort=True)
    report = Report(
        Prices(read_price, write_price),
        dry_run,
        workers=workers,
        wcu_per_second=wcu_per_second,
        expected=None if state and Path(state).exists() else expected_items(counters, part),
    )
    streamed = [counter for counter in counters if counter.is_streamed]
    if anew and len(streamed) < len(counters):
        raise click.UsageError("--anew is for counters that are kept from a stream; for others: pynacount repair")
    written = migrate(
        [counter for counter in counters if not counter.is_streamed],
        by=by,
        workers=workers,
        segments=total,
        segment=segment,
        state=state,
        rcu_per_second=rcu_per_second,
        wcu_per_second=wcu_per_second,
        limit=limit,
        tracking=report.tracking,
        dry_run=dry_run,
    )
    outcomes = _one_after_another(
        written, streams.migrate(streamed, anew=anew, limit=limit, tracking=report.tracking, dry_run=dry_run)
    )
    try:
        with closing(outcomes), Progress(report.line, as_json=as_json) as progress:
            for seeded in outcomes:
                report.take(seeded)
                if as_json:
                    click.echo(json_line(_record(seeded)))
                elif seeded.status not in ("seeded", "planned"):
                    progress.say(f"{seeded.counter} {seeded.key}: {seeded.status}: {seeded.message}")
    except KeyboardInterrupt:
        report.stopped = True
        again = f" with --state {state}" if state else ", with --state to go on where it stopped"
        click.echo(f"{program()} migrate: stopped between two parents; call it again{again}", err=True)
    if as_json:
        click.echo(json_line({"kind": "summary", **report.summary()}))
    else:
        for line in report.lines():
            click.echo(line)
    sys.exit(FAILED if report.statuses["failed"] or report.stopped else 0)


def _one_after_another(*several: Generator[Seeded, None, None]) -> Generator[Seeded, None, None]:
    for one in several:
        with closing(one):
            yield from one


@dataclass(slots=True)
class Report:
    """What happened so far."""

    prices: Prices
    dry_run: bool
    workers: int = DEFAULT_WORKERS
    wcu_per_second: float | None = None
    expected: int | None = None
    tracking: Tracking = field(default_factory=Tracking)
    statuses: Counter[str] = field(default_factory=Counter)
    counted: Any = 0
    alone: int = 0
    stopped: bool = False
    began: float = field(default_factory=time.monotonic)

    def take(self, seeded: Seeded) -> None:
        """One more parent."""
        self.statuses[seeded.status] += 1
        self.counted += seeded.tally or 0
        self.alone += seeded.status == "planned" and seeded.tally is None

    def summary(self) -> dict[str, Any]:
        """The whole as data."""
        track, seconds = self.tracking, time.monotonic() - self.began
        return {
            **{status: self.statuses[status] for status in ("seeded", "planned", "closed", "gone", "failed")},
            "present": track.present,
            "counted": self.counted,
            "items": track.items,
            "pages": track.pages,
            "read_units": track.read_units,
            "write_units": track.write_units,
            "dollars": round(self.prices.dollars(track.read_units, track.write_units), 6),
            "seconds": round(seconds, 3),
            **({"estimated_seconds": round(self.estimate(seconds), 1)} if self.dry_run else {}),
            "retries": dict(track.retries),
            "stopped": self.stopped,
        }

    def estimate(self, seconds: float) -> float:
        """The seconds that the run itself would take: to read as this one did, and to write."""
        together = (self.statuses["planned"] - self.alone) / MAX_STATEMENTS
        writing = (together * STATEMENTS_TAKE + self.alone * SEED_TAKES) / self.workers
        least = self.statuses["planned"] / self.wcu_per_second if self.wcu_per_second else 0.0
        return seconds + max(writing, least)

    def lines(self) -> list[str]:
        """The whole for a person."""
        found, track = self.summary(), self.tracking
        did = "would be seeded" if self.dry_run else "seeded"
        done = found["planned"] if self.dry_run else found["seeded"]
        but = f", less {self.alone:,} that would be counted by themselves" if self.alone else ""
        lines = [f"{tallies(done)} {did}, counting {found['counted']:,}{but}; {found['present']:,} there already"]
        if self.statuses["closed"] or self.statuses["gone"]:
            lines.append(f"{found['closed']:,} are being deleted, {found['gone']:,} were deleted meanwhile")
        if self.statuses["failed"]:
            lines.append(f"{found['failed']:,} could not be seeded, and are left without a tally")
        lines.append(
            f"{several(found['items'], 'item')} read in {found['seconds']:.1f} s; {track.read_units:,.0f} read and "
            f"{track.write_units:,.0f} write units, about ${found['dollars']:.2f} on demand"
        )
        if self.dry_run:
            lines.append(f"the run itself would take about {duration(found['estimated_seconds'])}")
        if track.retries:
            lines.append("tried again after " + ", ".join(f"{met} ({n})" for met, n in sorted(track.retries.items())))
        return lines

    def line(self) -> str:
        """Where it stands."""
        track, seconds = self.tracking, max(time.monotonic() - self.began, 0.001)
        done = self.statuses.total()
        return (
            f"{done:,} parents, {track.items:,} items ({track.items / seconds:,.0f} a second), "
            f"{track.read_units:,.0f} read units, segments {track.segments_done}/{track.segments}"
            f"{left(track.items, self.expected, seconds)}{slowed(track.retries)}"
        )


def _record(seeded: Seeded) -> dict[str, Any]:
    return {
        "kind": "parent",
        "counter": seeded.counter,
        "key": key_record(seeded.key),
        "status": seeded.status,
        "tally": seeded.tally,
        **({"message": seeded.message} if seeded.message else {}),
    }
