"""What ``pynacount audit`` tells: of each parent, and of the whole."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, get_args

from pynacount.amounts import Amount
from pynacount.commands.called import program
from pynacount.commands.eta import left, slowed
from pynacount.commands.records import key_record
from pynacount.commands.words import several, tallies
from pynacount.fields import CounterField
from pynacount.inspecting.texts import printable
from pynacount.tallies import Audited, Tracking
from pynacount.tallies.prices import Prices
from pynacount.tallies.repairing import REPAIRED
from pynacount.tallies.results import AuditState
from pynacount.targets import tables_of
from pynacount.ways import Way, is_repaired, way_to_mend, way_to_seed

STOPPED = (
    "stopped before its end: this is no proof that the rest is right, and what seemed wrong may not have been "
    "looked at again"
)
"""What is said of an audit that was interrupted."""
_STATES: tuple[AuditState, ...] = get_args(AuditState)
_NUMBER = 10
"""Columns of a number."""


@dataclass(slots=True)
class Report:
    """What was found so far."""

    target: str
    counters: Sequence[CounterField]
    expected: int | None = None
    tracking: Tracking = field(default_factory=Tracking)
    states: Counter[AuditState] = field(default_factory=Counter)
    by_counter: Counter[tuple[str, AuditState]] = field(default_factory=Counter)
    wrong: int = 0
    shown: int = 0
    stopped: bool = False
    began: float = field(default_factory=time.monotonic)

    def take(self, found: Audited) -> None:
        """One more tally."""
        self.states[found.state] += 1
        self.by_counter[found.counter, found.state] += 1
        self.wrong += found.wrong

    def summary(self) -> dict[str, Any]:
        """The whole as data."""
        track = self.tracking
        return {
            "tallies": self.states.total(),
            **{state: self.states[state] for state in _STATES},
            "wrong": self.wrong,
            "items": track.items,
            "pages": track.pages,
            "read_units": track.read_units,
            "dollars": round(Prices().dollars(track.read_units, 0), 6),
            "looks": track.looks,
            "seconds": round(time.monotonic() - self.began, 3),
            "retries": dict(track.retries),
            "stopped": self.stopped,
            "ways_out": self.ways_out(),
        }

    def lines(self) -> list[str]:
        """The whole for a person."""
        total, found = self.states.total(), self.summary()
        parts = ", ".join(f"{self.states[state]:,} {state}" for state in _STATES if self.states[state])
        lines = [f"{tallies(total)} audited" + (f": {parts}" if parts else "")]
        if self.stopped:
            lines.append(STOPPED)
        if self.tracking.pages:
            lines.append(
                f"{several(found['items'], 'item')} read in {found['seconds']:.1f} s; "
                f"{found['read_units']:,.0f} read units, about ${found['dollars']:.2f} on demand; "
                f"{several(found['looks'], 'closer look')}"
            )
        if self.tracking.retries:
            met = ", ".join(f"{met} ({n})" for met, n in sorted(self.tracking.retries.items()))
            lines.append(f"tried again after {met}")
        return lines + self.ways_out()

    def ways_out(self) -> list[str]:
        """What there is to do about what was found, a line for each command."""
        apart = [counter for counter in self.counters if not is_repaired(counter)]
        others = [counter for counter in self.counters if is_repaired(counter)]
        mended = [counter for counter in others if self._has(counter, REPAIRED)]
        swept = [counter for counter in others if self._has(counter, {"closed"})]
        lines = [f"mend them: {program()} repair {target}" for target in self._targets(mended, apart)]
        lines += [
            _told("mend them", way_to_mend(counter, program()))
            for counter in apart
            if self._has(counter, REPAIRED if counter.is_streamed else {"drifted"})
        ]
        if not lines:
            lines = [
                f"finish what was to be deleted: {program()} repair {target} --sweep"
                for target in self._targets(swept, apart)
            ]
        if not lines:
            unseeded = [counter for counter in self.counters if self._has(counter, {"unseeded"})]
            ways = [way_to_seed(counter, program()) for counter in unseeded]
            if ways and all(way.command for way in ways):
                ways = [Way(f"{program()} migrate {self.target}")]
            lines = [_told("seed them", way) for way in ways]
        return lines

    def _has(self, counter: CounterField, states: Collection[str]) -> bool:
        return any(label == counter.label and state in states for label, state in self.by_counter)

    def _targets(self, counters: Sequence[CounterField], apart: Sequence[CounterField]) -> list[str]:
        """How a repair is called for these; one by one, where the target has others that no repair takes."""
        if not apart:
            return [self.target] if counters else []
        return [counter.tally.target for counter in counters]

    def line(self) -> str:
        """Where it stands."""
        track, seconds = self.tracking, max(time.monotonic() - self.began, 0.001)
        return (
            f"{self.states.total():,} tallies, {self.wrong:,} wrong, {track.items:,} items "
            f"({track.items / seconds:,.0f} a second), {track.read_units:,.0f} read units, "
            f"segments {track.segments_done}/{track.segments}"
            f"{left(track.items, self.expected, seconds)}{slowed(track.retries)}"
        )

    def facts(self, extent: str) -> dict[str, str]:
        """What stands in the head of the page."""
        found = self.summary()
        facts = {
            "Counters": "\n".join(counter.label for counter in self.counters),
            "Table": tables_of(self.counters),
            "Extent": extent + (" (stopped before its end)" if self.stopped else ""),
            "When": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "Took": f"{found['seconds']:.1f} s",
        }
        if self.tracking.pages:
            facts["Read"] = f"{found['items']:,} items\n{found['read_units']:,.0f} read units"
        if found["ways_out"]:
            facts["To do"] = "\n".join(found["ways_out"])
        return facts


def row(found: Audited, *, first: bool) -> list[str]:
    """One tally, in a line under the head of the table, and what there is to say of it."""
    names = "".join(f"{name:>{_NUMBER}}" for name in ("tally", "count", "drift"))
    lines = [f"{'state':<10}{names}  counter and key"] if first else []
    drift = f"{found.drift:+,}" if found.drift else _shown(found.drift)
    numbers = "".join(f" {text:>{_NUMBER - 1}}" for text in (_shown(found.tally), _shown(found.count), drift))
    lines.append(printable(f"{found.state:<10}{numbers}  {found.counter} {found.key}"))
    if found.message:
        lines.append(printable(f"          {found.message}"))
    return lines


def _told(what_for: str, way: Way) -> str:
    return f"{what_for}: {way.said}" if way.command else way.said


def record(found: Audited) -> dict[str, Any]:
    """One tally, as an object of JSON."""
    return {
        "kind": "parent",
        "counter": found.counter,
        "key": key_record(found.key),
        "state": found.state,
        "tally": found.tally,
        "count": found.count,
        "drift": found.drift,
        "wrong": found.wrong,
        **({"message": found.message} if found.message else {}),
    }


def _shown(number: Amount | None) -> str:
    return "-" if number is None else f"{number:,}"
