"""Every tally of a live table beside its count: a parallel scan that counts as it goes, and a closer look at the rest.

What the scan finds equal is told at once. It reads a parent and its children at different moments, so a difference
shows nothing yet: such a parent is looked at by itself, and again after ``settle`` (rule 8 of docs/design.md).
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Literal

from pynacount.errors import CounterTypeError, ParentMissing
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.protocols.counting import count
from pynacount.protocols.standings import read_standing
from pynacount.steps import Protocol
from pynacount.tallies.groups import Found
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import State
from pynacount.tallies.results import Audited
from pynacount.tallies.scanning import DEFAULT_WORKERS, TableScan, Tracking, item_count
from pynacount.tallies.suspects import Suspect, confirmed

MOST_SUSPECTS = 500
"""Parents of one segment that differ, before they are looked at again: what bounds the memory."""
SAMPLED_ITEMS = 100
"""Items in each of the small segments that a sample is drawn from."""
MOST_SEGMENTS = 100_000


def audit(
    counters: Iterable[CounterField],
    *,
    refs: Iterable[Any] | None = None,
    sample: int | None = None,
    by: Literal["scan", "query"] = "scan",
    workers: int = DEFAULT_WORKERS,
    segments: int | None = None,
    segment: int | None = None,
    rcu_per_second: float | None = None,
    tracking: Tracking | None = None,
) -> Generator[Audited, None, None]:
    """Every parent's tally beside the count of its children, as they are found; nothing is written.

    It tells the truth while people go on liking: a parent is told to be wrong only where two looks in a row, ``settle``
    seconds apart, showed the same. The other way round, a drift that a like under way happens to hide while its parent
    is read is found by the next audit.

    :param refs: audit these parents alone, by a query for each.
    :param sample: audit so many parents, from parts of the table chosen at random.
    :param by: ``"scan"`` counts children in their parent's partition while the table is scanned, and finds children
        without a parent; ``"query"`` counts the children of each parent by a query.
    :param workers: threads.
    :param segments: of the parallel scan; as many as workers where it is left out.
    :param segment: the only one to be read, from 0, so that several machines can share a table.
    :param rcu_per_second: most read units a second of the scan.
    :param tracking: is filled in while it runs.
    :raises DeclarationError: for counters that no pass over the table can audit.
    :raises ParentMissing: for a ref of a parent that is not there and has no children.
    """
    track = tracking if tracking is not None else Tracking()
    counters = list(counters)
    if refs is not None:
        yield from _audit_refs(counters, refs, track)
        return
    left = sample
    for one in passes(counters, by_query=by == "query", orphans=by == "scan"):
        if left == 0:
            return
        if sample is None:
            total = segments or workers
            numbers: Sequence[int] = range(total) if segment is None else range(segment, segment + 1)
        else:
            total = min(max(1, (item_count(one.model) or 0) // SAMPLED_ITEMS), MOST_SEGMENTS)
            numbers = random.sample(range(total), total)
        scan: TableScan[Audited] = TableScan(one, total, State(None, {}), Pace(rcu_per_second), track)
        track.segments += len(numbers)
        results = scan.results(numbers, min(workers, len(numbers)), lambda one=one, scan=scan: _Auditor(one, scan))  # type: ignore[misc]
        try:
            if left is None:
                yield from results
                continue
            for found in _first(results, left):
                left -= 1
                yield found
        finally:
            scan.stop()


def _first(results: Iterator[Audited], many: int) -> Iterator[Audited]:
    """So many of the results, no parent twice."""
    seen: set[tuple[str, ItemKey]] = set()
    for found in results:
        if (found.counter, found.key) not in seen:
            seen.add((found.counter, found.key))
            yield found
            if len(seen) == many:
                return


def _audit_refs(counters: Sequence[CounterField], refs: Iterable[Any], track: Tracking) -> Iterator[Audited]:
    for ref in refs:
        told = False
        for counter in counters:
            counting = counter.owner._counting
            key = counting.key_of(ref)
            driver = counting.driver(counter.label, renew=True)
            for found in confirmed([Suspect(counter.tally, key)], driver, track):
                told = True
                yield found
        if not told:
            raise ParentMissing(
                f"{counters[0].owner.__name__}: there is no parent {key} in table {key.table}, and it has no children"
            )


class _Auditor:
    """Audits one segment: what is plain is told at once, suspects are kept to be looked at together."""

    def __init__(self, one: TablePass, scan: TableScan[Audited]) -> None:
        self._pass, self._scan = one, scan
        self._suspects: list[Suspect] = []

    def take(self, found: Sequence[Found]) -> Iterator[list[Audited]]:
        """Tell of those that are plainly right or plainly unseeded."""
        plain: list[Audited] = []
        for one in found:
            if self._scan.stopping.is_set():
                return
            told = self._plain(one)
            if told is not None:
                plain.append(told)
                continue
            self._suspects.append(Suspect(one.tally, one.key))
            if len(self._suspects) >= MOST_SUSPECTS:
                yield plain
                plain = []
                yield from self.finish()
        yield plain

    def finish(self) -> Iterator[list[Audited]]:
        """Tell of the suspects."""
        suspects, self._suspects = self._suspects, []
        if suspects:
            driver = self._scan.driver(lambda: ", ".join(self._pass.labels))
            yield list(confirmed(suspects, driver, self._scan.track, self._scan.stopping))

    def _plain(self, one: Found) -> Audited | None:
        if one.item is None or one.trouble:
            return None
        tally = one.tally
        counted = one.counted
        standing = read_standing(tally, one.item)
        if standing.state not in ("present", "zero", "unseeded"):
            return None
        if tally in self._pass.queried:
            try:
                counted = self._scan.driver(lambda: f"{tally.label} of {one.key}").run(_count_once(one))
            except CounterTypeError:
                return None
        if standing.state == "unseeded":
            return Audited(tally.label, one.key, "unseeded", None, counted)
        if standing.tally != counted:
            return None
        return Audited(tally.label, one.key, "ok", standing.tally, counted)


def _count_once(one: Found) -> Protocol[Any]:
    return (yield from count(one.tally, one.key, patient=False))
