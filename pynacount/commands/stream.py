"""``pynacount stream``."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from pynacount.commands.records import json_line
from pynacount.commands.trouble import FAILED
from pynacount.errors import TargetError
from pynacount.streams import BatchReport, StreamTally, run
from pynacount.streams.reading import Start
from pynacount.targets import resolve

_STARTS: dict[str, Start] = {"oldest": "TRIM_HORIZON", "latest": "LATEST"}


@click.command("stream", short_help="Keep counters from the streams of their tables.")
@click.argument("target")
@click.option(
    "--start", type=click.Choice(list(_STARTS)), default="oldest", show_default=True, help="Record to begin at."
)
@click.option("--batch-size", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Records a batch.")
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="End when nothing came for so long.")
@click.option("--max-attempts", type=click.IntRange(1), help="Pass over what failed so often.  [default: never]")
@click.option("--pass-over", is_flag=True, help="Pass over records that cannot be counted, and say so.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a batch, the last a summary.")
def stream_command(
    target: str,
    start: str,
    batch_size: int,
    idle: float | None,
    max_attempts: int | None,
    pass_over: bool,
    as_json: bool,
) -> None:
    """Read the streams that a target's counters are counted from, and keep
    them, as a Lambda would.

    TARGET is module, module:Model or module:Model.counter, of the parent:

    \b
      pynacount stream app.models:FileCount

    It goes on until Ctrl-C, or for --idle. It keeps no position: begun again
    it reads what the stream still has, and counts nothing twice.

    Exit status: 0 all was counted; 1 something was passed over; 2 the command
    could not be run as it was called.
    """
    logging.basicConfig(format="pynacount stream: %(message)s", level=logging.WARNING)
    counters = [counter for counter in resolve(target) if counter.is_streamed]
    if not counters:
        raise TargetError(f'{target} has no counter that is kept from a stream; declare CountedIn(..., by="stream")')
    totals = BatchReport()
    tally = StreamTally(*counters, on_poisoned=(lambda poisoned: None) if pass_over else None)
    click.echo(f"pynacount stream: reading {', '.join(tally.tables)}", err=True)

    def handler(event: dict[str, Any]) -> Any:
        report = tally.handle(event)
        totals.add(report)
        if as_json:
            click.echo(json_line({"kind": "batch", **_figures(report)}))
        return report.answer()

    try:
        delivered = run(
            tally,
            handler=handler,
            start=_STARTS[start],
            batch_size=batch_size,
            max_attempts=max_attempts,
            idle=idle,
        )
        discarded = delivered.discarded
    except KeyboardInterrupt:
        discarded = 0
    figures = {**_figures(totals), "discarded": discarded}
    if as_json:
        click.echo(json_line({"kind": "summary", **figures}))
    else:
        click.echo(", ".join(f"{number:,} {name}" for name, number in figures.items()))
    if discarded or totals.poisoned or totals.uncounted:
        sys.exit(FAILED)


def _figures(report: BatchReport) -> dict[str, int]:
    return {
        "records": report.records,
        "moved": report.moved,
        "written": report.written,
        "repeated": report.repeated,
        "unseeded": report.unseeded,
        "drifted": len(report.drifts),
        "poisoned": len(report.poisoned),
        "uncounted": len(report.uncounted),
        "failed": len(report.failed),
    }
