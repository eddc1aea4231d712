"""``pynacount repair``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import IO, Any, BinaryIO, NoReturn, cast

import click

from pynacount.commands.called import program
from pynacount.commands.interrupts import stop_at_interrupt
from pynacount.commands.options import Rate
from pynacount.commands.progress import Progress
from pynacount.commands.records import json_line
from pynacount.commands.repaired import LOGGED, Report, log_record, record, told
from pynacount.commands.trouble import FAILED, USAGE
from pynacount.fields import CounterField
from pynacount.tallies import Audited, Repaired, audit, read_audit, repair
from pynacount.tallies.scanning import DEFAULT_WORKERS
from pynacount.targets import key_variables, one_model, resolve, tables_of


@click.command("repair", short_help="Mend tallies that drifted, live.")
@click.argument("target")
@click.option("--key", metavar="NAME=VALUE", multiple=True, help="Only the parent of this key; once for each variable.")
@click.option("--from", "file", type=click.File("rb"), help="The rows of a saved audit (audit --json); - reads stdin.")
@click.option("--dry-run", is_flag=True, help="Say what would be repaired, and write nothing.")
@click.option("--sweep", is_flag=True, help="Finish interrupted cascades: delete those parents and their children.")
@click.option("--log", type=click.File("a", encoding="utf-8"), help="Append a JSON object for each repair to a file.")
@click.option("--workers", type=click.IntRange(1, 64), default=DEFAULT_WORKERS, show_default=True, help="Threads.")
@click.option("--rcu-per-second", type=Rate(), help="Most read units a second, to audit.")
@click.option("--yes", is_flag=True, help="Do not ask before it starts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the last a summary.")
def repair_command(
    target: str,
    key: tuple[str, ...],
    file: BinaryIO | None,
    dry_run: bool,
    sweep: bool,
    log: IO[str] | None,
    workers: int,
    rcu_per_second: float | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Count anew each parent whose tally is wrong, and set it, while people go on.

    TARGET is module, module:Model or module:Model.counter. What is wrong is
    found by an audit of it, or taken from one that was saved:

    \b
      pynacount audit app.models:Post --json > audit.jsonl
      pynacount repair app.models:Post --from audit.jsonl --log repairs.jsonl
      pynacount repair app.models:Post --key post_id=a91f

    No like is lost or refused: writers of a parent under repair wait for its
    count, about a second. It can be run again at any time, and by several at
    once; stopped or killed, it is called again.

    Exit status: 0 all was repaired; 1 some could not be, or was left; 2 the
    command could not be run as it was called.
    """
    if key and file is not None:
        _wrong("--key and --from both say what to repair; give one of them")
    counters = one_model(target) if key else resolve(target)
    report = Report(dry_run)
    with ExitStack() as stack:
        if key:
            model = counters[0].owner
            rows = _of_key(counters, model.ref(**key_variables(model, key)))
        elif file is not None:
            rows = _of_file(counters, stack.enter_context(_to_read_twice(file)), getattr(file, "name", "stdin"))
        else:
            rows = audit(counters, workers=workers, rcu_per_second=rcu_per_second)
        if isinstance(rows, Generator):
            stack.enter_context(closing(rows))  # an audit has threads of its own, which end with it
        seen = report.watched(rows)
        outcomes = repair(counters, seen, workers=workers, dry_run=dry_run, sweep=sweep, tracking=report.tracking)
        if not (yes or dry_run or as_json) and sys.stdin.isatty():
            labels = ", ".join(counter.label for counter in counters)
            sweeping = ", and delete what a cascade began to delete" if sweep else ""
            click.confirm(f"Repair {labels} in the table {tables_of(counters)}{sweeping}?", abort=True)
        _run(report, outcomes, log, as_json=as_json)
    if as_json:
        click.echo(json_line({"kind": "summary", **report.summary()}))
    else:
        for line in report.lines():
            click.echo(line)
    if report.stopped:
        click.echo(f"{program()} repair: stopped between two parents; call it again to go on", err=True)
    unmended = report.statuses["failed"] or report.statuses["left"]
    sys.exit(FAILED if report.stopped or (unmended and not dry_run) else 0)


def _run(report: Report, outcomes: Generator[Repaired, None, None], log: IO[str] | None, *, as_json: bool) -> None:
    """Let it go on until it is done, or Ctrl-C is pressed; what is under way then is finished, and logged."""
    with Progress(report.line, as_json=as_json) as progress, stop_at_interrupt(_tell_stopping) as report.stopping:
        try:
            with closing(outcomes):
                for done in outcomes:
                    report.take(done)
                    if log is not None and done.status in LOGGED:
                        log.write(json_line(log_record(done)) + "\n")
                        log.flush()
                    if as_json:
                        click.echo(json_line(record(done)))
                    else:
                        progress.say(told(done))
        except KeyboardInterrupt:
            report.stopping.set()
        report.stopped = report.stopping.is_set()


def _tell_stopping() -> None:
    click.echo(f"{program()} repair: finishing the parents at hand; Ctrl-C again to break off", err=True)


# -- where the rows come from


def _of_key(counters: Sequence[CounterField], ref: Any) -> Iterator[Audited]:
    """One parent, looked at now. One that never stands still counts as wrong: a repair tells."""
    for row in audit(counters, refs=[ref]):
        yield replace(row, state="drifted") if row.state == "moving" else row


def _of_file(counters: Sequence[CounterField], file: BinaryIO, name: str) -> Iterator[Audited]:
    """The rows of a saved audit, once all of them were found to be good."""
    for _ in read_audit(counters, file, name):
        pass
    file.seek(0)
    return read_audit(counters, file, name)


@contextmanager
def _to_read_twice(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file, or a copy of what can be read but once: stdin, a pipe."""
    if file.seekable():
        yield file
        return
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        yield cast("BinaryIO", copy)


def _wrong(message: str) -> NoReturn:
    click.echo(f"{program()} repair: {message}", err=True)
    sys.exit(USAGE)
