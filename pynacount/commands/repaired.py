"""What ``pynacount repair`` tells: of each parent, and of the whole."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from pynacount.amounts import Amount
from pynacount.commands.eta import slowed
from pynacount.commands.records import key_record
from pynacount.commands.words import several, tallies
from pynacount.inspecting.texts import printable
from pynacount.tallies import Audited, Repaired, Tracking
from pynacount.tallies.results import RepairStatus

LOGGED = frozenset({"repaired", "unchanged", "swept"})
"""What was written; the rest left the table as it was."""
_STATUSES: tuple[RepairStatus, ...] = get_args(RepairStatus)


@dataclass(slots=True)
class Report:
    """What happened so far. ``fenced`` parents had their writers wait."""

    dry_run: bool
    tracking: Tracking = field(default_factory=Tracking)
    statuses: Counter[str] = field(default_factory=Counter)
    seen: int = 0
    fenced: int = 0
    longest: float = 0.0
    waited: float = 0.0
    began: float = field(default_factory=time.monotonic)
    stopping: threading.Event = field(default_factory=threading.Event)
    stopped: bool = False

    def watched(self, rows: Iterable[Audited]) -> Iterator[Audited]:
        """The rows, until it is to stop."""
        for row in rows:
            if self.stopping.is_set():
                return
            self.seen += 1
            yield row

    def take(self, done: Repaired) -> None:
        """One more parent."""
        self.statuses[done.status] += 1
        if done.by == "fence" and done.status != "planned":
            self.fenced += 1
            self.longest = max(self.longest, done.waited)
            self.waited += done.waited

    def summary(self) -> dict[str, Any]:
        """The whole as data."""
        return {
            **{status: self.statuses[status] for status in _STATUSES},
            "looked_at": self.seen,
            "fenced": self.fenced,
            "waited_max": round(self.longest, 3),
            "waited_mean": round(self.waited / self.fenced, 3) if self.fenced else 0.0,
            "seconds": round(time.monotonic() - self.began, 3),
            "retries": dict(self.tracking.retries),
            "stopped": self.stopped,
        }

    def lines(self) -> list[str]:
        """The whole for a person."""
        found, count = self.summary(), self.statuses
        if self.dry_run:
            lines = [f"{count['planned']:,} of {tallies(self.seen)} would be repaired"]
        else:
            right = f"; {count['unchanged']:,} were right already" if count["unchanged"] else ""
            lines = [f"{count['repaired']:,} of {tallies(self.seen)} repaired in {found['seconds']:.1f} s{right}"]
        if count["swept"] or count["gone"]:
            lines.append(
                f"{several(count['swept'], 'parent')} deleted whose cascade had begun, {count['gone']:,} were gone"
            )
        if count["left"]:
            lines.append(f"{count['left']:,} left as they are")
        if count["failed"]:
            lines.append(f"{count['failed']:,} could not be repaired")
        if self.fenced:
            lines.append(
                f"writers of a parent waited {self.longest:.1f} s at most, {found['waited_mean']:.1f} s on average"
            )
        if self.tracking.retries:
            met = ", ".join(f"{met} ({n})" for met, n in sorted(self.tracking.retries.items()))
            lines.append(f"tried again after {met}")
        return lines

    def line(self) -> str:
        """Where it stands."""
        done, failed = self.statuses["repaired"] + self.statuses["unchanged"], self.statuses["failed"]
        return f"{tallies(self.seen)} looked at, {done:,} repaired, {failed:,} failed{slowed(self.tracking.retries)}"


def told(done: Repaired) -> str:
    """One parent, in a line."""
    waited = f", writers waited {done.waited:.1f} s at most" if done.by == "fence" else ""
    change = f"{_shown(done.was)} -> {_shown(done.now)} by {done.by}"
    said = {
        "repaired": f"{change}{waited}",
        "unchanged": f"{_shown(done.now)} was right, counted anew by {done.by}{waited}",
        "planned": f"would be repaired, {change}" if done.by != "sweep" else "would be deleted with its children",
        "swept": "deleted with its children, as a cascade had begun to",
        "gone": f"gone: {done.message}",
        "left": f"left: {done.message}",
        "failed": f"failed: {done.message}",
    }[done.status]
    return printable(f"{done.counter} {done.key}: {said}")


def _shown(number: Amount | None) -> str:
    return "no number" if number is None else f"{number}"


def record(done: Repaired) -> dict[str, Any]:
    """One parent, as an object of JSON."""
    return {
        "kind": "parent",
        "counter": done.counter,
        "key": key_record(done.key),
        "status": done.status,
        "was": done.was,
        "now": done.now,
        "by": done.by,
        "when": done.when.isoformat(timespec="milliseconds"),
        "waited": round(done.waited, 3),
        **({"message": done.message} if done.message else {}),
    }


def log_record(done: Repaired) -> dict[str, Any]:
    """One repair, as the log keeps it."""
    return {
        "model": done.counter.partition(".")[0],
        "counter": done.counter,
        "key": key_record(done.key),
        "status": done.status,
        "wrong": done.was,
        "right": done.now,
        "when": done.when.isoformat(timespec="milliseconds"),
        "means": done.by,
    }
