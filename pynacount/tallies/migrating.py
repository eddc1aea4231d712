"""Seeding every parent of a table that is live: a parallel scan that counts as it goes.

A parent that has no tally and bears no mark never had one, so its children have stood still since before the scan
began: what the scan counted of them is exact, however long ago it passed them. One that bears a mark is counted by
itself, as ``seed(ref)`` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pynamodb.exceptions import PynamoDBException

from pynacount.amounts import Amount
from pynacount.errors import DeclarationError, ParentMissing, PynacountError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.protocols.seeding import seed, seed_counted, write_counted
from pynacount.steps import Protocol
from pynacount.tallies.groups import Found
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import State
from pynacount.tallies.scanning import DEFAULT_WORKERS, TableScan, Tracking
from pynacount.tallies.statements import DENIED, MAX_STATEMENTS, write_together

Status = Literal["seeded", "planned", "closed", "gone", "failed"]


@dataclass(frozen=True, slots=True)
class Seeded:
    """What became of one parent that had no tally.

    ``planned``: it would be seeded, but for ``dry_run``. ``closed``: a cascade that was interrupted has begun to delete
    it; ``gone``: it was deleted meanwhile; ``failed``: it is left without a tally, and ``message`` says why.
    """

    counter: str
    key: ItemKey
    status: Status
    tally: Amount | None = None
    message: str = ""


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
        children of each parent by a query. Children elsewhere are always counted by a query on their index.
    :param workers: threads.
    :param segments: of the parallel scan; as many as workers where it is left out.
    :param segment: the only one to be read, from 0, so that several machines can share a table.
    :param state: a file that keeps the position, to go on after an interruption; one for each run that shares a table.
    :param rcu_per_second: most read units a second; likewise ``wcu_per_second`` for write units.
    :param limit: most parents to be seeded.
    :param tracking: is filled in while it runs.
    :param dry_run: write nothing. A parent that would be counted by a query has None for its tally then.
    :raises DeclarationError: for counters that cannot be seeded by a pass.
    :raises StateError: for a state file of another pass.
    """
    track = tracking if tracking is not None else Tracking()
    counters = list(counters)
    for counter in counters:
        _check(counter)
    budget = itertools.repeat(None) if limit is None else itertools.repeat(None, limit)
    for one in passes(counters, by_query=by == "query"):
        total = segments or workers
        numbers = range(total) if segment is None else range(segment, segment + 1)
        identity = {"table": one.table, "counters": sorted(one.labels), "segments": total, "by": by}
        kept = State(None if dry_run else state, identity)
        scan: TableScan[Seeded] = TableScan(one, total, kept, Pace(rcu_per_second), track)
        seeder = _Seeder(one, scan, Pace(wcu_per_second), track, budget, dry_run)
        track.segments += len(numbers)
        try:
            yield from scan.results(numbers, min(workers, len(numbers)), lambda seeder=seeder: seeder)  # type: ignore[misc]
        finally:
            scan.stop()
            kept.close()


def _check(counter: CounterField) -> None:
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


def seed_found(found: Found, *, by_query: bool = False) -> Protocol[Amount]:
    """Seed a parent that a scan found without a tally: with what the scan counted, where that is exact."""
    if is_exact(found) and found.counted is not None and not by_query:
        return (yield from seed_counted(found.tally, found.key, found.counted))
    return (yield from seed(found.tally, found.key))


def is_exact(found: Found) -> bool:
    """Whether what the scan counted is what the tally must say: the parent never had one."""
    tally, item = found.tally, found.item or {}
    return found.counted is not None and tally.attr_name not in item and tally.pending_name not in item


class _Seeder:
    """Seeds what the scan finds: many in one request where the scan's own count will do."""

    def __init__(
        self,
        one: TablePass,
        scan: TableScan[Seeded],
        pace: Pace,
        track: Tracking,
        budget: Iterator[None],
        dry_run: bool,
    ) -> None:
        self._pass, self._scan, self._pace, self._track = one, scan, pace, track
        self._budget, self._dry_run = budget, dry_run
        self._together = True

    def take(self, found: Sequence[Found]) -> Iterator[list[Seeded]]:
        """Seed those that have no tally."""
        waiting: list[Found] = []
        present = 0
        for one in found:
            if self._scan.stopping.is_set():
                break
            if one.item is not None and "N" in one.item.get(one.tally.attr_name, {}):
                present += 1
                continue
            with self._track.lock:
                if next(self._budget, "spent") == "spent":
                    self._scan.stopping.set()
                    break
            if self._dry_run or not self._together or one.tally in self._pass.queried or not is_exact(one):
                yield [self._seed(one)]
                continue
            waiting.append(one)
            if len(waiting) == MAX_STATEMENTS:
                yield self._seed_together(waiting)
                waiting = []
        if waiting:
            yield self._seed_together(waiting)
        with self._track.lock:
            self._track.present += present

    def finish(self) -> Iterator[list[Seeded]]:
        """Nothing is left to do."""
        return iter(())

    def _seed_together(self, found: Sequence[Found]) -> list[Seeded]:
        updates = [write_counted(one.tally, one.key, one.counted) for one in found if one.counted is not None]
        driver = self._scan.driver(lambda: ", ".join(self._pass.labels))
        try:
            written = driver.run(write_together(updates))
        except PynamoDBException as error:
            if not str(error.cause_response_code).startswith(DENIED):
                raise
            self._together = False  # PartiQL is a right of its own; single updates may be allowed
            return [self._seed(one) for one in found]
        self._note(written.units)
        if any(error is not None and error.startswith(DENIED) for error in written.errors):
            self._together = False
        return [
            # One that was refused has changed, or was written by a try whose answer was lost.
            Seeded(one.tally.label, one.key, "seeded", one.counted) if error is None else self._seed(one)
            for one, error in zip(found, written.errors, strict=True)
        ]

    def _seed(self, found: Found) -> Seeded:
        outcome = self._outcome(found)
        if outcome.status == "planned":
            self._track.note_write(1)
        elif outcome.status == "seeded":
            self._note(1)
        return outcome

    def _note(self, units: float) -> None:
        self._track.note_write(units)
        self._pace.spend(units)

    def _outcome(self, found: Found) -> Seeded:
        tally, key, item = found.tally, found.key, found.item or {}
        if found.trouble:
            return Seeded(tally.label, key, "failed", message=found.trouble)
        if self._dry_run and tally.closed_name in item:
            return Seeded(tally.label, key, "closed", message="a cascade has begun to delete it; call delete() again")
        by_query = tally in self._pass.queried
        if self._dry_run:
            return Seeded(tally.label, key, "planned", found.counted if is_exact(found) and not by_query else None)
        try:
            number = self._scan.driver(lambda: f"{tally.label} of {key}").run(seed_found(found, by_query=by_query))
            return Seeded(tally.label, key, "seeded", number)
        except ParentMissing as error:
            return Seeded(tally.label, key, "closed" if tally.closed_name in item else "gone", message=error.msg)
        except PynacountError as error:
            return Seeded(tally.label, key, "failed", message=error.msg)
