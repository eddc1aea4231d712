"""Seeding every parent of a table that is live: a parallel scan that counts as it goes.

A parent that has no tally and bears no mark never had one, so its children have stood still since before the scan
began: what the scan counted of them is exact, however long ago it passed them. One that bears a mark is counted by
itself, as ``seed(ref)`` does. One whose children lie anywhere is recorded, and seeded by a scan of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from pynacount.errors import DeclarationError
from pynacount.fields import CounterField
from pynacount.tallies.aggregating import Sums
from pynacount.tallies.asked import check_numbers, check_rates, check_reading, only_counted
from pynacount.tallies.children import parents_too, refuse_part
from pynacount.tallies.elsewhere import Elsewhere, identity
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import State
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import DEFAULT_WORKERS, TableScan, Tracking
from pynacount.tallies.seeder import Run, Seeder


def migrate(
    counters: Iterable[CounterField],
    *,
    by: Literal["scan", "query"] = "scan",
    workers: int = DEFAULT_WORKERS,
    segments: int | None = None,
    segment: int | None = None,
    state: str | Path | None = None,
    rcu_per_second: float | None = None,
    wcu_per_second: float | None = None,
    limit: int | None = None,
    tracking: Tracking | None = None,
    dry_run: bool = False,
) -> Generator[Seeded, None, None]:
    """Seed every parent that has no tally; gives what became of each. Those that have one are passed over.

    Exact while people go on liking, and safe to run by several at once, and again. Closing the iterator stops it
    between two parents.

    :param by: ``"scan"`` counts children in their parent's partition while the table is scanned; ``"query"`` counts the
        children of each parent by a query. Children elsewhere are always counted by a query on their index; without an
        index, ``"scan"`` scans their table too, and while it does, writers of parents without a tally are refused.
    :param workers: threads.
    :param segments: of the parallel scan; as many as workers where it is left out.
    :param segment: the only one to be read, from 0, so that several machines can share a table. Not for counters whose
        children only a scan finds.
    :param state: a file that keeps the position, to go on after an interruption; one for each run that shares a table.
        Where the counters are of several tables, each has a file of that name with the table's behind it.
        It keeps the sums of children that only a scan finds, which otherwise spill to a temporary file.
    :param rcu_per_second: most read units a second; likewise ``wcu_per_second`` for write units.
    :param limit: most parents to be seeded.
    :param tracking: is filled in while it runs.
    :param dry_run: write nothing. A parent that would be counted by a query has None for its tally then.
    :raises ValueError: at the call, as all that is wrong with it: for a number, or a ``by``, that it cannot go by.
    :raises DeclarationError: for counters that cannot be seeded by a pass, and for plain counters.
    :raises StateError: for a state file of another pass, or one that another run is using.
    """
    check_numbers("migrate", workers=workers, limit=limit)
    check_reading("migrate", by, segments, segment)
    check_rates("migrate", rcu_per_second=rcu_per_second, wcu_per_second=wcu_per_second)
    track = tracking if tracking is not None else Tracking()
    counters = only_counted("migrate", counters)
    for counter in counters:
        _check(counter)
        if segment is not None:
            refuse_part(counter, "seed it by one run without a segment")
    total = segments or workers
    run = Run(
        workers=workers,
        segments=total,
        pace=Pace(rcu_per_second),
        writing=Pace(wcu_per_second),
        track=track,
        budget=itertools.repeat(None) if limit is None else itertools.repeat(None, limit),
        dry_run=dry_run,
    )
    numbers = range(total) if segment is None else range(segment, segment + 1)
    tables = passes(counters, by_query=by == "query", elsewhere=True)
    return _seed_tables(tables, numbers, by, None if dry_run else state, run)


def _seed_tables(
    tables: Sequence[TablePass], numbers: Sequence[int], by: str, state: str | Path | None, run: Run
) -> Generator[Seeded, None, None]:
    for one in tables:
        about = {
            "table": one.table,
            "counters": sorted(one.labels),
            "segments": run.segments,
            "by": by,
            **identity(one),
        }
        kept = State(_state_of(one, state, len(tables)), about)
        try:
            yield from _seed_table(one, numbers, kept, run)
        finally:
            kept.close()


def _state_of(one: TablePass, state: str | Path | None, passes: int) -> str | Path | None:
    """The state file of one table: where there are several, each has its own beside the one that was named."""
    return state if state is None or passes == 1 else f"{state}.{one.table}"


def _seed_table(one: TablePass, numbers: Sequence[int], kept: State, run: Run) -> Iterator[Seeded]:
    sums = Sums(kept) if one.elsewhere else None
    while True:
        scan: TableScan[Seeded] = TableScan(one, run.segments, kept, run.pace, run.track, parents_too(one))
        interrupted = sums is not None and sums.stage == "counting"
        for _ in range(sum(sums.many().values()) if sums is not None else 0):
            run.may_seed()
        if not interrupted:  # else those that were recorded come first: a later one's children were passed by already
            yield from _scan(one, scan, numbers, sums, run)
        if sums is not None:
            yield from Elsewhere(one, scan, kept, sums, run).seed()
        if not interrupted:
            return


def _scan(
    one: TablePass, scan: TableScan[Seeded], numbers: Sequence[int], sums: Sums | None, run: Run
) -> Iterator[Seeded]:
    seeder = Seeder(one, scan, run, sums)
    run.track.segments += len(numbers)
    try:
        yield from scan.results(numbers, min(run.workers, len(numbers)), lambda: seeder)
    finally:
        scan.stop()


def _check(counter: CounterField) -> None:
    if counter.is_streamed:
        raise DeclarationError(f"{counter.label} is kept from a stream; call pynacount.streams.migrate()")
    if counter.missing == "zero":
        raise DeclarationError(
            f'{counter.label} is declared missing="zero": it is taken to hold no uncounted children, so nothing is '
            f'seeded. If it does, declare missing="seed"'
        )
    if counter.missing == "defer":
        raise DeclarationError(
            f'{counter.label} is declared missing="defer", for as long as old code is running that does not count. '
            f'When the last of it is gone, declare missing="seed", and seed then'
        )
