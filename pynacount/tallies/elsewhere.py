"""Seeding parents whose children lie anywhere, without an index: record the parents, sum up the children, set.

While a tally is absent and its mark unmoved, no child of that parent comes or goes (rules 1, 2 and 9 of
docs/design.md). So a scan of the children that begins after the parent was recorded sees exactly its children, however
long it takes, and the number is set only if the tally is still absent and the mark what it was. A parent that bears a
mark may have been written to by a transaction that has only just committed: the scan waits ``settle`` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.amounts import unstorable
from pynacount.contributions import Tally
from pynacount.errors import DeclarationError
from pynacount.fields import CounterField
from pynacount.plan import Update
from pynacount.protocols.seeding import seed_recorded, write_recorded
from pynacount.relations import CountedIn
from pynacount.steps import Item, Protocol, Wait
from pynacount.tallies.aggregating import Recorded, Sum, SummedPages, SummedScan, Sums
from pynacount.tallies.groups import Groups
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import TablePass, only_a_scan_finds
from pynacount.tallies.progress import State
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import Grouping, TableScan, Tracking
from pynacount.tallies.seeder import Run, Together, tried
from pynacount.tallies.statements import MAX_STATEMENTS
from pynacount.tallies.telling import ChildReader, ParentFinder, ParentsToo


@dataclass(frozen=True, slots=True)
class ChildTable:
    """One table of children, and how they are told."""

    scanned: TablePass
    readers: tuple[ChildReader, ...]


def refuse_part(counter: CounterField) -> None:
    """Raise :class:`DeclarationError` for a counter of which one segment tells nothing."""
    for relation in counter.places():
        if only_a_scan_finds(relation):
            raise DeclarationError(
                f"{counter.label}: its children ({relation.owner.__name__}) lie anywhere in their table, so a part of "
                f"it does not tell what a parent's come to; seed it by one run without a segment, or declare an index "
                f'on them: CountedIn(..., index="...")'
            )


def identity(one: TablePass) -> dict[str, Any]:
    """What a state file must agree on, for counters whose children lie elsewhere."""
    if not one.elsewhere:
        return {}
    return {"children": sorted(relation.label for counter in one.elsewhere for relation in counter.places())}


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
    counters: Sequence[CounterField],
    wanted: Collection[str],
    sums: Sums,
    state: State,
    *,
    segments: int,
    workers: int,
    pace: Pace,
    track: Tracking,
) -> Iterator[Any]:
    """Sum up the children of the ``wanted`` ones of these counters (``Tally.target``); gives nothing.

    Goes on where it stopped, by the positions that ``state`` has of the tables of all of them, behind the ``segments``
    of the parents' own.
    """
    for number, table in enumerate(child_tables(counters), 1):
        readers = [reader for reader in table.readers if reader.counter in wanted]
        if not readers:
            continue
        positions = SummedScan(sums, state, segments * number)

        def pages(segment: int, positions: SummedScan = positions, readers: Any = readers) -> Grouping:
            return SummedPages(positions, segment, readers)

        scan: TableScan[Any] = TableScan(table.scanned, segments, positions, pace, track, pages)
        track.segments += segments
        try:
            yield from scan.results(range(segments), min(workers, segments), _Nothing)
        finally:
            scan.stop()
        assert all(positions.position(segment).done for segment in range(segments))  # else the sums are none


class _Nothing:
    """Parents are not looked for among children."""

    def take(self, found: Sequence[object]) -> Iterator[list[Any]]:
        return iter(())

    def finish(self) -> Iterator[list[Any]]:
        return iter(())


class Elsewhere:
    """The parents of one pass that are recorded, counted and set."""

    def __init__(self, one: TablePass, scan: TableScan[Seeded], state: State, sums: Sums, run: Run) -> None:
        self._counters, self._state, self._sums, self._run = one.elsewhere, state, sums, run
        self._tallies: Mapping[str, Tally] = {counter.tally.target: counter.tally for counter in one.elsewhere}
        self._driver = scan.driver
        self._together = Together(run, scan.driver)

    def seed(self) -> Iterator[Seeded]:
        """Count the children of the recorded parents, and seed them; afterwards none is recorded."""
        many = self._sums.many()
        if many:
            self._sums.begin_counting()
            self._settle()
            run = self._run
            yield from scan_children(
                self._counters,
                many,
                self._sums,
                self._state,
                segments=run.segments,
                workers=run.workers,
                pace=run.reading,
                track=run.track,
            )
            yield from self._strays(many)
            while some := self._sums.first(MAX_STATEMENTS):
                outcomes = self._set(some)
                self._sums.drop(some)
                yield from outcomes
        self._sums.forget(self._run.segments)

    def _settle(self) -> None:
        marked = [self._tallies[counter].settle for counter in self._sums.marked()]
        if marked:
            self._driver(lambda: "migrate").run(_wait(max(marked)))

    def _strays(self, many: Mapping[str, int]) -> Iterator[Seeded]:
        """A child that does not tell its parent may be anybody's: no parent of its counter can be exact."""
        unsure = set()
        for counter, key, why in self._sums.strays():
            if counter in many:
                unsure.add(counter)
                message = (
                    f"{why}. It does not tell its parent, which may be any of the {many[counter]:,} that have no "
                    f"tally: they are left without. Mend or delete it, and run it again"
                )
                yield Seeded(self._tallies[counter].label, key, "failed", message=message)
        for counter in unsure:
            self._sums.drop_all(counter)

    def _set(self, some: Sequence[Sum]) -> list[Seeded]:
        outcomes = [self._known(one) for one in some]
        plain = [i for i, one in enumerate(some) if outcomes[i] is None and _parent(one).is_plain]
        errors = self._together.write(
            [self._update(some[i]) for i in plain], lambda: ", ".join(t.label for t in self._tallies.values())
        )
        for i, error in zip(plain, errors, strict=True):
            if error is None:
                outcomes[i] = Seeded(self._tallies[some[i].counter].label, some[i].key, "seeded", some[i].total)
        return [outcome or self._set_alone(one) for one, outcome in zip(some, outcomes, strict=True)]

    def _known(self, one: Sum) -> Seeded | None:
        """What becomes of a parent that is not written to."""
        label = self._tallies[one.counter].label
        if trouble := one.trouble or unstorable(one.total, f"{label} of the parent {one.key}"):
            return Seeded(label, one.key, "failed", message=trouble)
        if self._run.dry_run:
            self._run.track.note_write(1)
            return Seeded(label, one.key, "planned", one.total)
        return None

    def _set_alone(self, one: Sum) -> Seeded:
        tally = self._tallies[one.counter]
        protocol = seed_recorded(tally, one.key, one.total, as_recorded(tally, _parent(one)))
        outcome = tried(tally, one.key, self._driver(lambda: f"{tally.label} of {one.key}"), protocol)
        if outcome.status == "seeded":
            self._run.note(1)
        return outcome

    def _update(self, one: Sum) -> Update:
        tally = self._tallies[one.counter]
        return write_recorded(tally, one.key, one.total, as_recorded(tally, _parent(one)))


def as_recorded(tally: Tally, parent: Recorded) -> Item:
    """The marks of a recorded parent, as its item had them."""
    item: Item = {}
    if parent.mark is not None:
        item[tally.pending_name] = {"N": parent.mark}
    if parent.repairing:
        item[tally.was_name] = {"N": "0"}  # it is only removed
    return item


def _parent(one: Sum) -> Recorded:
    assert one.parent is not None
    return one.parent


def _wait(seconds: float) -> Protocol[None]:
    yield Wait(seconds)
