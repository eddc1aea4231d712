"""What happened in the demonstration, beside what should have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it went over the wire, condensed to a line for each item; ``came`` is what came of it."""

    operation: str
    token: str | None
    lines: tuple[str, ...]
    came: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the library, what it sent, and what it answered: a value, or the name of an error."""

    code: str
    requests: tuple[Request, ...]
    answer: object
    expected: object
    wcu: float
    expected_wcu: float
    as_planned: bool = True
    """Whether what was sent is what the plan said, at each try."""
    message: str = ""
    """The error's text."""

    def wrong(self) -> Iterator[str]:
        """What is not as it should be."""
        if self.answer != self.expected:
            yield f"{self.code} answered {self.answer}, not {self.expected}{self.message and f' ({self.message})'}"
        if self.wcu != self.expected_wcu:
            yield f"{self.code} costs {self.wcu:g} WCU, not {self.expected_wcu:g}"
        if not self.as_planned:
            yield f"{self.code} sent something else than its plan"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that should hold, and whether it does."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that happens to a post. A tally is None where there is no post."""

    title: str
    why: str
    calls: tuple[Call, ...]
    before: int | None
    after: int | None
    expected_after: int | None
    facts: tuple[Fact, ...] = ()

    @property
    def requests(self) -> tuple[Request, ...]:
        """All that was sent, in order."""
        return tuple(request for call in self.calls for request in call.requests)

    @property
    def wcu(self) -> float:
        """What it cost, by the plans."""
        return sum(call.wcu for call in self.calls)

    def wrong(self) -> Iterator[str]:
        """What is not as it should be."""
        for call in self.calls:
            for text in call.wrong():
                yield f"{self.title}: {text}"
        if self.after != self.expected_after:
            yield f"{self.title}: the tally is {shown(self.after)}, not {shown(self.expected_after)}"
        for fact in self.facts:
            if not fact.holds:
                yield f"{self.title}: it is not so that {fact.text}"


@dataclass(frozen=True, slots=True)
class SeededEvent:
    """One event: its tally before and after it was seeded, and the total that the source gives."""

    event: str
    before: int | None
    tally: int | None
    published: int

    @property
    def right(self) -> bool:
        """Whether it had no tally, and has the right one."""
        return self.before is None and self.tally == self.published


@dataclass(frozen=True, slots=True)
class Seeding:
    """The legacy table, counted for the first time."""

    women: int
    attendances: int
    call: Call
    events: tuple[SeededEvent, ...]

    def wrong(self) -> Iterator[str]:
        """What is not as it should be."""
        yield from self.call.wrong()
        for event in self.events:
            if event.before is not None:
                yield f"{event.event} had the tally {event.before} before it was seeded"
            if event.tally != event.published:
                yield f"{event.event} has the tally {shown(event.tally)}; the published total is {event.published}"


@dataclass(frozen=True, slots=True)
class Standing:
    """One parent at the end: its tally, and its children counted without the library."""

    parent: str
    tally: int | None
    count: int
    deleted: bool = False

    @property
    def drift(self) -> int:
        """How far the tally is off."""
        return (self.tally or 0) - self.count

    @property
    def right(self) -> bool:
        """Whether the tally is the count, and a parent that was deleted has neither."""
        return self.tally == (None if self.deleted else self.count) and not self.drift


@dataclass(frozen=True, slots=True)
class Verdict:
    """Every parent at the end."""

    standings: tuple[Standing, ...]

    def wrong(self) -> Iterator[str]:
        """What is not as it should be."""
        for standing in self.standings:
            if not standing.right:
                though = "; it was deleted" if standing.deleted else ""
                yield f"{standing.parent}: the tally is {shown(standing.tally)}, the count {standing.count}{though}"


Part: TypeAlias = Seeding | Scene | Verdict


def shown(tally: int | None) -> str:
    """A tally in words."""
    return "none" if tally is None else str(tally)
