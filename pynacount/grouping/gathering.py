"""A caller's way through the line of its item, and the threads that go it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pynacount.errors import CounterContention, OutcomeUnknown
from pynacount.grouping.lines import Answer, Commit, End, Failed, Line, Pause, Place, Ticket

Send: TypeAlias = "Callable[[Sequence[Ticket]], Sequence[Answer]]"
"""Sends a group, the leader's ticket being the first, and gives the answer of each, in order."""


REST = 1.0
"""Seconds for which it is remembered who was in an item's last group: the longest window."""


class Lines:
    """The lines of one process, by what their items are known by.

    A line is there while somebody is in it, and rests for a moment after that.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all lines. Runs by itself in the child of a fork: those who stand in them are the parent's threads."""
        self.lock = threading.Lock()
        self.lines: dict[Hashable, Line] = {}
        self.resting: dict[Hashable, Line] = {}
        """Those that nobody is in, in the order in which the last one left."""

    def _line(self, key: Hashable, most: int, now: float) -> Line:
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = self.resting.pop(key) if key in self.resting else Line(most)
        while self.resting:
            oldest = next(iter(self.resting))
            if now <= self.resting[oldest].told + REST:
                break
            del self.resting[oldest]
        return line

    def turns(self, key: Hashable, most: int, mine: Ticket) -> Generator[Pause | Commit, Any, Place]:
        """One caller's way: what its thread is to do, until its call is over for it.

        It is sent the time after a pause, and ``(answers, time)`` after a commit. However it ends, closed or by an
        exception, nobody is left waiting for it.
        """
        try:
            with self.lock:
                line = self._line(key, most, mine.arrived)
                line.arrive(mine)
                step = line.step(mine, mine.arrived)
            while not isinstance(step, End):
                if isinstance(step, Pause):
                    now = yield step
                    if mine.place is Place.TOLD:  # nothing of it is left in the line, so none need stop for it
                        return Place.TOLD
                    with self.lock:
                        step = line.step(mine, now)
                else:
                    answers, now = yield step
                    with self.lock:
                        line.tell(mine, step.group, answers, now)
                        step = line.step(mine, now)
            return step.place
        finally:
            here = self.lines.get(key)
            if here is not None and (mine.place is not Place.TOLD or here.leader is mine):
                with self.lock:
                    here.leave(mine)
                    if here.empty and self.lines.get(key) is here:
                        self.resting[key] = self.lines.pop(key)


@dataclass(slots=True)
class Terms:
    """On what terms calls share. Times are in seconds.

    ``window`` is how long the first of a group waits for others; ``deadline``: how long a call may take as a whole;
    ``most``: how many there are in a group. ``about`` opens an error message, ``again`` says in it what calling again
    would do.
    """

    window: float
    deadline: float
    most: int
    about: str
    again: str


def call_in_group(lines: Lines, key: Hashable, call: Any, terms: Terms, send: Send) -> Any:
    """Have a call sent in a group with those that arrive for the same key meanwhile, and give its own answer.

    Raises what the call's answer is, :class:`CounterContention` where its deadline passed before it was sent, and
    :class:`OutcomeUnknown` where it passed meanwhile, or the thread that sent it was interrupted.
    """
    now = time.monotonic()
    mine = Ticket(call, now, now + terms.deadline, terms.window, threading.get_ident())
    turns = lines.turns(key, terms.most, mine)
    try:
        step = next(turns)
        while True:
            if isinstance(step, Pause):
                mine.bell.acquire(timeout=max(0.0, step.until - time.monotonic()))
                step = turns.send(time.monotonic())
            else:
                step = turns.send((send(step.group), time.monotonic()))
    except StopIteration as end:
        place: Place = end.value
    finally:
        turns.close()
    answer = mine.answer
    if place is Place.TOLD and answer is not None:
        if isinstance(answer, Failed):
            raise answer.error
        return answer.value
    if place is Place.WAITING:
        raise CounterContention(
            f"{terms.about}: nothing was written within {terms.deadline:g} s (its group was not sent yet). Try again "
            f"later, or raise Meta.counted_deadline"
        )
    why = "was interrupted" if place is Place.LOST else f"was not done within {terms.deadline:g} s"
    raise OutcomeUnknown(f"{terms.about}: the thread that sent it, in a group with other calls, {why}. {terms.again}")


LINES = Lines()
"""The lines of this process."""

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=LINES.forget)
