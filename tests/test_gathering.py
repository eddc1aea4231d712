"""How calls gather into groups, in every order of every step: nobody waits for nobody, and nobody is told a lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pynacount.errors import CounterContention, OutcomeUnknown
from pynacount.grouping.gathering import Lines, Terms, call_in_group
from pynacount.grouping.lines import Commit, Failed, Line, Pause, Place, Ticket, Told

WINDOW, DEADLINE, MOST = 2.0, 6.0, 2
LATE = Failed(CounterContention("nothing was written"), again=True)
Event = tuple[str, int]


@dataclass
class Caller:
    """One thread, as far as it got."""

    ticket: Ticket | None = None
    steps: Any = None
    step: Any = None
    place: Place | None = None
    killed: bool = False

    @property
    def is_there(self) -> bool:
        return self.step is not None


@dataclass
class World:
    """Callers, the line of their item, and a clock; what happens next is chosen from outside."""

    callers: list[Caller]
    kills: int = 1
    now: float = 0.0
    lines: Lines = field(default_factory=Lines)
    written: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        new = [n for n, caller in enumerate(self.callers) if caller.ticket is None]
        if new:
            yield "start", new[0]
        for n, caller in enumerate(self.callers):
            if isinstance(caller.step, Pause):
                if not caller.ticket.bell.locked() or self.now >= caller.step.until:
                    yield "wake", n
            elif isinstance(caller.step, Commit):
                yield "write", n
                yield "give up", n
            if caller.is_there and self.kills:
                yield "kill", n
                if isinstance(caller.step, Commit):
                    yield "write and kill", n
        following = self.next_time()
        sending = [c.ticket.until for c in self.callers if isinstance(c.step, Commit)]
        # Who sends for much longer than its deadline is taken to be lost: a test of its own, below.
        if following is not None and all(following <= until + DEADLINE for until in sending):
            yield "tick", -1

    def next_time(self) -> float | None:
        times = [c.step.until for c in self.callers if isinstance(c.step, Pause) and c.step.until > self.now]
        return min(times, default=None)

    def happen(self, event: Event) -> None:
        what, n = event
        if what == "tick":
            self.now = self.next_time()  # type: ignore[assignment]
            return
        caller = self.callers[n]
        if what == "start":
            caller.ticket = Ticket(n, self.now, self.now + DEADLINE, self.now + WINDOW)
            caller.steps = self.lines.turns("post", MOST, caller.ticket)
            self.go_on(caller, None)
        elif what == "wake":
            caller.ticket.bell.acquire(blocking=False)
            self.go_on(caller, self.now)
        elif "kill" in what:
            if isinstance(caller.step, Commit):
                group = [ticket.call for ticket in caller.step.group]
                self.unanswered += group
                self.written += group if "write" in what else []
            self.kills -= 1
            caller.step, caller.killed = None, True
            caller.steps.close()
        else:
            group = [ticket.call for ticket in caller.step.group]
            if what == "write":
                self.written += group
            answer = Told() if what == "write" else LATE
            self.go_on(caller, ([answer] * len(group), self.now))

    def go_on(self, caller: Caller, sent: Any) -> None:
        try:
            caller.step = caller.steps.send(sent)
        except StopIteration as end:
            caller.step, caller.place = None, end.value
            self.check_answer(caller)
            return
        if isinstance(caller.step, Commit):
            group = [ticket.call for ticket in caller.step.group]
            assert 1 <= len(group) <= MOST and group == sorted(group), "sent in order of arrival"
            assert caller.ticket.call == group[0], "a leader is the first of its group"
            assert not set(group) & set(self.written), "sent once"
            self.sent += group

    def check_answer(self, caller: Caller) -> None:
        number, ticket = caller.ticket.call, caller.ticket
        if caller.place is Place.TOLD:
            assert (number in self.written) == isinstance(ticket.answer, Told)
        elif caller.place is Place.WAITING:
            assert self.now >= ticket.until and number not in self.written
        elif caller.place is Place.TAKEN:
            assert self.now >= ticket.until and number in self.sent
        else:
            assert caller.place is Place.LOST and number in self.unanswered

    def check(self) -> None:
        sending = [caller for caller in self.callers if isinstance(caller.step, Commit)]
        assert len(sending) <= 1, "one group at a time"
        in_flight = {ticket.call for caller in sending for ticket in caller.step.group}
        for caller in self.callers:
            told_nothing = caller.place is Place.WAITING
            assert not (told_nothing and caller.ticket.call in in_flight), "told that nothing was written"
        line = self.lines.lines.get("post")
        there = [c for c in self.callers if c.is_there and c.ticket.place in (Place.WAITING, Place.TAKEN)]
        assert bool(there) == (line is not None), "a line is there while somebody is in it"
        if line is not None:
            assert any(line.leader is caller.ticket for caller in there), "nobody waits for nobody"
            leader = next(caller for caller in there if line.leader is caller.ticket)
            idle = isinstance(leader.step, Pause) and leader.ticket.bell.locked()
            assert not idle or leader.step.until <= leader.ticket.until, "a leader does not sleep on"
            assert not (idle and len(line.waiting) >= MOST), "a full group is not waited for"

    def state(self) -> Any:
        line = self.lines.lines.get("post")
        return (
            self.now,
            self.kills,
            tuple(
                (
                    c.ticket and (c.ticket.arrived, c.ticket.place, c.ticket.bell.locked(), c.ticket.answer),
                    c.place,
                    type(c.step),
                    getattr(c.step, "until", None),
                )
                for c in self.callers
            ),
            tuple(self.written),
            tuple(self.unanswered),
            tuple(sorted(set(self.sent))),
            line and (tuple(t.call for t in line.waiting), tuple(t.call for t in line.taken), line.leader.call),
        )


def replay(path: tuple[Event, ...], callers: int, kills: int) -> World:
    world = World([Caller() for _ in range(callers)], kills)
    for event in path:
        world.happen(event)
    return world


def explore(callers: int, kills: int) -> tuple[int, int]:
    """Every state that can be reached; how many, and in how many of them all is over."""
    seen: set[Any] = set()
    ends = 0
    paths: list[tuple[Event, ...]] = [()]
    while paths:
        path = paths.pop()
        world = replay(path, callers, kills)
        world.check()
        state = world.state()
        if state in seen:
            continue
        seen.add(state)
        events = list(world.events())
        paths += [(*path, event) for event in events]
        if not events:
            ends += 1
            assert all(caller.place is not None or caller.killed for caller in world.callers), path
            assert not world.lines.lines
    return len(seen), ends


@pytest.mark.parametrize(("callers", "kills"), [(3, 2), (4, 0)])
def test_in_every_order_of_steps_each_caller_is_told_the_truth_in_time_and_nobody_waits_for_nobody(
    callers: int, kills: int
) -> None:
    states, ends = explore(callers, kills)
    assert states > 5000 and ends > 100


def broken_line(name: str, mend: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr(Line, name, mend)


def leave_without_a_word(self: Line, mine: Ticket) -> None:
    if mine in self.waiting:
        self.waiting.remove(mine)
    if self.leader is mine:
        self.leader = None


def tell_all_the_same(self: Line, mine: Ticket, group: Any, answers: Any, now: float) -> None:
    for ticket in group:
        ticket.answer, ticket.place = Told(), Place.TOLD
        ticket.wake()
    self.taken = []


def arrive_quietly(self: Line, mine: Ticket) -> None:
    self.waiting.append(mine)
    self.leader = self.leader or mine


def lead_at_once(self: Line, mine: Ticket) -> None:
    self.waiting.append(mine)
    self.leader = mine


BROKEN = [
    broken_line("leave", leave_without_a_word),
    broken_line("tell", tell_all_the_same),
    broken_line("arrive", arrive_quietly),
    broken_line("arrive", lead_at_once),
]


@pytest.mark.parametrize("broken", BROKEN, ids=["leave", "tell", "arrive", "lead"])
def test_a_line_that_is_broken_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        explore(3, 1)


def ticket(call: int, arrived: float, deadline: float = DEADLINE) -> Ticket:
    return Ticket(call, arrived, arrived + deadline, arrived + WINDOW)


def test_who_waits_while_a_group_is_sent_is_sent_next_without_another_window() -> None:
    line = Line(99)
    first, second, third = (ticket(number, 0) for number in range(3))
    line.arrive(first)
    group = line.step(first, WINDOW)
    assert isinstance(group, Commit)
    line.arrive(second)
    line.arrive(third)
    line.tell(first, group.group, [Told()], 5)
    line.leave(first)
    following = line.step(second, 5)
    assert isinstance(following, Commit) and following.group == [second, third]


def test_where_nothing_was_written_those_who_have_time_are_sent_again_by_another() -> None:
    line = Line(99)
    early, late, gone = ticket(1, 0), ticket(2, 1), ticket(3, 1)
    for one in (early, late, gone):
        line.arrive(one)
    group = line.step(early, WINDOW)
    assert isinstance(group, Commit)
    line.leave(gone)
    line.tell(early, group.group, [LATE] * 3, early.until)
    line.leave(early)
    assert (early.place, late.place, gone.place) == (Place.TOLD, Place.WAITING, Place.GONE)
    following = line.step(late, early.until)
    assert isinstance(following, Commit) and following.group == [late]


def test_a_leader_that_was_killed_without_a_word_is_not_waited_for_forever() -> None:
    line = Line(99)
    killed, waiting = ticket(1, 0), ticket(2, 1)
    line.arrive(killed)
    group = line.step(killed, WINDOW)
    assert isinstance(group, Commit)
    line.arrive(waiting)
    patient, later = ticket(3, 2 * DEADLINE), ticket(4, 2 * DEADLINE + 0.1)
    line.arrive(patient)
    assert line.leader is killed
    line.arrive(later)
    assert line.leader is waiting and killed.place is Place.LOST
    line.tell(killed, group.group, [Told()], 2 * DEADLINE + 0.2)  # it was only slow
    line.leave(killed)
    assert line.leader is waiting


# -- the thread that goes this way


def call(lines: Lines, send: Any, window: float = 0.001, deadline: float = 5) -> Any:
    return call_in_group(lines, "post", "call", Terms(window, deadline, 99, "Like.save", "Try again."), send)


def test_a_lone_call_is_sent_after_its_window_and_leaves_nothing() -> None:
    lines = Lines()
    began = time.monotonic()
    assert call(lines, lambda group: [Told(ticket.call) for ticket in group], window=0.02) == "call"
    assert time.monotonic() - began >= 0.02
    assert not lines.lines


def test_a_window_longer_than_the_deadline_leaves_time_to_send_in() -> None:
    assert call(Lines(), lambda group: [Told(True)], window=60, deadline=0.05) is True


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_interrupts_a_leader_goes_up_and_leaves_nothing(error: type[BaseException]) -> None:
    def send(group: Any) -> Any:
        raise error

    lines = Lines()
    with pytest.raises(error):
        call(lines, send)
    assert not lines.lines


def test_whose_leader_is_interrupted_is_told_that_nobody_knows() -> None:
    lines = Lines()

    def send(group: Any) -> Any:
        follower = Ticket("other", 0, time.monotonic() + 5, 0, place=Place.TAKEN)
        group.append(follower)
        mates.append(follower)
        raise KeyboardInterrupt

    mates: list[Ticket] = []
    with pytest.raises(KeyboardInterrupt):
        call(lines, send)
    assert mates[0].place is Place.LOST and not mates[0].bell.locked()


@pytest.mark.parametrize(
    ("place", "error", "text"),
    [
        (Place.WAITING, CounterContention, "nothing was written within 5 s"),
        (Place.TAKEN, OutcomeUnknown, "not done within 5 s. Try again"),
        (Place.LOST, OutcomeUnknown, "was interrupted. Try again"),
    ],
)
def test_a_call_without_an_answer_is_told_what_is_known(
    place: Place, error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = Lines()

    def turns(*_: Any) -> Any:
        return place
        yield

    monkeypatch.setattr(lines, "turns", turns)
    with pytest.raises(error, match=text):
        call(lines, None)
