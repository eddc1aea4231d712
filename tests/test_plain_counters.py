"""Plain counters, in which no children are counted: one write, the number back; and setting one by comparison."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pynacount import CounterField
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterBoundError,
    CounterContention,
    CounterTypeError,
    DeclarationError,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    PynacountError,
    UncountedWrite,
)
from pynacount.testing import Fault, FaultInjector, record_requests
from video import ALL, Guest, Meta, Room, Stats, client, item, items, put

V = {"video_id": "9f3a"}
TOTAL = ("VID#9f3a", "STATS#TOTAL")


@pytest.fixture(autouse=True)
def videos(tables: Callable[..., None]) -> None:
    tables(*ALL)


@pytest.fixture
def ref() -> Stats:
    return Stats.ref(**V)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that passes soon."""
    monkeypatch.setattr(Meta, "counted_deadline", 0.2)


class TestIncrement:
    def test_it_is_one_write_and_no_read_and_gives_the_new_number(self, ref: Stats) -> None:
        with record_requests(client()) as sent:
            assert Stats.plays.increment(ref) == 1
            assert Stats.plays.increment(ref, by=41) == 42
            assert Stats.plays.decrement(ref, by=2) == 40
        assert [operation for operation, _ in sent] == ["UpdateItem"] * 3

    def test_the_request_is_that_of_its_plan(self, ref: Stats) -> None:
        with record_requests(client()) as sent:
            Stats.plays.increment(ref, 2)
        request = dict(sent[0][1])
        request.pop("ReturnConsumedCapacity")
        assert request == Stats.plays.plan_increment(ref, 2).request()
        assert request == {
            "TableName": "Video",
            "Key": {"PK": {"S": "VID#9f3a"}, "SK": {"S": "STATS#TOTAL"}},
            "UpdateExpression": "ADD #n0 :v0",
            "ExpressionAttributeNames": {"#n0": "play_count"},
            "ExpressionAttributeValues": {":v0": {"N": "2"}},
            "ReturnValues": "UPDATED_NEW",
        }
        assert Stats.plays.plan_increment(ref, 2).cost().wcu == 1

    @pytest.mark.parametrize("style", ["add", "set"])
    def test_a_missing_item_and_a_missing_attribute_start_from_zero(self, ref: Stats, style: Any) -> None:
        assert Stats.plays.increment(ref, style=style) == 1
        assert Stats.skips.decrement(ref, style=style) == -1
        assert item(*TOTAL) == {"play_count": {"N": "1"}, "skips": {"N": "-1"}}

    def test_the_set_style_shares_its_clause_with_other_settings(self, ref: Stats) -> None:
        plan = Stats.plays.plan_increment(ref, style="set", set={"title": "x"})
        assert plan.request()["UpdateExpression"] == "SET #0 = :0, #n1 = if_not_exists(#n1, :zero) + :one"
        assert Stats.plays.increment(ref, style="set", set={"title": "x"}) == 1
        assert item(*TOTAL) == {"play_count": {"N": "1"}, "name": {"S": "x"}}

    def test_other_attributes_are_set_in_the_same_write_and_none_removes_one(self, ref: Stats) -> None:
        Stats.plays.increment(ref, set={"title": "x"})
        with record_requests(client()) as sent:
            assert Stats.plays.increment(ref, set={"title": None}) == 2
        assert len(sent) == 1
        assert item(*TOTAL) == {"play_count": {"N": "2"}}

    @pytest.mark.parametrize("style", ["add", "set"])
    def test_several_counters_of_one_item_are_moved_in_one_write(self, ref: Stats, style: Any) -> None:
        with record_requests(client()) as sent:
            assert Stats.plays.increment(ref, also={"skips": 2, "hours": 0.5}, style=style) == 1
            assert Stats.plays.decrement(ref, also={"skips": 1}, style=style) == 0
        assert len(sent) == 2
        assert item(*TOTAL) == {"play_count": {"N": "0"}, "skips": {"N": "3"}, "hours": {"N": "0.5"}}

    def test_a_fraction_is_exact(self, ref: Stats) -> None:
        assert Stats.hours.increment(ref, 0.1) == Decimal("0.1")
        assert Stats.hours.increment(ref, Decimal("0.2")) == Decimal("0.3")

    def test_an_instance_follows(self) -> None:
        Stats(**V, title="a").save()
        stats = Stats.get(**V)
        assert stats.plays == 0
        assert Stats.plays.increment(stats, also={"skips": 2}, set={"title": "b"}) == 1
        assert (stats.plays, stats.skips, stats.title) == (1, 2, "b")
        assert stats.plan_save().writes == ()
        stats.title = "c"
        stats.save()
        Stats.plays.increment(stats, set={"title": None})
        assert stats.title is None
        assert item(*TOTAL) == {
            "play_count": {"N": "2"}, "skips": {"N": "2"}, "hours": {"N": "0"}, "seats": {"N": "0"},
        }  # fmt: skip

    def test_a_counter_that_was_never_moved_has_no_value(self, ref: Stats) -> None:
        assert (Stats.plays.value(ref), Stats.hours.value(ref)) == (None, 0)
        Stats.plays.increment(ref)
        assert (Stats.plays.value(ref), Stats.skips.value(ref), Stats.hours.value(ref)) == (1, None, 0)

    def test_a_save_neither_loses_an_increment_nor_writes_the_number(self) -> None:
        Stats.plays.increment(Stats.ref(**V), 5)
        Stats(**V, title="late").save()
        assert Stats.get(**V).plays == 5


class TestItemsThatAreCountedToo:
    """An increment must not make a parent that has no tally, nor a child that nobody counted."""

    def test_a_parent_that_is_not_there_is_not_made(self) -> None:
        with pytest.raises(ParentMissing, match=r"Room\.views\.increment.*ROOM#1.*save\(\) it first"):
            Room.views.increment(Room.ref(room_id="1"))
        with pytest.raises(ParentMissing):
            Room.views.compare_and_set(Room.ref(room_id="1"), None, 1)
        assert items() == 0

    def test_a_child_that_is_not_there_is_not_made(self) -> None:
        Room(room_id="1").save()
        for once in (None, "t"):
            with pytest.raises(NotCounted, match=r"Guest\.waves\.decrement.*save\(\) it first"):
                Guest.waves.decrement(Guest.ref(room_id="1", name="ada"), once=once)
        assert Room.ref(room_id="1").guests.recount() == 0

    def test_one_that_is_there_is_moved_and_its_version_left_alone(self) -> None:
        Room(room_id="1").save()
        Room.ref(room_id="1").guests.add(name="ada")
        assert Room.views.increment(Room.ref(room_id="1")) == 1
        assert Guest.waves.increment(Guest.ref(room_id="1", name="ada")) == 1
        room = Room.get(room_id="1")
        assert (room.version, room.views, room.guest_tally) == (1, 1, 1)


class TestComparing:
    def test_numbers_whose_difference_has_too_many_digits_can_be_compared(self, ref: Stats) -> None:
        assert not Stats.plays.compare_and_set(ref, expected=Decimal("0.1"), new=10**38)

    def test_it_sets_what_is_as_expected_and_says_so(self, ref: Stats) -> None:
        assert Stats.plays.compare_and_set(ref, expected=None, new=41)
        assert not Stats.plays.compare_and_set(ref, expected=None, new=1)
        assert Stats.plays.compare_and_set(ref, expected=41, new=42)
        assert not Stats.plays.compare_and_set(ref, expected=41, new=43)
        assert item(*TOTAL) == {"play_count": {"N": "42"}}

    def test_what_reads_as_zero_is_expected_as_zero(self, ref: Stats) -> None:
        assert not Stats.plays.compare_and_set(ref, expected=0, new=1)
        assert Stats.hours.compare_and_set(ref, expected=0, new=1)
        assert not Stats.hours.compare_and_set(ref, expected=0, new=2)

    def test_it_goes_under_a_token_so_that_a_lost_answer_is_learnt(self, ref: Stats) -> None:
        with FaultInjector(client()) as faults:
            faults.next(Fault.LOST_RESPONSE)
            assert Stats.plays.compare_and_set(ref, expected=None, new=1)
        assert [call.operation for call in faults.log] == ["TransactWriteItems"] * 2

    def test_the_request_is_that_of_its_plan(self, ref: Stats) -> None:
        with record_requests(client()) as sent:
            Stats.plays.compare_and_set(ref, 41, 42)
        plan = Stats.plays.plan_compare_and_set(ref, 41, 42)
        assert sent[0][1]["TransactItems"] == plan.request()["TransactItems"]
        assert plan.cost().wcu == 2

    def test_an_instance_follows_where_it_was_set(self) -> None:
        Stats(**V).save()
        stats = Stats.get(**V)
        assert not Stats.plays.compare_and_set(stats, 7, 8)
        assert stats.plays == 0
        assert Stats.plays.compare_and_set(stats, 0, 8)
        assert stats.plays == 8

    def test_what_was_lost_for_good_is_not_known(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(Fault.LOST_RESPONSE, *[Fault.REFUSED_CONNECTION] * 50)
            with pytest.raises(OutcomeUnknown, match="Read the number before you call again"):
                Stats.plays.compare_and_set(ref, None, 1)


class TestTrouble:
    @pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.REFUSED_CONNECTION])
    def test_what_was_surely_not_written_is_sent_again_and_counted_once(self, ref: Stats, fault: Fault) -> None:
        with FaultInjector(client()) as faults:
            faults.next(fault, fault)
            assert Stats.plays.increment(ref) == 1
        assert faults.injected == 2

    def test_a_lost_answer_is_counted_again_and_the_number_given_is_the_true_one(self, ref: Stats) -> None:
        """At least once: the documentation says so, and ``once=`` is the way out."""
        with FaultInjector(client()) as faults:
            faults.next(Fault.LOST_RESPONSE)
            assert Stats.plays.increment(ref) == 2
        assert item(*TOTAL) == {"play_count": {"N": "2"}}

    def test_when_the_time_is_up_after_a_lost_answer_it_is_not_known(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(Fault.LOST_RESPONSE, *[Fault.REFUSED_CONNECTION] * 50)
            with pytest.raises(OutcomeUnknown, match=r"again may count it a second time.*once="):
                Stats.plays.increment(ref)

    def test_when_the_time_is_up_and_nothing_was_written_it_says_so(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(*[Fault.THROTTLE] * 50)
            with pytest.raises(CounterContention, match=r"Stats\.plays\.increment: nothing was written"):
                Stats.plays.increment(ref)
        assert items() == 0

    def test_a_bound_met_after_a_lost_answer_is_no_refusal(self, ref: Stats) -> None:
        """The first try may have taken the last seat."""
        Stats.seats.increment(ref, 2)
        with FaultInjector(client()) as faults:
            faults.next(Fault.LOST_RESPONSE)
            with pytest.raises(OutcomeUnknown, match="may have been counted once, or not"):
                Stats.seats.increment(ref)
        assert Stats.seats.value(ref) == 3
        with FaultInjector(client()) as faults:
            faults.next(Fault.THROTTLE)
            with pytest.raises(CounterBoundError):  # a throttle is no doubt
                Stats.seats.increment(ref)

    @pytest.mark.parametrize("once", [None, "t"])
    @pytest.mark.parametrize("style", ["add", "set"])
    def test_a_text_in_its_place_names_the_item(self, ref: Stats, once: str | None, style: Any) -> None:
        put(*TOTAL, play_count={"S": "7"})
        with pytest.raises(CounterTypeError, match=r"VID#9f3a.*'S': '7'.*remove the attribute"):
            Stats.plays.increment(ref, once=once, style=style)
        with pytest.raises(CounterTypeError, match=r"VID#9f3a"):
            Stats.plays.compare_and_set(ref, 7, 1)
        with pytest.raises(CounterTypeError, match=r"VID#9f3a"):
            Stats.plays.value(ref)

    @pytest.mark.real_engine  # moto fails to compare a text with a number
    def test_a_text_in_the_place_of_a_bounded_number_names_the_item(self, ref: Stats) -> None:
        put(*TOTAL, seats={"S": "7"})
        for once in (None, "t"):
            with pytest.raises(CounterTypeError, match=r"VID#9f3a.*'S': '7'"):
                Stats.seats.increment(ref, once=once)

    @pytest.mark.real_engine  # moto adds what DynamoDB could not hold
    def test_a_sum_that_dynamodb_cannot_hold_is_refused_in_its_words(self, ref: Stats) -> None:
        put(*TOTAL, play_count={"N": "9" * 38})
        for once in (None, "t"):
            with pytest.raises(
                PynacountError, match=r"Stats\.plays\.increment: DynamoDB refused to write PK='VID#9f3a'"
            ):
                Stats.plays.increment(ref, Decimal("0.1"), once=once)


class TestBadInput:
    """Nothing is sent."""

    @pytest.fixture(autouse=True)
    def nothing_is_sent(self) -> Any:
        with record_requests(client()) as sent:
            yield
        assert sent == []

    @pytest.mark.parametrize("by", [0, 0.0, True, float("nan"), float("inf"), "1", None, 10**38 + 1, Decimal("1E200")])
    def test_an_amount_that_is_none(self, ref: Stats, by: Any) -> None:
        for call in (Stats.plays.increment, Stats.plays.decrement, Stats.plays.plan_increment):
            with pytest.raises(CounterTypeError, match=r"Stats\.plays"):
                call(ref, by)
        with pytest.raises(CounterTypeError, match="skips"):
            Stats.plays.increment(ref, also={"skips": by})

    @pytest.mark.parametrize("number", [True, float("nan"), "1", 10**38 + 1])
    def test_a_number_that_is_none_to_compare_or_set(self, ref: Stats, number: Any) -> None:
        with pytest.raises(CounterTypeError):
            Stats.plays.compare_and_set(ref, number, 1)
        with pytest.raises(CounterTypeError):
            Stats.plays.compare_and_set(ref, 1, number)

    def test_a_counter_that_children_are_counted_in(self) -> None:
        ref = Room.ref(room_id="1")
        calls: list[Callable[[], Any]] = [
            lambda: Room.guest_tally.increment(ref),
            lambda: Room.guest_tally.decrement(ref),
            lambda: Room.guest_tally.compare_and_set(ref, 1, 2),
            lambda: Room.guest_tally.increment(ref, once="t"),
            lambda: Room.views.increment(ref, also={"guest_tally": 1}),
        ]
        for call in calls:
            with pytest.raises(UncountedWrite, match=r"Room\.guest_tally.*its children alone move it"):
                call()

    @pytest.mark.parametrize("name", ["pk", "sk", "weight"])
    def test_what_must_not_be_set_beside(self, name: str) -> None:
        with pytest.raises(UncountedWrite, match=f"{name} is a key, a version, or what the item counts by"):
            Guest.waves.increment(Guest.ref(room_id="1", name="ada"), set={name: "x"})

    def test_a_version_is_not_set_beside(self) -> None:
        with pytest.raises(UncountedWrite, match="version"):
            Room.views.increment(Room.ref(room_id="1"), set={"version": 7})

    def test_a_counter_is_moved_and_not_set_beside(self, ref: Stats) -> None:
        with pytest.raises(UncountedWrite, match=r"also=\{'skips'"):
            Stats.plays.increment(ref, set={"skips": 1})

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"set": {"nothing": 1}}, "has no attribute 'nothing'"),
            ({"also": {"title": 1}}, "has no counter 'title' but has hours, seats, skips"),
            ({"also": {"plays": 1}}, "give its amount as by="),
            ({"style": "push"}, "write one of add, set"),
        ],
    )
    def test_a_name_that_is_not_there(self, ref: Stats, options: dict[str, Any], said: str) -> None:
        with pytest.raises(ValueError, match=said):
            Stats.plays.increment(ref, **options)

    def test_it_has_no_children_to_be_seeded_or_repaired_from(self, ref: Stats) -> None:
        for call in (Stats.plays.seed, Stats.plays.repair):
            with pytest.raises(DeclarationError, match=r"Stats\.plays\.(seed|repair).*no CountedIn names"):
                call(ref)

    def test_a_ref_of_another_model(self) -> None:
        with pytest.raises(TypeError, match="is no Stats"):
            Stats.plays.increment(Room.ref(room_id="1"))

    def test_a_counter_outside_of_a_model(self) -> None:
        with pytest.raises(AttributeError):
            CounterField().increment(Stats.ref(**V))
