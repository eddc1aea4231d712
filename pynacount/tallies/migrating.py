"""Seeding every parent of a table that is live: a parallel scan that counts as it goes.

A parent that has no tally and bears no mark never had one, so its children have stood still since before the scan
began: what the scan counted of them is exact, however long ago it passed them. One that bears a mark is counted by
itself, as ``seed(ref)`` does.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pynacount.amounts import Amount
from pynacount.commit import Driver
from pynacount.connections import connection_for
from pynacount.errors import ParentMissing, PynacountError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.steps import Protocol
from pynacount.tallies.groups import Found, Groups
from pynacount.tallies.pages import Pace, consumed, offer_raw_items, raw_items, scan_page
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import Position, State
from pynacount.protocols.seeding import seed, seed_counted

PATIENCE = 3600.0
"""Seconds without any answer after which a pass gives up: a table may be throttled for long."""
DEFAULT_WORKERS = 4

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


@dataclass(slots=True)
class Tracking:
    """How far a pass is, for whoever watches: filled in as it goes."""

    pages: int = 0
    items: int = 0
    read_units: float = 0.0
    write_units: float = 0.0
    present: int = 0
    segments: int = 0
    segments_done: int = 0
    retries: dict[str, int] = field(default_factory=dict)


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
    budget = itertools.repeat(None) if limit is None else itertools.repeat(None, limit)
    for one in passes(counters, by_query=by == "query"):
        total = segments or workers
        numbers = range(total) if segment is None else range(segment, segment + 1)
        identity = {"table": one.table, "counters": sorted(one.labels), "segments": total, "by": by}
        kept = State(None if dry_run else state, identity)
        paces = Pace(rcu_per_second), Pace(wcu_per_second)
        run = _Run(one, kept, total, paces, track, budget, dry_run)
        track.segments += len(numbers)
        try:
            yield from run.outcomes(numbers, min(workers, len(numbers)))
        finally:
            run.stop()
            kept.close()


def seed_found(found: Found, *, by_query: bool = False) -> Protocol[Amount]:
    """Seed a parent that a scan found without a tally: with what the scan counted, where that is exact."""
    tally, key, item = found.tally, found.key, found.item
    never_had_one = tally.attr_name not in item and tally.pending_name not in item
    if found.counted is not None and never_had_one and not by_query:
        return (yield from seed_counted(tally, key, found.counted))
    return (yield from seed(tally, key))


class _Run:
    """The threads of one pass."""

    def __init__(
        self,
        one: TablePass,
        state: State,
        segments: int,
        paces: tuple[Pace, Pace],
        track: Tracking,
        budget: Iterator[None],
        dry_run: bool,
    ) -> None:
        self._budget = budget
        self._dry_run = dry_run
        self._pass, self._state, self._segments, self._track = one, state, segments, track
        self._reads, self._writes = paces
        self._stopping = threading.Event()
        self._out: queue.Queue[Seeded | BaseException | None] = queue.Queue(maxsize=1000)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._connection = connection_for(one.model.Meta)
        offer_raw_items(self._connection.client)

    def outcomes(self, numbers: Iterable[int], workers: int) -> Iterator[Seeded]:
        """Start, and give the outcomes as they come; raises what a worker met."""
        todo: queue.Queue[int] = queue.Queue()
        for number in numbers:
            todo.put(number)
        for _ in range(workers):
            thread = threading.Thread(target=self._work, args=(todo,), name="pynacount-migrate", daemon=True)
            self._threads.append(thread)
            thread.start()
        ended = 0
        while ended < workers:
            outcome = self._out.get()
            if outcome is None:
                ended += 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                yield outcome

    def stop(self) -> None:
        """Let the workers finish the parent they are at, and wait for them."""
        self._stopping.set()
        while any(thread.is_alive() for thread in self._threads):
            try:
                self._out.get(timeout=0.05)
            except queue.Empty:
                continue

    def _work(self, todo: queue.Queue[int]) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    number = todo.get_nowait()
                except queue.Empty:
                    break
                self._read_segment(number)
        except BaseException as error:
            self._out.put(error)
        finally:
            self._out.put(None)

    def _driver(self, about: Callable[[], str]) -> Driver:
        return Driver(self._connection, PATIENCE, about, renew=True, retrying=self._note_retry)

    def _note_retry(self, met: str) -> None:
        with self._lock:
            self._track.retries[met] = self._track.retries.get(met, 0) + 1

    def _read_segment(self, number: int) -> None:
        position = self._state.position(number)
        groups = Groups(self._pass.names, self._pass.locals)
        if position.group is not None:
            groups.restore(position.group)
        driver = self._driver(lambda: f"scan of {self._pass.table}")
        start = position.start
        while not position.done:
            with raw_items():
                protocol = scan_page(self._pass.table, self._pass.attributes, number, self._segments, start)
                answer = driver.run(protocol)
            units = consumed(answer)
            start = answer.get("LastEvaluatedKey")
            found = list(groups.take(answer["Items"]))
            if not start:
                found += groups.finish()
            with self._lock:
                self._track.pages += 1
                self._track.items += len(answer["Items"])
                self._track.read_units += units
            for one in found:
                if not self._stopping.is_set():
                    self._seed(one)
                if self._stopping.is_set():
                    return  # the page is read again
            position = Position(start or None, groups.saved() if start else None, not start)
            self._state.save(number, position)
            self._reads.spend(units)
            if self._stopping.is_set():
                return
        with self._lock:
            self._track.segments_done += 1

    def _seed(self, found: Found) -> None:
        tally, key = found.tally, found.key
        if "N" in found.item.get(tally.attr_name, {}):
            with self._lock:
                self._track.present += 1
            return
        with self._lock:
            if next(self._budget, "spent") == "spent":
                self._stopping.set()
                return
        outcome = self._outcome(found, self._driver(lambda: f"{tally.label} of {key}"))
        self._out.put(outcome)
        if outcome.status in ("seeded", "planned"):
            with self._lock:
                self._track.write_units += 1
        if outcome.status == "seeded":
            self._writes.spend(1)

    def _outcome(self, found: Found, driver: Driver) -> Seeded:
        tally, key, item = found.tally, found.key, found.item
        if found.trouble:
            return Seeded(tally.label, key, "failed", message=found.trouble)
        if self._dry_run and tally.closed_name in item:
            return Seeded(tally.label, key, "closed", message="a cascade has begun to delete it; call delete() again")
        if self._dry_run:
            queried = tally in self._pass.queried or tally.pending_name in item
            return Seeded(tally.label, key, "planned", None if queried else found.counted)
        try:
            number = driver.run(seed_found(found, by_query=tally in self._pass.queried))
            return Seeded(tally.label, key, "seeded", number)
        except ParentMissing as error:
            return Seeded(tally.label, key, "closed" if tally.closed_name in item else "gone", message=error.msg)
        except PynacountError as error:
            return Seeded(tally.label, key, "failed", message=error.msg)
