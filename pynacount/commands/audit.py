"""``pynacount audit``."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import IO, Any, Literal

import click

from pynacount.auditing.page import Page
from pynacount.commands.audited import Report, record, row
from pynacount.commands.called import program
from pynacount.commands.eta import expected_items
from pynacount.commands.interrupts import Stopped
from pynacount.commands.options import Rate, part_of, segments_of
from pynacount.commands.progress import Progress
from pynacount.commands.records import json_line
from pynacount.commands.trouble import FAILED
from pynacount.tallies import audit
from pynacount.tallies.scanning import DEFAULT_WORKERS
from pynacount.targets import key_variables, one_model, resolve


@click.command("audit", short_help="Compare every tally with its count.")
@click.argument("target")
@click.option("--key", metavar="NAME=VALUE", multiple=True, help="Only the parent of this key; once for each variable.")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only N parents, from random parts of the table.")
@click.option("--by", type=click.Choice(["scan", "query"]), default="scan", show_default=True, help="How to count.")
@click.option("--workers", type=click.IntRange(1, 64), default=DEFAULT_WORKERS, show_default=True, help="Threads.")
@click.option("--segments", type=click.IntRange(1, 1_000_000), help="Of the parallel scan.  [default: the workers]")
@click.option(
    "--segment", "part", metavar="I/N", callback=part_of, help="Read the I-th of N segments alone, to share a table."
)
@click.option("--rcu-per-second", type=Rate(), help="Most read units a second.")
@click.option("--all", "everything", is_flag=True, help="Print those that are ok, too.")
@click.option("--html", type=click.File("w", encoding="utf-8", lazy=False), help="Write a page that shows the drift.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the last a summary.")
def audit_command(
    target: str,
    key: tuple[str, ...],
    sample: int | None,
    by: Literal["scan", "query"],
    workers: int,
    segments: int | None,
    part: tuple[int, int] | None,
    rcu_per_second: float | None,
    everything: bool,
    html: IO[str] | None,
    as_json: bool,
) -> None:
    """Print every parent whose tally is not the count of its children.

    TARGET is module, module:Model or module:Model.counter:

    \b
      pynacount audit app.models:Post --html audit.html
      pynacount audit app.models:Post --key post_id=a91f

    Nothing is written. It runs while people go on: a tally is told to be wrong
    only after it was looked at again.

    Exit status: 0 nothing is wrong; 1 something is, or could not be told; 2 the
    command could not be run as it was called.
    """
    total, segment = segments_of(part, segments)
    if key and (sample or part or segments):
        raise click.UsageError("--key names one parent; leave --sample, --segments and --segment out")
    if sample and part:
        raise click.UsageError("--sample chooses its segments itself; leave --segment out")
    counters = one_model(target) if key else resolve(target)
    model = counters[0].owner
    report = Report(target, counters, None if key or sample else expected_items(counters, part))
    found = audit(
        counters,
        refs=[model.ref(**key_variables(model, key))] if key else None,
        sample=sample,
        by=by,
        workers=workers,
        segments=total,
        segment=segment,
        rcu_per_second=rcu_per_second,
        tracking=report.tracking,
    )
    page = Page(f"Audit of {target}") if html is not None else None
    try:
        with closing(found), Progress(report.line, as_json=as_json) as progress:
            for one in found:
                report.take(one)
                if page is not None:
                    page.take(one)
                if everything or key or one.state != "ok":
                    if as_json:
                        click.echo(json_line(record(one)))
                    else:
                        for line in row(one, first=report.shown == 0):
                            progress.say(line)
                    report.shown += 1
    except KeyboardInterrupt:
        report.stopped = True
    if html is not None and page is not None:
        html.write(page.html(report.facts(_extent(key, sample, part)), stopped=report.stopped))
        html.flush()
    _end(report, html, as_json=as_json)


def _end(report: Report, html: IO[str] | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line({"kind": "summary", **report.summary()}))
    else:
        for line in report.lines():
            click.echo(line)
        if html is not None:
            click.echo(f"the page is in {html.name}")
    if report.stopped:
        click.echo(f"{program()} audit: stopped; the rest was not looked at", err=True)
        raise Stopped(FAILED)
    sys.exit(FAILED if report.wrong else 0)


def _extent(key: tuple[str, ...], sample: int | None, part: Any) -> str:
    if key:
        return f"the parent {' '.join(key)}"
    if sample:
        return f"a sample of {sample:,} parents"
    return "all parents" if part is None else f"the parents in segment {part[0] + 1} of {part[1]}"
