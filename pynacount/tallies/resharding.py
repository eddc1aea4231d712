"""Changing the number of shards of the tallies of a live table, parent after parent, while people go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.errors import ParentMissing, PynacountError
from pynacount.fields import CounterField
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.protocols.resharding import is_so
from pynacount.protocols.resharding import reshard as reshard_parent
from pynacount.protocols.seeding import missing
from pynacount.shards import layout_of
from pynacount.steps import Item
from pynacount.tallies.asked import check_numbers, check_rates, counters_of
from pynacount.tallies.children import parents_too
from pynacount.tallies.groups import Found
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, passes
from pynacount.tallies.progress import State
from pynacount.tallies.results import Spread
from pynacount.tallies.scanning import DEFAULT_WORKERS, Reading, TableScan, Tracking


def reshard(
    counters: Iterable[CounterField],
    to: int,
    *,
    refs: Iterable[Any] | None = None,
    workers: int = DEFAULT_WORKERS,
    segments: int | None = None,
    rcu_per_second: float | None = None,
    tracking: Tracking | None = None,
    dry_run: bool = False,
) -> Generator[Spread, None, None]:
    """Bring every tally into ``to`` shards; gives what became of each that was not so already.

    Nothing is counted anew and nobody waits: see :meth:`CounterField.reshard`. It can be run at any time, by several at
    once, and again. A parent without a tally is passed over: it is seeded into as many shards as are declared. One of
    ``refs`` is told, with the status ``unseeded``.

    :param to: the number of shards, 1 (on the parent itself) to 99.
    :param refs: reshard these parents alone.
    :param workers: threads.
    :param segments: of the parallel scan; as many as workers where it is left out.
    :param rcu_per_second: most read units a second of the scan.
    :param tracking: is filled in while it runs.
    :param dry_run: write nothing; ``status`` is ``planned`` then.
    :raises DeclarationError: for a counter that cannot be in shards.
    """
    given = counters_of("reshard", counters)
    check_numbers("reshard", workers=workers, segments=segments)
    check_rates("reshard", rcu_per_second=rcu_per_second)
    for counter in given:
        counter.check_reshard(to)
    track = tracking if tracking is not None else Tracking()
    if refs is not None:
        return _of_refs(given, to, list(refs), dry_run=dry_run)
    all_passes = passes(given, elsewhere=True)
    reading = Reading(workers, segments or workers, Pace(rcu_per_second), track)
    return _of_tables(all_passes, given, to, reading, dry_run=dry_run)


def _of_refs(
    counters: Sequence[CounterField], to: int, refs: Sequence[Any], *, dry_run: bool
) -> Generator[Spread, None, None]:
    for ref in refs:
        for counter in counters:
            counting = counter.owner._counting
            key = counting.key_of(ref)
            driver = counting.driver(f"{counter.label}.reshard", renew=True)
            item = driver.run(read_item(key))
            if item is None:
                raise ParentMissing(missing(counter.label, key))
            if layout_of(counter.tally, item) is None and counter.tally.closed_name not in item:
                yield Spread(counter.label, key, "unseeded", message=_unseeded(counter, key, to))
                continue
            yield from _resharded(counter, to, key, item, driver, dry_run=dry_run)


def _unseeded(counter: CounterField, key: ItemKey, to: int) -> str:
    declared = "on the item itself" if counter.shards == 1 else f"in {counter.shards} shards, as is declared"
    born = "it is made when its children are counted" if counter.is_counted else "its first increment makes it"
    return (
        f"{counter.label} of {key} has no tally yet: {born}, {declared}. Bring it into {to} "
        f"shard{'' if to == 1 else 's'} then"
    )


def _of_tables(
    all_passes: Sequence[TablePass], counters: Sequence[CounterField], to: int, reading: Reading, *, dry_run: bool
) -> Generator[Spread, None, None]:
    of_tally = {counter.tally: counter for counter in counters}
    for one in all_passes:
        state = State(None, {})
        scan: TableScan[Spread] = TableScan(one, reading.segments, state, reading.pace, reading.track, parents_too(one))
        segment = _Segment(of_tally, to, scan, dry_run)
        reading.track.segments += reading.segments
        workers = min(reading.workers, reading.segments)
        try:
            yield from scan.results(range(reading.segments), workers, lambda segment=segment: segment)  # type: ignore[misc]
        finally:
            scan.stop()
            state.close()


@dataclass(frozen=True, slots=True)
class _Segment:
    """Reshards the parents that a scan finds; the same for all its segments."""

    of_tally: Mapping[Tally, CounterField]
    to: int
    scan: TableScan[Spread]
    dry_run: bool

    def take(self, found: Sequence[Found]) -> Iterator[list[Spread]]:
        """The parents whose children were all in the pages so far."""
        for one in found:
            if self.scan.stopping.is_set():
                return
            if one.item is None:
                continue
            counter = self.of_tally[one.tally]
            driver = self.scan.driver(lambda label=counter.label, key=one.key: f"{label} of {key}")  # type: ignore[misc]
            yield list(_resharded(counter, self.to, one.key, one.item, driver, dry_run=self.dry_run))

    def finish(self) -> Iterator[list[Spread]]:
        """Nothing is left to do."""
        return iter(())


def _resharded(
    counter: CounterField, to: int, key: ItemKey, item: Item, driver: Driver, *, dry_run: bool
) -> Iterator[Spread]:
    """What became of one parent, which was read as ``item``; nothing where it is as it is wanted."""
    tally, plain = counter.tally, not counter.is_counted
    try:
        layout = layout_of(tally, item)
        if layout is None or is_so(tally, item, layout, to, plain=plain):
            return
        if dry_run:
            yield Spread(tally.label, key, "planned", layout.shards, to)
            return
        done = driver.run(reshard_parent(tally, key, to, plain=plain))
    except ParentMissing as error:
        yield Spread(tally.label, key, "gone", message=error.msg)
    except PynacountError as error:
        yield Spread(tally.label, key, "failed", message=error.msg)
    else:
        if done.now is not None:
            yield Spread(tally.label, key, "resharded", layout.shards, done.now)
