"""Children that only a scan finds: the tables in which they are, and a scan of those that sums them up by parent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.errors import DeclarationError
from pynacount.fields import CounterField
from pynacount.relations import CountedIn
from pynacount.tallies.aggregating import SummedPages, SummedScan, Sums
from pynacount.tallies.groups import Groups
from pynacount.tallies.passes import TablePass, only_a_scan_finds
from pynacount.tallies.progress import State
from pynacount.tallies.scanning import Grouping, Reading, TableScan
from pynacount.tallies.telling import ChildReader, ParentFinder, ParentsToo


@dataclass(frozen=True, slots=True)
class ChildTable:
    """One table of children, and how they are told."""

    scanned: TablePass
    readers: tuple[ChildReader, ...]


def refuse_part(counter: CounterField, instead: str) -> None:
    """Raise :class:`DeclarationError`, naming what to do ``instead``, for a counter of which a part tells nothing."""
    for relation in counter.places():
        if only_a_scan_finds(relation):
            raise DeclarationError(
                f"{counter.label}: its children ({relation.owner.__name__}) lie anywhere in their table, so a part of "
                f"it does not tell what a parent's come to; {instead}, or declare an index on them: "
                f'CountedIn(..., index="...")'
            )


def parents_too(one: TablePass) -> Callable[[int], Grouping] | None:
    """How the items of the parents' table are grouped."""
    if not one.elsewhere:
        return None
    finders = [ParentFinder(counter) for counter in one.elsewhere]
    return lambda _: ParentsToo(Groups(one.names, one.locals, orphans=one.orphans), finders)


def child_tables(counters: Sequence[CounterField]) -> tuple[ChildTable, ...]:
    """The tables in which these counters' children are, each once."""
    by_place: dict[Any, list[tuple[CounterField, CountedIn]]] = {}
    for counter in counters:
        for relation in counter.places():
            meta = relation.owner.Meta
            place = (relation.child_schema.table, getattr(meta, "region", None), getattr(meta, "host", None))
            by_place.setdefault(place, []).append((counter, relation))
    return tuple(_child_table(sharing) for sharing in by_place.values())


def _child_table(sharing: Sequence[tuple[CounterField, CountedIn]]) -> ChildTable:
    readers = tuple(ChildReader(counter.tally.target, relation) for counter, relation in sharing)
    _, first = sharing[0]
    scanned = TablePass(
        table=first.child_schema.table,
        model=first.owner,
        names=first.child_schema.names,
        locals=(),
        queried=frozenset(),
        attributes=tuple(dict.fromkeys(name for reader in readers for name in reader.reads)),
        orphans=False,
    )
    return ChildTable(scanned, readers)


def scan_children(
    counters: Sequence[CounterField], wanted: Collection[str], sums: Sums, state: State, reading: Reading
) -> Iterator[Any]:
    """Sum up the children of the ``wanted`` ones (:attr:`Tally.target`) of these counters; gives nothing.

    Goes on where it stopped, by the positions that ``state`` has of the tables of all of them.
    """
    for number, table in enumerate(child_tables(counters), 1):
        readers = [reader for reader in table.readers if reader.counter in wanted]
        if not readers:
            continue
        positions = SummedScan(sums, state, reading.segments * number)

        def pages(segment: int, positions: SummedScan = positions, readers: Any = readers) -> Grouping:
            return SummedPages(positions, segment, readers)

        scan: TableScan[Any] = TableScan(table.scanned, reading.segments, positions, reading.pace, reading.track, pages)
        reading.track.segments += reading.segments
        try:
            yield from scan.results(range(reading.segments), min(reading.workers, reading.segments), _Nothing)
        finally:
            scan.stop()
        assert all(positions.position(segment).done for segment in range(reading.segments))  # else the sums are none


class _Nothing:
    """Parents are not looked for among children."""

    def take(self, found: Sequence[object]) -> Iterator[list[Any]]:
        return iter(())

    def finish(self) -> Iterator[list[Any]]:
        return iter(())
