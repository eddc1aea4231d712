"""What a migration does with the parents that its scan finds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pynamodb.exceptions import PynamoDBException

from pynacount.amounts import Amount
from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.errors import ParentMissing, PynacountError
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Update
from pynacount.protocols.seeding import seed, seed_counted, write_counted
from pynacount.shards import layout_of
from pynacount.steps import Item, Protocol
from pynacount.tallies.aggregating import Recorded, Sums
from pynacount.tallies.groups import Found
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import Reading, TableScan
from pynacount.tallies.statements import DENIED, MAX_STATEMENTS, write_together

CLOSED = "a cascade has begun to delete it; call delete() again"


@dataclass(frozen=True, slots=True)
class Run(Reading):
    """How a migration goes about it. ``budget`` gives a None for each parent that may still be seeded."""

    writing: Pace
    budget: Iterator[None]
    dry_run: bool

    def may_seed(self) -> bool:
        """Whether one more parent may be seeded, which is taken off the budget."""
        with self.track.lock:
            return next(self.budget, "spent") != "spent"

    def note(self, units: float, stopping: threading.Event) -> None:
        """So many write units were consumed; waits until they were due, or until it is to stop."""
        self.track.note_write(units)
        self.writing.spend(units, stopping)


class Together:
    """Sends updates many at a time, for as long as that is allowed."""

    def __init__(self, run: Run, driver: Callable[[Callable[[], str]], Driver], stopping: threading.Event) -> None:
        self._run, self._driver, self._stopping = run, driver, stopping
        self.allowed = True

    def write(self, updates: Sequence[Update], about: Callable[[], str]) -> tuple[str | None, ...]:
        """What became of each: None where it was written. An error says that the parent is to be looked at."""
        if not updates or not self.allowed:
            return (DENIED,) * len(updates)
        try:
            written = self._driver(about).run(write_together(updates))
        except PynamoDBException as error:
            if not str(error.cause_response_code).startswith(DENIED):
                raise
            self.allowed = False  # PartiQL is a right of its own; single updates may be allowed
            return (DENIED,) * len(updates)
        self._run.note(written.units, self._stopping)
        if any(error is not None and error.startswith(DENIED) for error in written.errors):
            self.allowed = False
        return written.errors


def seed_found(found: Found, *, by_query: bool = False) -> Protocol[Amount]:
    """Seed a parent that a scan found without a tally: with what the scan counted, where that is exact."""
    if is_exact(found) and found.counted is not None and not by_query:
        return (yield from seed_counted(found.tally, found.key, found.counted))
    return (yield from seed(found.tally, found.key))


def is_exact(found: Found) -> bool:
    """Whether what the scan counted is what the tally must say: the parent never had one."""
    tally, item = found.tally, found.item or {}
    return found.counted is not None and layout_of(tally, item) is None and tally.pending_name not in item


class Seeder:
    """Seeds what the scan finds, many in one request where the scan's own count will do.

    Parents whose children lie elsewhere are only recorded, in ``sums``.
    """

    def __init__(self, one: TablePass, scan: TableScan[Seeded], run: Run, sums: Sums | None) -> None:
        self._pass, self._scan, self._run, self._sums = one, scan, run, sums
        self._elsewhere = frozenset(counter.tally for counter in one.elsewhere)
        self._together = Together(run, scan.driver, scan.stopping)

    def take(self, found: Sequence[Found]) -> Iterator[list[Seeded]]:
        """Seed those that have no tally."""
        waiting: list[Found] = []
        apart: list[Recorded] = []
        present = 0
        for one in found:
            if self._scan.stopping.is_set():
                break
            if one.item is not None and _is_present(one.tally, one.item):
                present += 1
                continue
            if not self._run.may_seed():
                self._scan.stopping.set()
                break
            if one.tally in self._elsewhere and not _is_closed(one):
                apart.append(Recorded.of(one.tally, one.key, one.item))
            elif self._run.dry_run or not self._may_wait(one):
                yield [self._seed(one)]
            else:
                waiting.append(one)
                if len(waiting) == MAX_STATEMENTS:
                    yield self._seed_together(waiting)
                    waiting = []
        if waiting:
            yield self._seed_together(waiting)
        if self._sums is not None:
            self._sums.record(apart)
        with self._run.track.lock:
            self._run.track.present += present

    def finish(self) -> Iterator[list[Seeded]]:
        """Nothing is left to do."""
        return iter(())

    def _may_wait(self, found: Found) -> bool:
        if found.tally.shards > 1:
            return False
        return self._together.allowed and found.tally not in self._pass.queried and is_exact(found)

    def _seed_together(self, found: Sequence[Found]) -> list[Seeded]:
        updates = [write_counted(one.tally, one.key, one.counted) for one in found if one.counted is not None]
        errors = self._together.write(updates, lambda: ", ".join(self._pass.labels))
        return [
            # One that was refused has changed, or was written by a try whose answer was lost.
            Seeded(one.tally.label, one.key, "seeded", one.counted) if error is None else self._seed(one)
            for one, error in zip(found, errors, strict=True)
        ]

    def _seed(self, found: Found) -> Seeded:
        outcome = self._outcome(found)
        if outcome.status == "planned":
            self._run.track.note_write(1)
        elif outcome.status == "seeded":
            self._run.note(1, self._scan.stopping)
        return outcome

    def _outcome(self, found: Found) -> Seeded:
        tally, key = found.tally, found.key
        if found.trouble:
            return Seeded(tally.label, key, "failed", message=found.trouble)
        if _is_closed(found) and (self._run.dry_run or tally in self._elsewhere):
            return Seeded(tally.label, key, "closed", message=CLOSED)
        by_query = tally in self._pass.queried
        if self._run.dry_run:
            return Seeded(tally.label, key, "planned", found.counted if is_exact(found) and not by_query else None)
        driver = self._scan.driver(lambda: f"{tally.label} of {key}")
        return tried(tally, key, driver, seed_found(found, by_query=by_query))


def tried(tally: Tally, key: ItemKey, driver: Driver, protocol: Protocol[Amount]) -> Seeded:
    """Run a protocol that seeds one parent, and say what became of it."""
    try:
        return Seeded(tally.label, key, "seeded", driver.run(protocol))
    except ParentMissing as error:
        closed = tally.closed_name in (driver.run(read_item(key)) or {})
        return Seeded(tally.label, key, "closed" if closed else "gone", message=error.msg)
    except PynacountError as error:
        return Seeded(tally.label, key, "failed", message=error.msg)


def _is_present(tally: Tally, item: Item) -> bool:
    return tally.shards_name in item or "N" in item.get(tally.attr_name, {})


def _is_closed(found: Found) -> bool:
    return found.item is not None and found.tally.closed_name in found.item
