"""A parallel scan by threads that hands on what it finds, page by page, and keeps the position."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from pynacount.commit import Driver
from pynacount.connections import connection_for, deadline_of
from pynacount.errors import CounterContention
from pynacount.steps import Item
from pynacount.steps import Protocol as Steps
from pynacount.tallies.groups import Found, Groups
from pynacount.tallies.pages import Pace, consumed, offer_raw_items, raw_items, scan_page
from pynacount.tallies.passes import TablePass
from pynacount.tallies.progress import Position, Positions

PATIENCE = 3600.0
"""Seconds without any answer after which a pass gives up: a table may be throttled for long."""
DEFAULT_WORKERS = 4

T = TypeVar("T")


@dataclass(slots=True)
class Tracking:
    """How far a pass is, for whoever watches: filled in as it goes."""

    pages: int = 0
    items: int = 0
    read_units: float = 0.0
    write_units: float = 0.0
    present: int = 0
    looks: int = 0
    segments: int = 0
    segments_done: int = 0
    retries: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def note_retry(self, met: str) -> None:
        """Something was tried again, after what was met."""
        with self.lock:
            self.retries[met] = self.retries.get(met, 0) + 1

    def note_write(self, units: float) -> None:
        """So many write units were consumed."""
        with self.lock:
            self.write_units += units

    def note_looks(self, many: int) -> None:
        """So many parents were looked at by themselves."""
        with self.lock:
            self.looks += many


def item_count(model: Any) -> int | None:
    """About how many items the table holds: DynamoDB says so, some hours late. None where it may not be asked.

    Source: AWS, ``DescribeTable``: updated about every six hours.
    """
    try:
        table = connection_for(model.Meta).dispatch("DescribeTable", {"TableName": model._counting.table})
    except (ClientError, BotoCoreError):
        return None
    found: int = table["Table"].get("ItemCount", 0)
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """How tables are read: by so many threads, in so many segments, at which pace."""

    workers: int
    segments: int
    pace: Pace
    track: Tracking


class Segment(Protocol[T]):
    """What is done with the parents that are found in one segment; gives results, several at a time."""

    def take(self, found: Sequence[Found]) -> Iterator[list[T]]:
        """The parents whose children were all in the pages so far."""
        ...

    def finish(self) -> Iterator[list[T]]:
        """The segment was read to its end."""
        ...


class Grouping(Protocol):
    """What is made of the items of one segment, page by page; :class:`Groups` is one."""

    def take(self, items: Sequence[Item]) -> Iterator[Found]:
        """The next page."""
        ...

    def finish(self) -> Iterator[Found]:
        """There are no more pages."""
        ...

    def saved(self) -> str:
        """What :meth:`restore` goes on from."""
        ...

    def restore(self, text: str) -> None:
        """Go on from there."""
        ...


class TableScan(Generic[T]):
    """The threads of one pass over a table. ``stopping`` is set once they are to end.

    ``grouping`` is made for each segment, by its number; groups of the pass's own counters where it is left out.
    """

    def __init__(
        self,
        one: TablePass,
        segments: int,
        state: Positions,
        pace: Pace,
        track: Tracking,
        grouping: Callable[[int], Grouping] | None = None,
    ) -> None:
        self._pass, self._segments, self._state, self._pace, self.track = one, segments, state, pace, track
        self._grouping = grouping or (lambda _: Groups(one.names, one.locals, orphans=one.orphans))
        self.stopping = threading.Event()
        self._reached = False
        self._out: queue.Queue[list[T] | BaseException | None] = queue.Queue(maxsize=100)
        self._threads: list[threading.Thread] = []
        self._connection = connection_for(one.model.Meta)
        offer_raw_items(self._connection.client)

    def driver(self, about: Callable[[], str]) -> Driver:
        """A driver for this table that is patient, and whose retries are tracked."""
        return Driver(self._connection, PATIENCE, about, renew=True, retrying=self.track.note_retry)

    def results(self, numbers: Iterable[int], workers: int, begin: Callable[[], Segment[T]]) -> Iterator[T]:
        """Read these segments, and give the results as they come; raises what a worker met."""
        todo = iter(numbers)
        for _ in range(workers):
            thread = threading.Thread(target=self._work, args=(todo, begin), name="pynacount-scan", daemon=True)
            self._threads.append(thread)
            thread.start()
        ended = 0
        while ended < workers:
            results = self._out.get()
            if results is None:
                ended += 1
            elif isinstance(results, BaseException):
                raise results
            else:
                yield from results

    def stop(self) -> None:
        """Let the workers finish the parents they are at, and wait for them."""
        self.stopping.set()
        while any(thread.is_alive() for thread in self._threads):
            try:
                self._out.get(timeout=0.05)
            except queue.Empty:
                continue

    def _work(self, todo: Iterator[int], begin: Callable[[], Segment[T]]) -> None:
        try:
            while not self.stopping.is_set():
                with self.track.lock:
                    number = next(todo, None)
                if number is None:
                    break
                self._read_segment(number, begin())
        except BaseException as error:
            self._out.put(error)
        finally:
            self._out.put(None)

    def _read_segment(self, number: int, segment: Segment[T]) -> None:
        position = self._state.position(number)
        groups = self._grouping(number)
        if position.group is not None:
            groups.restore(position.group)
        while not position.done:
            start, units = self._read_page(number, position, groups, segment)
            if self.stopping.is_set():
                return  # the page is read again
            position = Position(start, groups.saved() if start else None, not start)
            self._state.save(number, position)
            self._pace.spend(units, self.stopping)
            if self.stopping.is_set():
                return
        self._put(segment.finish())
        with self.track.lock:
            self.track.segments_done += 1

    def _read_page(
        self, number: int, position: Position, groups: Grouping, segment: Segment[T]
    ) -> tuple[dict[str, dict[str, str]] | None, float]:
        with raw_items():
            page = self._answered(
                lambda: scan_page(self._pass.table, self._pass.attributes, number, self._segments, position.start)
            )
        units, start = consumed(page), page.get("LastEvaluatedKey")
        items = page.pop("Items")
        found = list(groups.take(items))
        if not start:
            found += groups.finish()
        with self.track.lock:
            self.track.pages += 1
            self.track.items += len(items)
            self.track.read_units += units
        del items  # a megabyte of the table is many of Python's
        self._put(segment.take(found))
        return start or None, units

    def _answered(self, protocol: Callable[[], Steps[dict[str, Any]]]) -> dict[str, Any]:
        """The answer, however long the table is throttled; but nobody is waited for who never answered at all."""

        def about() -> str:
            return f"scan of {self._pass.table}"

        if not self._reached:
            hasty = Driver(self._connection, deadline_of(self._pass.model.Meta), about, retrying=self.track.note_retry)
            try:
                answer = hasty.run(protocol())
                self._reached = True
                return answer
            except CounterContention as error:
                if not isinstance(error.cause, ClientError):
                    raise
        answer = self.driver(about).run(protocol())
        self._reached = True
        return answer

    def _put(self, results: Iterable[list[T]]) -> None:
        for some in results:
            self._out.put(some)
