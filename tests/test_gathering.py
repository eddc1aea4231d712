"""How calls gather into groups, in every order of every step: nobody waits for nobody, and nobody is told a lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
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
    """One call of a thread, as far as it got."""

    ticket: Ticket
    steps: Any
    step: Any = None
    place: Place | None = None
    killed: bool = False

    @property
    def is_there(self) -> bool:
        return self.step is not None


@dataclass
class World:
    """Callers, the line of their item, and a clock; what happens next is chosen from outside.

    A thread may call again once its call is over.
    """

    calls: int
    threads: int
    kills: int = 1
    callers: list[Caller] = field(default_factory=list)
    now: float = 0.0
    lines: Lines = field(default_factory=Lines)
    written: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    served: list[Ticket] = field(default_factory=list)
    """The last group that was told."""
    told: float = 0.0

    def events(self) -> Iterator[Event]:
        if len(self.callers) < self.calls:
            busy = {caller.ticket.caller for caller in self.callers if caller.is_there}
            fresh = len({caller.ticket.caller for caller in self.callers})  # those that never called are all alike
            for thread in range(min(fresh + 1, self.threads)):
                if thread not in busy and (thread == fresh or self.threads < self.calls):
                    yield "start", thread
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
        if what == "start":
            ticket = Ticket(len(self.callers), self.now, self.now + DEADLINE, WINDOW, n)
            self.callers.append(Caller(ticket, self.lines.turns("post", MOST, ticket)))
            self.go_on(self.callers[-1], None)
            return
        caller = self.callers[n]
        if what == "wake":
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
            sent = list(caller.step.group)
            self.go_on(caller, ([answer] * len(group), self.now))
            self.served, self.told = [ticket for ticket in sent if ticket.place is Place.TOLD], self.now

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
            waited = self.now - caller.ticket.arrived
            assert waited >= WINDOW or self.nobody_is_missing(caller.step.group), "not before its window"

    def nobody_is_missing(self, group: Sequence[Ticket]) -> bool:
        """Whether this group has nobody to wait for: it is full, or all of the last one are back."""
        back = {caller.ticket.caller for caller in self.callers if caller.ticket.arrived >= self.told}
        return len(group) >= MOST or (bool(self.served) and {ticket.caller for ticket in self.served} <= back)

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
            assert not (idle and self.are_all_here(line)), "nobody is waited for who is here"

    def are_all_here(self, line: Line) -> bool:
        served, here = ({t.caller for t in tickets} for tickets in (self.served, line.waiting))
        return bool(served) and served <= here and all(t.arrived <= self.told + WINDOW for t in line.waiting)

    def state(self) -> Any:
        line = self.lines.lines.get("post")
        return (
            self.now,
            self.kills,
            tuple(
                (
                    (c.ticket.arrived, c.ticket.caller, c.ticket.place, c.ticket.bell.locked(), c.ticket.answer),
                    c.place,
                    type(c.step),
                    getattr(c.step, "until", None),
                )
                for c in self.callers
            ),
            tuple(self.written),
            tuple(self.unanswered),
            tuple(sorted(set(self.sent))),
            self.told,
            tuple(ticket.call for ticket in self.served),
            line and (tuple(t.call for t in line.waiting), tuple(t.call for t in line.taken), line.leader.call),
        )


def replay(path: tuple[Event, ...], calls: int, threads: int, kills: int) -> World:
    world = World(calls, threads, kills)
    for event in path:
        world.happen(event)
    return world


def explore(calls: int, threads: int, kills: int) -> tuple[int, int]:
    """Every state that can be reached; how many, and in how many of them all is over."""
    seen: set[Any] = set()
    ends = 0
    paths: list[tuple[Event, ...]] = [()]
    while paths:
        path = paths.pop()
        world = replay(path, calls, threads, kills)
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


@pytest.mark.parametrize(("calls", "threads", "kills"), [(3, 3, 2), (4, 4, 0), (4, 2, 0)])
def test_in_every_order_of_steps_each_caller_is_told_the_truth_in_time_and_nobody_waits_for_nobody(
    calls: int, threads: int, kills: int
) -> None:
    states, ends = explore(calls, threads, kills)
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


def never_complete(self: Line, leader: Ticket, now: float) -> bool:
    return len(self.waiting) >= self.most


def always_complete(self: Line, leader: Ticket, now: float) -> bool:
    return True


def lead_at_once(self: Line, mine: Ticket) -> None:
    self.waiting.append(mine)
    self.leader = mine


BROKEN = [
    broken_line("leave", leave_without_a_word),
    broken_line("tell", tell_all_the_same),
    broken_line("arrive", arrive_quietly),
    broken_line("arrive", lead_at_once),
    broken_line("_is_complete", never_complete),
    broken_line("_is_complete", always_complete),
]


@pytest.mark.parametrize("broken", BROKEN, ids=["leave", "tell", "arrive", "lead", "wait", "send"])
def test_a_line_that_is_broken_is_found(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        explore(4, 2, 0)
        explore(3, 3, 1)


def ticket(call: int, arrived: float, deadline: float = DEADLINE) -> Ticket:
    return Ticket(call, arrived, arrived + deadline, WINDOW, call)


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


def sent(line: Line, one: Ticket, now: float) -> None:
    """Have it sent alone and told."""
    line.arrive(one)
    group = line.step(one, one.arrived + WINDOW)
    assert isinstance(group, Commit)
    line.tell(one, group.group, [Told()], now)
    line.leave(one)


def test_a_thread_that_comes_back_at_once_waits_for_nobody() -> None:
    line = Line(99)
    sent(line, ticket(1, 0), now=3)
    again = ticket(1, 3 + WINDOW / 2)
    line.arrive(again)
    assert isinstance(line.step(again, again.arrived), Commit)


def test_a_thread_that_comes_back_later_or_while_others_are_away_waits_out_its_window() -> None:
    for one in (ticket(1, 3 + WINDOW + 0.1), ticket(2, 3.1)):
        line = Line(99)
        sent(line, ticket(1, 0), now=3)
        line.arrive(one)
        assert line.step(one, one.arrived) == Pause(one.arrived + WINDOW)


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


def test_what_is_remembered_of_an_item_is_forgotten_a_moment_after_nobody_called_for_it() -> None:
    lines = Lines()
    remembered = []
    for key, now in (("a", 0.0), ("b", 0.5), ("a", 1.4), ("c", 2.0), ("d", 2.6)):
        turns = lines.turns(key, 99, Ticket("call", now, now + 5, 0, "thread"))
        assert isinstance(next(turns), Commit)
        with pytest.raises(StopIteration):
            turns.send(([Told()], now))
        remembered.append("".join(lines.resting))
    assert remembered == ["a", "ab", "ba", "ac", "cd"]
    assert not lines.lines


def test_a_call_of_the_thread_that_was_served_last_is_not_held_up() -> None:
    lines = Lines()
    began = time.monotonic()
    for window in (0, 60, 60):
        assert call(lines, lambda group: [Told(True)], window=window, deadline=120)
    assert time.monotonic() - began < 30


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
        follower = Ticket("other", 0, time.monotonic() + 5, 0, 1, place=Place.TAKEN)
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
