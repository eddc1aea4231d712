"""Every tally of a live table beside its count: a parallel scan that counts as it goes, and a closer look at the rest.

What the scan finds equal is told at once. It reads a parent and its children at different moments, so a difference
shows nothing yet: such a parent is looked at by itself, and again after ``settle`` (rule 8 of docs/design.md).
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

from pynacount.errors import CounterTypeError, ParentMissing
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.protocols.counting import count
from pynacount.protocols.spreading import made_whole
from pynacount.protocols.standings import read_standing
from pynacount.steps import Protocol
from pynacount.tallies.aggregating import Recorded, Sums
from pynacount.tallies.asked import check_numbers, check_rates, check_reading, only_counted
from pynacount.tallies.auditing_elsewhere import ElsewhereAuditor
from pynacount.tallies.children import parents_too, refuse_part
from pynacount.tallies.groups import Found
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import State
from pynacount.tallies.results import Audited
from pynacount.tallies.scanning import DEFAULT_WORKERS, Reading, TableScan, Tracking, item_count
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

    Where only a scan finds the children (no index, and not in their parent's partition), the parents' table is scanned
    first, and then the children's tables, each once for all counters. What differs is confirmed by a second scan of
    those, so an audit that finds nothing costs one. Sums are kept in a temporary database, and memory stays as it is. A
    parent of such a counter that children come to or leave while their table is scanned is told to be moving. It is
    taken for drifted if in each scan a child was met that was there only between two reads of the tally, and these come
    to the same: audit again before such a tally is mended. Where a child does not tell its parent, a result with the
    child's key says so. ``refs``, ``sample``, ``segment`` and ``by="query"`` are refused: a part of the children tells
    nothing.

    :param refs: audit these parents alone, by a query for each.
    :param sample: audit so many parents, from parts of the table chosen at random.
    :param by: ``"scan"`` counts children in their parent's partition while the table is scanned, and finds children
        without a parent; ``"query"`` counts the children of each parent by a query.
    :param workers: threads.
    :param segments: of the parallel scan; as many as workers where it is left out.
    :param segment: the only one to be read, from 0, so that several machines can share a table.
    :param rcu_per_second: most read units a second of the scan.
    :param tracking: is filled in while it runs.
    :raises ValueError: at the call, as all that is wrong with it: for a number, or a ``by``, that it cannot go by.
    :raises DeclarationError: for counters that no pass over the table can audit, and for plain counters.
    :raises ParentMissing: for a ref of a parent that is not there and has no children.
    """
    check_numbers("audit", workers=workers, sample=sample)
    check_reading("audit", by, segments, segment)
    check_rates("audit", rcu_per_second=rcu_per_second)
    if sample is not None and (segments, segment) != (None, None):
        raise ValueError("tallies.audit(sample=...) chooses its segments itself; leave segments and segment out")
    if refs is not None and (sample, segments, segment) != (None, None, None):
        raise ValueError("tallies.audit(refs=...) reads these parents alone; leave sample, segments and segment out")
    track = tracking if tracking is not None else Tracking()
    counters = only_counted("audit", counters)
    for option, given in (("refs (--key)", refs), ("a sample", sample), ("a segment", segment)):
        for counter in counters if given is not None else ():
            refuse_part(counter, f"audit all of its parents, by one run without {option}")
    if refs is not None:
        return _audit_refs(counters, refs, track)
    tables = passes(counters, by_query=by == "query", orphans=by == "scan", elsewhere=True)
    return _audit_tables(tables, sample, workers, segments, segment, Pace(rcu_per_second), track)


def _audit_tables(
    tables: Sequence[TablePass],
    sample: int | None,
    workers: int,
    segments: int | None,
    segment: int | None,
    pace: Pace,
    track: Tracking,
) -> Generator[Audited, None, None]:
    left = sample
    for one in tables:
        if left == 0:
            return
        if sample is None:
            total = segments or workers
            numbers: Sequence[int] = range(total) if segment is None else range(segment, segment + 1)
        else:
            total = min(max(1, (item_count(one.model) or 0) // SAMPLED_ITEMS), MOST_SEGMENTS)
            numbers = random.sample(range(total), total)
        results = _audit_table(one, numbers, Reading(workers, total, pace, track))
        with closing(results):
            for found in results if left is None else _first(results, left):
                if left is not None:
                    left -= 1
                yield found


def _audit_table(one: TablePass, numbers: Sequence[int], reading: Reading) -> Generator[Audited, None, None]:
    state = State(None, {})
    sums = Sums(state, only_recorded=False) if one.elsewhere else None
    scan: TableScan[Audited] = TableScan(one, reading.segments, state, reading.pace, reading.track, parents_too(one))
    reading.track.segments += len(numbers)
    try:
        yield from scan.results(numbers, min(reading.workers, len(numbers)), lambda: _Auditor(one, scan, sums))
        if sums is not None:
            driver = scan.driver(lambda: ", ".join(one.labels))
            yield from ElsewhereAuditor(one, driver, state, sums, reading).results()
    finally:
        scan.stop()
        state.close()


def _first(results: Iterator[Audited], many: int) -> Iterator[Audited]:
    """So many of the results, no parent twice."""
    seen: set[tuple[str, ItemKey]] = set()
    for found in results:
        if (found.counter, found.key) not in seen:
            seen.add((found.counter, found.key))
            yield found
            if len(seen) == many:
                return


def _audit_refs(
    counters: Sequence[CounterField], refs: Iterable[Any], track: Tracking
) -> Generator[Audited, None, None]:
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
    """Audits one segment: what is plain is told at once, suspects are kept to be looked at together.

    Parents whose children lie elsewhere are only recorded, in ``sums``.
    """

    def __init__(self, one: TablePass, scan: TableScan[Audited], sums: Sums | None) -> None:
        self._pass, self._scan, self._sums = one, scan, sums
        self._elsewhere = frozenset(counter.tally for counter in one.elsewhere)
        self._suspects: list[Suspect] = []

    def take(self, found: Sequence[Found]) -> Iterator[list[Audited]]:
        """Tell of those that are plainly right or plainly unseeded."""
        plain: list[Audited] = []
        if self._sums is not None:
            apart = (self._with_number(one) for one in found if self._is_apart(one))
            self._sums.record(Recorded.of(one.tally, one.key, one.item) for one in apart)
        for one in found:
            if self._scan.stopping.is_set():
                return
            if self._is_apart(one):
                continue
            told = self._plain(self._with_number(one))
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

    def _with_number(self, one: Found) -> Found:
        """The parent as if it carried its number itself: where that is in shards, they are read."""
        if one.item is None or one.tally.shards_name not in one.item:
            return one
        driver = self._scan.driver(lambda: f"{one.tally.label} of {one.key}")
        return replace(one, item=driver.run(made_whole(one.tally, one.key, one.item)))

    def _is_apart(self, one: Found) -> bool:
        return one.tally in self._elsewhere

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
