"""Auditing parents whose children only a scan finds: one scan sums up those of all, another those of the suspects.

A tally is read long before or after its children, so a difference shows nothing yet. The parents that differ are read
again, their children are scanned again, and they are read once more. A drift is told where both scans showed the same
and the tally was the same at all three reads; else children came and went, and it could not be told.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.protocols.spreading import read_whole
from pynacount.protocols.standings import Standing, is_the_same, read_standing
from pynacount.tallies.aggregating import Recorded, Sum, Sums
from pynacount.tallies.children import scan_children
from pynacount.tallies.passes import TablePass
from pynacount.tallies.progress import State
from pynacount.tallies.results import Audited
from pynacount.tallies.scanning import Reading
from pynacount.tallies.suspects import PASSING, audited, is_right


class ElsewhereAuditor:
    """Audits the parents that one pass recorded in ``sums``; ``driver`` reads their table."""

    def __init__(self, one: TablePass, driver: Driver, state: State, sums: Sums, reading: Reading) -> None:
        self._counters, self._state, self._sums, self._reading = one.elsewhere, state, sums, reading
        self._tallies: Mapping[str, Tally] = {counter.tally.target: counter.tally for counter in one.elsewhere}
        self._driver = driver

    def results(self) -> Iterator[Audited]:
        """Sum up the children, and tell of those that are plainly right or cannot be told; then of the suspects."""
        yield from scan_children(self._counters, self._tallies, self._sums, self._state, self._reading)
        yield from self._strays()
        yield from self._plain()
        suspects = self._sums.many()
        if suspects:
            time.sleep(max(self._tallies[counter].settle for counter in suspects))
            yield from self._again(suspects)

    def _strays(self) -> Iterator[Audited]:
        for counter, key, why in self._sums.strays():
            label = self._tallies[counter].label
            message = (
                f"{why}. It does not tell its parent, which may be any, so the audit cannot be sure of any count of "
                f"{label}. Mend or delete it, and audit again"
            )
            yield Audited(label, key, "unknown", None, None, message, wrong=True)

    def _plain(self) -> Iterator[Audited]:
        """Tell of all parents but the suspects, which alone are kept."""
        for some in self._sums.batches():
            done: list[Sum] = []
            told: list[Audited] = []
            for one in some:
                tally, found = self._tallies[one.counter], self._standing(one)
                if found.problem or is_right(found):
                    done.append(one)
                    told += _told(tally, one, found)
            self._sums.drop(done)
            yield from told

    def _again(self, suspects: Mapping[str, int]) -> Iterator[Audited]:
        state = State(None, {})
        try:
            sums = Sums(state)
            for some in self._sums.batches():
                sums.record([self._read(one) for one in some])
            yield from scan_children(self._counters, suspects, sums, state, self._reading)
            for firsts, seconds in zip(self._sums.batches(), sums.batches(), strict=True):
                for first, second in zip(firsts, seconds, strict=True):
                    third = replace(second, item=self._read(second).item)
                    found = compared(self._standing(first), self._standing(second), self._standing(third))
                    if found is not None:
                        yield from _told(self._tallies[first.counter], first, found)
        finally:
            state.close()

    def _read(self, one: Sum) -> Recorded:
        self._reading.track.note_looks(1)
        tally = self._tallies[one.counter]
        return Recorded.of(tally, one.key, self._driver.run(read_whole(tally, one.key)))

    def _standing(self, one: Sum) -> Standing:
        tally = self._tallies[one.counter]
        found, why = read_standing(tally, one.item), one.why_unknown(tally.label)
        return replace(found, problem=why, failed=True) if why else replace(found, count=one.total)


def compared(first: Standing, before: Standing, after: Standing) -> Standing | None:
    """What two scans show of a parent; None where it was deleted during the second.

    ``first`` is a tally and the first scan's count; the others the tallies before and after the second, and its count.
    """
    if after.state == "missing" and before.state != "missing":
        return None
    for one in (after, before):
        if is_right(one):
            return one
    if after.state == before.state and after.state in ("missing", "unreadable", *PASSING):
        return after
    first = replace(first, stood_still=_tally(first) == _tally(before))
    found = replace(after, stood_still=_tally(before) == _tally(after))
    return found if is_the_same(first, found) else replace(found, moving=True)


def _tally(found: Standing) -> tuple[object, ...]:
    return found.state, found.tally


def _told(tally: Tally, one: Sum, found: Standing) -> Iterator[Audited]:
    told = audited(tally, one.key, found)
    if told is not None:
        yield replace(told, message=_message(tally, told))


def _message(tally: Tally, told: Audited) -> str:
    """What there is to say where children lie elsewhere, and no repair is the way out."""
    match told.state:
        case "moving":
            return "its children came and went while their table was scanned: audit it again when it is quieter"
        case "repairing" if not tally.is_streamed:
            return f"a repair took the tally away and has not finished: run pynacount migrate {tally.target}"
        case "unreadable" if not tally.is_streamed:
            return (
                f"{tally.attr_name} is stored as something else than a number: remove it, and run pynacount migrate "
                f"{tally.target}"
            )
    return told.message
