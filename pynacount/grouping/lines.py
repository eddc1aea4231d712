"""The calls under way for one item: who waits, who leads, and who is in the group that is being sent.

Nothing here waits or sends. Each method is one step; no two of them run at once (see :mod:`.gathering`), and between
any two of them anything may happen. The tests run them in every order.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

SOON = 0.025
"""Seconds: who has less left when nothing could be written is not put into another group."""


@dataclass(frozen=True, slots=True)
class Told:
    """A call's answer."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """What a call is to raise. ``again``: nothing of it was written, so another group may take it while it has time."""

    error: Exception
    again: bool = False


Answer: TypeAlias = Told | Failed


class Place(enum.Enum):
    """Where a call stands."""

    WAITING = enum.auto()
    TAKEN = enum.auto()
    """Into the group that is being sent."""
    TOLD = enum.auto()
    LOST = enum.auto()
    """Its leader went, with an exception, while the group was being sent: nobody knows whether it was written."""
    GONE = enum.auto()
    """Its caller did not stay for the answer."""


def _held() -> Lock:
    lock = Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class Ticket:
    """One call. Times are in seconds, of a clock that only goes forward."""

    call: Any
    arrived: float
    until: float
    """The caller's deadline."""
    window: float
    """How long it waits for others if it leads."""
    caller: Hashable
    """The thread."""
    bell: Lock = field(default_factory=_held)
    """Its thread waits to acquire it: a tenth of the time that an ``Event`` takes."""
    place: Place = Place.WAITING
    answer: Answer | None = None

    def wake(self) -> None:
        """Let its thread go on, or not wait when it next would."""
        if self.bell.locked():
            self.bell.release()


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until this time, or until the ticket is woken."""

    until: float


@dataclass(frozen=True, slots=True)
class Commit:
    """Send this group, and tell."""

    group: Sequence[Ticket]


@dataclass(frozen=True, slots=True)
class End:
    """The call is over for its caller: at this place, ``WAITING`` and ``TAKEN`` being those it had at its deadline."""

    place: Place


Step: TypeAlias = Pause | Commit | End


class Line:
    """The calls for one item, in order of arrival; at most ``most`` are sent together, and one group at a time.

    Nobody is waited for once all who were in the last group are back within a window: a lone thread, which always is,
    does not wait at all.
    """

    __slots__ = ("away", "leader", "most", "taken", "told", "waiting")

    def __init__(self, most: int) -> None:
        self.most = most
        self.told = float("-inf")
        """When the last group was."""
        self.away: set[Hashable] = set()
        """Whoever was in it and has not come again."""
        self.waiting: list[Ticket] = []
        self.taken: list[Ticket] = []
        self.leader: Ticket | None = None

    @property
    def empty(self) -> bool:
        """Whether nobody is there any more."""
        return self.leader is None and not self.waiting

    def arrive(self, mine: Ticket) -> None:
        """A call comes; where no other leads, it does."""
        leader = self.leader
        if leader is not None and mine.arrived > leader.until + (leader.until - leader.arrived):
            self._lose(self.taken)  # it was killed without a chance to say so: nobody may wait for it forever
            leader = None
        self.waiting.append(mine)
        self.away.discard(mine.caller)
        if leader is None:
            self.leader = self.waiting[0]
            if self.leader is not mine:
                self.leader.wake()
        elif self._is_complete(leader, mine.arrived):
            leader.wake()

    def step(self, mine: Ticket, now: float) -> Step:
        """What this call's thread is to do next."""
        if mine.place is not Place.WAITING and mine.place is not Place.TAKEN:
            return End(mine.place)
        if now >= mine.until:
            return End(mine.place)
        if self.leader is not mine:
            return Pause(mine.until)
        # However long the window: half of its time is left to send in.
        gathers = min(mine.arrived + mine.window, (mine.arrived + mine.until) / 2)
        if now < gathers and not self._is_complete(mine, now):
            return Pause(gathers)
        self.taken, self.waiting = self.waiting[: self.most], self.waiting[self.most :]
        for ticket in self.taken:
            ticket.place = Place.TAKEN
        return Commit(self.taken)

    def _is_complete(self, leader: Ticket, now: float) -> bool:
        """Whether the group need not wait for others: it is full, or all of the last one came back within a window."""
        return len(self.waiting) >= self.most or (not self.away and now <= self.told + leader.window)

    def tell(self, mine: Ticket, group: Sequence[Ticket], answers: Sequence[Answer], now: float) -> None:
        """The leader has the answers of its group, one for each of it, in order."""
        back: list[Ticket] = []
        for ticket, answer in zip(group, answers, strict=True):
            if ticket.place is not Place.TAKEN:
                continue  # its deadline came first
            again = isinstance(answer, Failed) and answer.again and ticket is not mine
            if again and ticket.until - now > SOON:
                back.append(ticket)
                continue
            ticket.answer, ticket.place = answer, Place.TOLD
            ticket.wake()
        self.waiting[:0] = back
        for ticket in back:
            ticket.place = Place.WAITING
        if self.leader is mine:
            self.taken = []
            self.told = now
            self.away = {ticket.caller for ticket in group if ticket.place is Place.TOLD}

    def leave(self, mine: Ticket) -> None:
        """A call's thread goes, with its answer or without: whoever waited for it is told, and another leads."""
        if mine in self.waiting:
            self.waiting.remove(mine)
        if mine.place is not Place.TOLD:
            mine.place = Place.GONE
        if self.leader is mine:
            self._lose(self.taken)
            self.leader = self.waiting[0] if self.waiting else None
            if self.leader is not None:
                self.leader.wake()

    def _lose(self, group: Sequence[Ticket]) -> None:
        for ticket in group:
            if ticket.place is Place.TAKEN or (ticket.place is Place.WAITING and ticket not in self.waiting):
                ticket.place = Place.LOST
                ticket.wake()
        self.taken = []
