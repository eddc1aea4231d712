"""Seeding parents whose children lie anywhere, without an index: record the parents, sum up the children, set.

While a tally is absent and its mark unmoved, no child of that parent comes or goes (rules 1, 2 and 9 of
docs/design.md). So a scan of the children that begins after the parent was recorded sees exactly its children, however
long it takes, and the number is set only if the tally is still absent and the mark what it was. A parent that bears a
mark may have been written to by a transaction that has only just committed: the scan waits ``settle`` seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pynacount.contributions import Tally
from pynacount.plan import Update
from pynacount.protocols.seeding import seed_recorded, write_counted
from pynacount.steps import Protocol, Wait
from pynacount.tallies.aggregating import Sum, Sums
from pynacount.tallies.children import scan_children
from pynacount.tallies.passes import TablePass
from pynacount.tallies.progress import State
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import TableScan
from pynacount.tallies.seeder import Run, Together, tried
from pynacount.tallies.statements import MAX_STATEMENTS


def identity(one: TablePass) -> dict[str, Any]:
    """What a state file must agree on, for counters whose children lie elsewhere."""
    if not one.elsewhere:
        return {}
    return {"children": sorted(relation.label for counter in one.elsewhere for relation in counter.places())}


class Elsewhere:
    """The parents of one pass that are recorded, counted and set."""

    def __init__(self, one: TablePass, scan: TableScan[Seeded], state: State, sums: Sums, run: Run) -> None:
        self._counters, self._state, self._sums, self._run = one.elsewhere, state, sums, run
        self._tallies: Mapping[str, Tally] = {counter.tally.target: counter.tally for counter in one.elsewhere}
        self._driver = scan.driver
        self._going_on = threading.Event()  # the scan's own is set by now; this is the caller's thread
        self._together = Together(run, scan.driver, self._going_on)

    def seed(self) -> Iterator[Seeded]:
        """Count the children of the recorded parents, and seed them; afterwards none is recorded."""
        many = self._sums.many()
        if many:
            self._sums.begin_counting()
            self._settle()
            yield from scan_children(self._counters, many, self._sums, self._state, self._run)
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
        plain = [i for i, one in enumerate(some) if outcomes[i] is None and self._is_plain(one)]
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
        if why := one.why_unknown(label):
            return Seeded(label, one.key, "failed", message=why)
        if self._run.dry_run:
            self._run.track.note_write(1)
            return Seeded(label, one.key, "planned", one.total)
        return None

    def _set_alone(self, one: Sum) -> Seeded:
        tally = self._tallies[one.counter]
        protocol = seed_recorded(tally, one.key, one.total, one.item or {})
        outcome = tried(tally, one.key, self._driver(lambda: f"{tally.label} of {one.key}"), protocol)
        if outcome.status == "seeded":
            self._run.note(1, self._going_on)
        return outcome

    def _update(self, one: Sum) -> Update:
        tally = self._tallies[one.counter]
        return write_counted(tally, one.key, one.total)

    def _is_plain(self, one: Sum) -> bool:
        """Whether it never had a tally, so that nothing but the tally is to be set."""
        tally, item = self._tallies[one.counter], one.item or {}
        return tally.shards == 1 and tally.pending_name not in item and tally.was_name not in item


def _wait(seconds: float) -> Protocol[None]:
    yield Wait(seconds)
