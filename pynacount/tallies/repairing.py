"""Repairing what an audit of a table found wrong, parent after parent, while people go on.

Nothing of the audit's numbers is believed: each parent is counted anew, so rows of an old audit do no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from pynacount.amounts import Amount
from pynacount.commit import Driver
from pynacount.connections import connection_for, deadline_of
from pynacount.errors import CounterContention, DeclarationError, NotCounted, ParentMissing, PynacountError, TargetError
from pynacount.fields import CounterField
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.protocols.repairing import Repair, check_repairable, repair_by_revision
from pynacount.protocols.repairing import repair as repair_by_fence
from pynacount.shards import layout_of
from pynacount.steps import Item, Protocol, Send
from pynacount.tallies.asked import check_numbers, only_counted
from pynacount.tallies.passes import check_query, is_elsewhere
from pynacount.tallies.results import Audited, Repaired, RepairMeans, RepairStatus
from pynacount.tallies.scanning import DEFAULT_WORKERS, PATIENCE, Tracking
from pynacount.writing.deleting import cascades_of, finish_deletion

T = TypeVar("T")

REPAIRED = frozenset({"drifted", "unreadable", "repairing"})
"""The states that a repair mends."""
ONLY_A_SCAN = (
    "only a scan finds its children, so no repair takes it: declare an index on them; or, while nobody writes, remove "
    "the tally and run pynacount migrate"
)
_LEFT = {
    "closed": "a cascade began to delete it and was not finished; finish it by a sweep, or by calling delete() again",
    "orphaned": "children without a parent; delete them",
    "moving": "its children came and went at every look; audit it again, or repair it by its key",
    "unknown": "a child cannot be counted; mend it, and audit again",
}


def repair(
    counters: Iterable[CounterField],
    audited: Iterable[Audited],
    *,
    workers: int = DEFAULT_WORKERS,
    dry_run: bool = False,
    sweep: bool = False,
    tracking: Tracking | None = None,
) -> Generator[Repaired, None, None]:
    """Repair the parents that an audit found drifted, unreadable, or left fenced; give what became of each.

    Exact while people go on liking, safe to run by several at once, and again. Each parent is counted anew: by a
    fence, for which its writers wait about ``settle`` seconds, or by the counter's ``revision``. Rows that are right,
    or unseeded, are passed over; the other rows that are wrong are given as ``left``. ``audited`` is read as the work
    goes on, so it can be an audit under way. Closing the iterator lets the parents at hand be finished.

    :param workers: parents at a time; 1 uses no threads.
    :param dry_run: write nothing.
    :param sweep: finish cascades that were interrupted, too: delete those parents, with the children that are left.
    :param tracking: its retries are filled in while it runs.
    :raises ValueError: at the call: for a number of workers that it cannot go by.
    :raises DeclarationError: for a counter that cannot be repaired, and for a plain counter.
    :raises TargetError: for a row of another counter, or of another table.
    """
    check_numbers("repair", workers=workers)
    track = tracking if tracking is not None else Tracking()
    repairer = _Repairer(_places(only_counted("repair", counters)), track, dry_run=dry_run, sweep=sweep)
    return _results(repairer, audited, workers)


def _results(repairer: _Repairer, audited: Iterable[Audited], workers: int) -> Generator[Repaired, None, None]:
    for found in _in_threads(audited, repairer.task, workers):
        if found is not None:
            yield found


def _in_threads(rows: Iterable[Audited], task: Callable[[Audited], Callable[[], T]], workers: int) -> Iterator[T]:
    """The results of the rows' tasks as they come, ``workers`` under way at a time.

    After an error no more are begun; what those under way come to is given before it is raised.
    """
    if workers == 1:
        for row in rows:
            yield task(row)()
        return
    running: set[Future[T]] = set()
    trouble: BaseException | None = None
    with ThreadPoolExecutor(workers, thread_name_prefix="pynacount-repair") as pool:
        try:
            for row in rows:
                running.add(pool.submit(task(row)))
                full = len(running) == workers
                done = wait(running, return_when=FIRST_COMPLETED).done if full else {f for f in running if f.done()}
                running -= done
                for future in done:
                    if future.exception() is None:
                        yield future.result()
                    trouble = trouble or future.exception()
                if trouble is not None:
                    break
        except Exception as error:
            trouble = error
        for future in wait(running).done:
            if future.exception() is None:
                yield future.result()
            trouble = trouble or future.exception()
    if trouble is not None:
        raise trouble


_Place = tuple[str, str, tuple[str, ...]]


def _places(counters: Iterable[CounterField]) -> dict[_Place, CounterField]:
    """The counters, by what a row of an audit says of them. Raises for one that cannot be repaired."""
    places: dict[_Place, CounterField] = {}
    given = list(counters)
    mendable = [counter for counter in given if not is_elsewhere(counter)]
    for counter in given:
        if counter.is_streamed:
            raise DeclarationError(
                f"{counter.label} is kept from a stream, and a fence on the parent would not hold its records up; "
                f"count it anew: pynacount migrate {counter.tally.target} --anew"
            )
        if any(counter is one for one in mendable) or not mendable:  # beside others, its rows are left
            check_repairable(counter.tally, fence=counter.revision is None)
            check_query(counter)
        schema = counter.owner._counting.schema
        other = places.setdefault((counter.label, schema.table, schema.names), counter)
        if other is not counter:
            raise DeclarationError(
                f"two counters are called {counter.label}, of {other.owner.__module__} and of "
                f"{counter.owner.__module__}; repair one after the other"
            )
    return places


class _Repairer:
    """Does to a row what there is to do."""

    def __init__(self, places: dict[_Place, CounterField], track: Tracking, *, dry_run: bool, sweep: bool) -> None:
        self._places, self._track, self._dry_run, self._sweeps = places, track, dry_run, sweep
        self._reached = False

    def task(self, row: Audited) -> Callable[[], Repaired | None]:
        """What there is to do about the row. Raises :class:`TargetError` for one of another counter."""
        counter = self._places.get((row.counter, row.key.table, row.key.names))
        if row.state == "unknown" and any(label == row.counter for label, *_ in self._places):
            return lambda: _outcome(row, "left", message=row.message or _LEFT["unknown"])  # it may be a child's row
        if counter is None:
            raise TargetError(
                f"the row of {row.counter} {row.key} in table {row.key.table} is of none of "
                f"{', '.join(label for label, *_ in self._places)}; name its counter, too"
            )
        by: RepairMeans
        if row.wrong and is_elsewhere(counter):
            return lambda: _outcome(row, "left", message=ONLY_A_SCAN)
        if row.state in REPAIRED:
            by, work = "fence" if counter.revision is None else "revision", self._repair
        elif row.state == "closed" and self._sweeps:
            by, work = "sweep", self._sweep
        elif row.wrong:
            return lambda: _outcome(row, "left", message=row.message or _LEFT.get(row.state, row.state))
        else:
            return lambda: None
        if self._dry_run:
            return lambda: _outcome(row, "planned", now=row.count, by=by)
        return lambda: self._told(work, counter, row)

    def _told(self, work: Callable[[CounterField, Audited], Repaired], counter: CounterField, row: Audited) -> Repaired:
        self._reach(counter, row.key)
        try:
            return work(counter, row)
        except PynacountError as error:
            return _outcome(row, "failed", message=error.msg)

    def _reach(self, counter: CounterField, key: ItemKey) -> None:
        """Look once whether anybody answers at all: else each row would be waited for, and be told to have failed."""
        if self._reached:
            return
        meta = counter.owner.Meta
        about = f"{counter.label} of {key}"
        hasty = Driver(connection_for(meta), deadline_of(meta), lambda: about, retrying=self._track.note_retry)
        try:
            hasty.run(read_item(key))
        except CounterContention as error:
            if not isinstance(error.cause, ClientError):
                raise
        self._reached = True

    def _repair(self, counter: CounterField, row: Audited) -> Repaired:
        tally, key, watch = counter.tally, row.key, _Watch()
        protocol = repair_by_fence(tally, key) if counter.revision is None else repair_by_revision(tally, key)
        try:
            done: Repair = self._driver(counter, key).run(watch.over(protocol))
        except ParentMissing as error:
            item = self._driver(counter, key).run(read_item(key))
            if item is not None and tally.closed_name in item:
                return _outcome(row, "left", message=_LEFT["closed"])
            return _outcome(row, "gone", message=error.msg)
        except PynacountError as error:
            return self._failed(counter, row, error.msg, watch)
        was: Any = done.was
        status: RepairStatus = "unchanged" if was == done.now else "repaired"
        return _outcome(row, status, was, done.now, done.by, waited=watch.seconds if done.by == "fence" else 0.0)

    def _failed(self, counter: CounterField, row: Audited, message: str, watch: _Watch) -> Repaired:
        item = self._driver(counter, row.key).run(read_item(row.key)) or {}
        fenced = layout_of(counter.tally, item) is None and counter.tally.was_name in item
        if fenced:
            message += "; it stays without its tally, and its writers wait, until that is mended and it is repaired"
        return _outcome(row, "failed", message=message, waited=watch.seconds if fenced else 0.0)

    def _sweep(self, counter: CounterField, row: Audited) -> Repaired:
        model, key = counter.owner, row.key
        parent = model(**model._counting.schema.read_key(key))
        try:
            if self._driver(counter, key).run(finish_deletion(parent)):
                return _outcome(row, "swept", by="sweep")
        except NotCounted as error:
            return _outcome(row, "gone", message=error.msg)
        item = self._driver(counter, key).run(read_item(key))
        if item is None:
            return _outcome(row, "gone", message="it was deleted meanwhile")
        return _outcome(row, "left", message=_why_not_swept(cascades_of(model._counting), item))

    def _driver(self, counter: CounterField, key: ItemKey) -> Driver:
        """One that is patient: a table may be throttled for long."""
        about = f"{counter.label} of {key}"
        connection = connection_for(counter.owner.Meta)
        return Driver(connection, PATIENCE, lambda: about, renew=True, retrying=self._track.note_retry)


def _why_not_swept(cascades: Iterable[CounterField], item: Item) -> str:
    """What to do about a parent that not all of its cascades closed: one of them may be newer than the deletion."""
    shut = [c.tally.closed_name for c in cascades if c.tally.closed_name in item]
    if not shut:
        return "it is not closed any more; audit it again"
    return (
        f"it is closed by {', '.join(shut)}, and not by all of its counters, so a sweep cannot tell whether it is to "
        f"go: delete() it, which closes the rest, or, if it is to stay, remove {', '.join(shut)} and seed it"
    )


def _outcome(
    row: Audited,
    status: RepairStatus,
    was: Amount | None = None,
    now: Amount | None = None,
    by: RepairMeans | None = None,
    *,
    waited: float = 0.0,
    message: str = "",
) -> Repaired:
    if status not in ("repaired", "unchanged"):
        was = row.tally
    return Repaired(row.counter, row.key, status, was, now, by, datetime.now(timezone.utc), waited, message)


@dataclass(slots=True)
class _Watch:
    """Measures the time from the first answer of a protocol to its last."""

    began: float | None = None
    ended: float = 0.0

    @property
    def seconds(self) -> float:
        """The time so far."""
        return 0.0 if self.began is None else self.ended - self.began

    def over(self, protocol: Protocol[T]) -> Protocol[T]:
        """The same protocol, looked at."""
        try:
            step = next(protocol)
            while True:
                answer = yield step
                if isinstance(step, Send):
                    self.ended = time.monotonic()
                    self.began = self.ended if self.began is None else self.began
                step = protocol.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
