"""Bounds: no number goes past one, nobody reads before writing, and who is refused is told the number."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, commit, transaction, uncounted
from pynacount.bounds import Bounds
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterBoundError,
    DeclarationError,
    OutcomeUnknown,
    ParentMissing,
    PlanError,
    UncountedWrite,
)
from pynacount.keys import ItemKey
from pynacount.testing import Engine, Fault, FaultInjector, create_tables, record_requests
from video import ALL, Guest, Meta, Room, Stats, client, item, put

V = {"video_id": "9f3a"}
TOTAL = ("VID#9f3a", "STATS#TOTAL")
R = {"room_id": "1"}


class Lobby(CountedModel):
    """It lets an absent number count as 0, and keeps at least one guard."""

    Meta = Meta
    pk = KeyAttribute("LOBBY#{lobby_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    guard_tally = CounterField(minimum=1, maximum=2, missing="zero")
    guards: CountedSet[Any] = CountedSet("Guard", tally="guard_tally")


class Guard(CountedModel):
    Meta = Meta
    pk = KeyAttribute("LOBBY#{lobby_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("GUARD#{name}", range_key=True, attr_name="SK")
    lobby = CountedIn(Lobby.guard_tally)


@pytest.fixture(autouse=True)
def videos(tables: Callable[..., None]) -> None:
    tables(*ALL)


@pytest.fixture
def ref() -> Stats:
    return Stats.ref(**V)


@pytest.fixture
def room() -> Room:
    Room(**R).save()
    return Room.ref(**R)


class TestPlainCounters:
    @pytest.mark.parametrize("once", [None, "t"])
    @pytest.mark.parametrize("style", ["add", "set"])
    def test_a_move_past_a_bound_is_refused_with_the_number_of_now(
        self, ref: Stats, once: str | None, style: Any
    ) -> None:
        Stats.seats.increment(ref, 3)
        with pytest.raises(CounterBoundError, match=r"Stats\.seats of .*VID#9f3a.* is 3.*by 1.*its maximum, 3") as told:
            Stats.seats.increment(ref, once=once, style=style)
        assert (told.value.value, told.value.bound, told.value.limit) == (3, "maximum", 3)
        with pytest.raises(CounterBoundError) as told:
            Stats.seats.decrement(ref, 4, once=once, style=style)
        assert (told.value.value, told.value.bound, told.value.limit) == (3, "minimum", 0)
        assert item(*TOTAL) == {"seats": {"N": "3"}}

    def test_there_is_no_read_before_the_write(self, ref: Stats) -> None:
        with record_requests(client()) as sent:
            Stats.seats.increment(ref, 3)
            with pytest.raises(CounterBoundError):
                Stats.seats.increment(ref)
        assert [operation for operation, _ in sent] == ["UpdateItem"] * 2

    @pytest.mark.parametrize("once", [None, "t"])
    def test_what_is_absent_counts_as_zero(self, ref: Stats, once: str | None) -> None:
        for by in (-1, 4):
            with pytest.raises(CounterBoundError) as told:
                Stats.seats.increment(ref, by, once=once)
            assert told.value.value == 0
        assert item(*TOTAL) is None
        assert Stats.seats.increment(ref, 3, once=once) == 3

    @pytest.mark.parametrize(("stored", "out", "back"), [(7, 1, -2), (-7, -1, 2)])
    def test_a_number_that_is_past_its_bound_moves_back_and_not_further(
        self, ref: Stats, stored: int, out: int, back: int
    ) -> None:
        put(*TOTAL, seats={"N": str(stored)})
        with pytest.raises(CounterBoundError):
            Stats.seats.increment(ref, out)
        assert Stats.seats.increment(ref, back) == stored + back
        assert Stats.seats.compare_and_set(ref, stored + back, stored + 2 * back)
        with pytest.raises(CounterBoundError, match="nothing was sent"):
            Stats.seats.compare_and_set(ref, stored + 2 * back, stored)

    def test_a_comparison_does_not_set_what_is_past_a_bound(self, ref: Stats) -> None:
        with record_requests(client()) as sent:
            for new in (-1, 4):
                with pytest.raises(CounterBoundError, match="nothing was sent") as told:
                    Stats.seats.compare_and_set(ref, None, new)
                assert told.value.value is None
        assert sent == []
        assert Stats.seats.compare_and_set(ref, None, 3)

    def test_the_bound_of_each_counter_that_is_moved_is_kept(self, ref: Stats) -> None:
        with pytest.raises(CounterBoundError, match=r"Stats\.seats"):
            Stats.plays.increment(ref, also={"seats": 4})
        assert item(*TOTAL) is None

    def test_update_keeps_it_for_what_it_adds_and_refuses_the_rest(self, ref: Stats) -> None:
        Stats(**V).save()
        stats = Stats.get(**V)
        stats.update(actions=[Stats.seats.add(3)])
        assert stats.seats == 3
        with pytest.raises(CounterBoundError, match=r"Stats\.seats .* is 3") as told:
            stats.update(actions=[Stats.seats.add(1)])
        assert told.value.value == 3
        for action in (Stats.seats.set(1), Stats.seats.set(Stats.seats + 1), Stats.seats.remove()):
            with pytest.raises(UncountedWrite, match=r"Stats\.seats has bounds.*increment\(ref\)"):
                stats.update(actions=[action])
        stats.update(actions=[Stats.plays.set(7)])

    def test_in_a_transaction_it_stands_for_all_of_it(self, ref: Stats, room: Room) -> None:
        Stats(**V).save()
        with pytest.raises(CounterBoundError), transaction() as tx:
            tx.update(Stats(**V), [Stats.seats.add(-1)])
            tx.save(Guest(**R, name="ada"))
        assert not room.guests.contains(name="ada")
        with pytest.raises(PlanError, match="has a bound, and is moved twice"), transaction() as tx:
            tx.update(Stats(**V), [Stats.seats.add(2)])
            tx.update(Stats(**V), [Stats.seats.add(2)])
        assert Stats.seats.value(ref) == 0


class TestReferenceCounts:
    def test_a_child_too_many_is_refused_and_not_written(self, room: Room) -> None:
        for name in ("ada", "bob"):
            assert room.guests.add(name=name)
        with record_requests(client()) as sent, pytest.raises(CounterBoundError) as told:
            room.guests.add(name="eve")
        assert [operation for operation, _ in sent] == ["TransactWriteItems"]
        assert (told.value.value, told.value.bound, told.value.limit) == (2, "maximum", 2)
        assert str(told.value).startswith("Room.guest_tally of the item PK='ROOM#1' SK='META' is 2")
        assert not room.guests.contains(name="eve")
        assert Room.get(**R).guest_tally == 2
        room.guests.discard(name="ada")
        assert room.guests.add(name="eve")

    def test_who_is_there_already_is_told_so_also_where_it_is_full(self, room: Room) -> None:
        for name in ("ada", "bob"):
            room.guests.add(name=name)
        assert room.guests.add(name="bob") is False
        with pytest.raises(AlreadyCounted):
            Guest(**R, name="bob").save()

    def test_who_is_not_there_is_told_so_also_where_it_is_at_its_least(self) -> None:
        create_tables(Lobby, Guard)
        Lobby(lobby_id="1").save()
        guards = Lobby.ref(lobby_id="1").guards
        assert guards.add(name="ada")
        assert guards.discard(name="bob") is False
        with pytest.raises(CounterBoundError) as told:
            guards.discard(name="ada")
        assert (told.value.value, told.value.bound) == (1, "minimum")
        assert guards.contains(name="ada")
        assert guards.add(name="bob")
        assert guards.discard(name="ada")

    def test_a_parent_that_is_not_there_or_closed_or_unseeded_is_told_as_ever(self, room: Room) -> None:
        with pytest.raises(ParentMissing):
            Room.ref(room_id="gone").guests.add(name="ada")
        put("ROOM#2", "META")
        for name in ("ada", "bob"):
            put("ROOM#2", f"GUEST#{name}", weight={"N": "1"})
        with pytest.raises(CounterBoundError) as told:
            Room.ref(room_id="2").guests.add(name="eve")  # it is counted on the way
        assert told.value.value == 2
        assert Room.get(room_id="2").guest_tally == 2
        put("ROOM#3", "META", guestTallyClosed={"BOOL": True})
        with pytest.raises(ParentMissing, match="being deleted"):
            Room.ref(room_id="3").guests.add(name="ada")

    def test_a_sum_has_bounds_too(self, room: Room) -> None:
        assert room.guests.add(name="ada", weight=9.5)
        with pytest.raises(CounterBoundError, match=r"weight_tally .* is 9\.5, and moving it by 0\.6") as told:
            room.guests.add(name="bob", weight=0.6)
        assert (told.value.value, told.value.limit) == (Decimal("9.5"), 10)
        assert room.guests.add(name="bob", weight=0.5)
        bob = Guest.get(**R, name="bob")
        bob.weight = 0.6
        with pytest.raises(CounterBoundError):
            bob.save()
        bob.weight = 0.4
        bob.save()
        assert Room.get(**R).weight_tally == Decimal("9.9")

    def test_several_that_come_at_once_are_held_to_their_sum(self, room: Room) -> None:
        with pytest.raises(CounterBoundError) as told, transaction() as tx:
            for name in ("ada", "bob", "eve"):
                tx.save(Guest(**R, name=name))
        assert told.value.value == 0
        room.guests.add(name="ada")
        room.guests.add(name="bob")
        with transaction() as tx:  # one comes and one goes
            tx.save(Guest(**R, name="eve"))
            tx.delete(Guest.get(**R, name="ada"))
        assert Room.get(**R).guest_tally == room.guests.recount() == 2

    def test_a_parent_that_is_born_with_its_children_is_held_to_it(self) -> None:
        with pytest.raises(CounterBoundError, match=r"Room\.guest_tally of .*ROOM#2") as told, transaction() as tx:
            tx.save(Room(room_id="2"))
            for name in ("ada", "bob", "eve"):
                tx.save(Guest(room_id="2", name=name))
        assert (told.value.value, told.value.bound, told.value.limit) == (0, "maximum", 2)
        with transaction() as tx:
            tx.save(Room(room_id="2"))
            for name in ("ada", "bob"):
                tx.save(Guest(room_id="2", name=name))
        assert Room.get(room_id="2").guest_tally == 2

    def test_a_number_that_is_past_its_bound_goes_down_and_not_up(self, room: Room) -> None:
        """What was there before the bound was declared, or came uncounted."""
        with uncounted():
            for name in ("ada", "bob", "eve", "joe"):
                Guest(**R, name=name).save()
        assert Room.guest_tally.seed(room) == 4
        assert Room.guest_tally.repair(room).now == 4
        with pytest.raises(CounterBoundError):
            room.guests.add(name="mia")
        assert room.guests.discard(name="ada")
        assert Room.get(**R).guest_tally == 3

    def test_a_lost_answer_is_learnt_and_not_taken_for_a_full_house(self, room: Room) -> None:
        room.guests.add(name="ada")
        with FaultInjector(client()) as faults:
            faults.next(Fault.LOST_RESPONSE)
            assert room.guests.add(name="bob")

    def test_without_bounds_the_request_is_as_ever(self) -> None:
        create_tables(Lobby)
        request = Guard(lobby_id="1", name="ada").plan_save().request()["TransactItems"][1]["Update"]
        assert request["ConditionExpression"] == (
            "attribute_exists(PK) AND (attribute_not_exists(#n0) OR #n0 <= :most)"
        )
        request = Guest(**R, name="ada").plan_save().request()["TransactItems"][1]["Update"]
        assert request["ConditionExpression"] == (
            "attribute_exists(guestTally) AND guestTally <= :most AND attribute_exists(weightTally) AND "
            "weightTally <= :v2"
        )


class TestDeclaration:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"minimum": 2, "maximum": 1}, "the minimum is the greater"),
            ({"minimum": "1"}, "minimum"),
            ({"maximum": True}, "maximum"),
            ({"maximum": float("nan")}, "maximum"),
            ({"maximum": float("inf")}, "maximum"),
            ({"maximum": 10**38 + 1}, "maximum"),
        ],
    )
    def test_what_is_no_bound_is_refused(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(DeclarationError, match=said):
            CounterField(**options)

    def test_one_number_may_be_both(self) -> None:
        assert CounterField(minimum=0, maximum=0).bounds.maximum == 0


# -- random programs


class Bounded(RuleBasedStateMachine):
    """Every answer is true, and no number is ever past its bound; the truth is kept here in Python's own."""

    COUNT = 0

    @initialize()
    def start(self) -> None:
        Bounded.COUNT += 1
        name = str(Bounded.COUNT)
        Room(room_id=name).save()
        self.room, self.stats = Room.ref(room_id=name), Stats.ref(video_id=name)
        self.name = name
        self.guests: dict[str, int] = {}
        self.seats = 0
        self.tokens: dict[str, int] = {}

    def faulty(self, faults: list[Fault | None]) -> FaultInjector:
        injector = FaultInjector(client())
        injector.next(*faults)
        return injector

    NAMES = st.sampled_from("abcd")
    FAULTS = st.lists(st.sampled_from([None, *Fault]), max_size=2)

    @rule(name=NAMES, weight=st.integers(1, 8), faults=FAULTS)
    def join(self, name: str, weight: int, faults: list[Fault | None]) -> None:
        full = len(self.guests) == 2 or sum(self.guests.values()) + weight > 10
        with self.faulty(faults):
            try:
                assert self.room.guests.add(name=name, weight=weight) == (name not in self.guests)
            except CounterBoundError as error:
                assert full and name not in self.guests
                assert error.value in (len(self.guests), sum(self.guests.values()))
            else:
                assert name in self.guests or not full
                self.guests.setdefault(name, weight)

    @rule(name=NAMES, faults=FAULTS)
    def leave(self, name: str, faults: list[Fault | None]) -> None:
        with self.faulty(faults):
            assert self.room.guests.discard(name=name) == (self.guests.pop(name, None) is not None)

    @rule(name=NAMES, weight=st.integers(1, 8))
    def edit(self, name: str, weight: int) -> None:
        if name not in self.guests:
            return
        guest = Guest.get(room_id=self.name, name=name)
        guest.weight = weight
        after = {**self.guests, name: weight}
        try:
            guest.save()
        except CounterBoundError:
            assert sum(after.values()) > 10 and weight > self.guests[name]
        else:
            self.guests = after

    @rule(by=st.integers(-4, 4).filter(bool), style=st.sampled_from(["add", "set"]), faults=FAULTS)
    def move(self, by: int, style: Any, faults: list[Fault | None]) -> None:
        with self.faulty(faults) as injector:
            try:
                now = Stats.seats.increment(self.stats, by, style=style)
            except CounterBoundError as error:
                assert not 0 <= self.seats + by <= 3
                assert error.value == self.seats
            except OutcomeUnknown:  # an earlier try may have landed, and the last was refused
                lost = [c for c in injector.log if c.fault in (Fault.LOST_RESPONSE, Fault.INTERNAL_ERROR)]
                now = Stats.seats.value(self.stats, consistent_read=True) or 0
                assert lost and now in {self.seats + by * times for times in range(len(lost) + 1)}
                self.seats = now
            else:
                again = sum(call.fault is Fault.LOST_RESPONSE for call in injector.log)
                assert now in {self.seats + by * (times + 1) for times in range(again + 1)}
                self.seats = now

    @rule(
        token=st.sampled_from("tuv"), by=st.integers(-3, 3).filter(bool), style=st.sampled_from(["add", "set"]),
        faults=FAULTS,
    )  # fmt: skip
    def move_once(self, token: str, by: int, style: Any, faults: list[Fault | None]) -> None:
        by = self.tokens.get(token, by)
        with self.faulty(faults):
            try:
                now = Stats.seats.increment(self.stats, by, once=token, style=style)
            except CounterBoundError as error:
                assert token not in self.tokens and not 0 <= self.seats + by <= 3
                assert error.value == self.seats
            else:
                self.seats += 0 if token in self.tokens else by
                self.tokens[token] = by
                assert now == self.seats

    @rule(expected=st.integers(0, 3), new=st.integers(-1, 4), faults=FAULTS)
    def compare(self, expected: int, new: int, faults: list[Fault | None]) -> None:
        with self.faulty(faults):
            try:
                done = Stats.seats.compare_and_set(self.stats, expected, new)
            except CounterBoundError:
                assert not 0 <= new <= 3
            else:
                assert done == (expected == self.stored())
                assert not done or 0 <= new <= 3
                if done:
                    self.seats = new

    def stored(self) -> int | None:
        """None where it was never moved."""
        return self.seats if item(f"VID#{self.name}", "STATS#TOTAL") is not None or self.seats else None

    @invariant()
    def the_numbers_are_the_truth_and_within_their_bounds(self) -> None:
        room, stats = item(f"ROOM#{self.name}", "META") or {}, item(f"VID#{self.name}", "STATS#TOTAL") or {}
        assert room["guestTally"]["N"] == str(len(self.guests))
        assert Decimal(room["weightTally"]["N"]) == sum(self.guests.values()) <= 10
        assert int(stats.get("seats", {"N": "0"})["N"]) == self.seats
        assert 0 <= self.seats <= 3


def test_in_random_programs_with_faults_no_bound_is_passed_and_every_answer_is_true(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "FIRST_BACKOFF", 0.0)
    quick = settings(max_examples=20, stateful_step_count=20, deadline=None, phases=[Phase.explicit, Phase.generate])
    run_state_machine_as_test(Bounded, settings=quick)


# -- seats of a workspace


class Workspace(CountedModel):
    class Meta:
        table_name = "Teams"
        counted_deadline = 60
        max_pool_connections = 20

    pk = KeyAttribute("WORKSPACE#{name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    seat_tally = CounterField(attr_name="seatTally", minimum=0, maximum=50)
    members: CountedSet[Any] = CountedSet("Member", tally="seat_tally")


class Member(CountedModel):
    Meta = Workspace.Meta
    pk = KeyAttribute("WORKSPACE#{name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("MEMBER#{user_id}", range_key=True, attr_name="SK")
    workspace = CountedIn(Workspace.seat_tally)


@pytest.mark.real_engine
def test_of_500_that_join_and_leave_at_once_never_51_sit_and_the_tally_is_the_count(
    tables: Callable[..., None],
) -> None:
    tables(Workspace)
    Workspace(name="w").save()
    ref = Workspace.ref(name="w")
    seen: list[int] = []
    refused: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.append(Workspace.seat_tally.value(ref, consistent_read=True) or 0)

    def come_and_go(user: int) -> bool:
        chance = random.Random(user)
        there = False
        for _ in range(4):
            try:
                if there and chance.random() < 0.6:
                    assert ref.members.discard(user_id=str(user))
                    there = False
                else:
                    assert ref.members.add(user_id=str(user)) != there
                    there = True
            except CounterBoundError as error:
                assert (error.value, error.bound) == (50, "maximum")
                refused.append(user)
        return there

    rates = {Fault.LOST_RESPONSE: 0.05, Fault.CONFLICT: 0.05, Fault.THROTTLE: 0.03}
    with FaultInjector(connection_for(Workspace.Meta).client, rates=rates, seed=5), ThreadPoolExecutor(17) as pool:
        watching = pool.submit(watch)
        sitting = list(pool.map(come_and_go, range(500)))
        over.set()
        watching.result()
    assert refused
    assert min(seen) >= 0 and max(seen) <= 50
    assert Workspace.get(name="w", consistent_read=True).seat_tally == ref.members.recount() == sum(sitting) <= 50
    assert {int(member.user_id) for member in ref.members} == {user for user, there in enumerate(sitting) if there}


@pytest.mark.parametrize(("by", "first"), [(-2, "Add some first"), (2, "Free some first")])
def test_the_way_out_leads_away_from_the_bound(by: int, first: str) -> None:
    key = ItemKey("Stock", ("item_id",), (("S", "a"),))
    error = Bounds(1, 2).refuse("Stock.left", key, 2, by)
    assert f"{first}, or declare another CounterField({error.bound}=...)" in str(error)
