"""``increment(..., once=...)``: exactly once for a token, for as long as its marker lives."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, markers
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterBoundError,
    CounterContention,
    DeclarationError,
    KeyTemplateError,
    OutcomeUnknown,
    TokenReused,
)
from pynacount.testing import Fault, FaultInjector, record_requests
from social import before
from video import ALL, Meta, Room, Stats, Stock, client, item, raw

V = {"video_id": "9f3a"}
MARKER = ("ONCE#order-17", "VID#9f3a#STATS#TOTAL#play_count")
DAY = 86_400


class Clock:
    """The time of day, set by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def videos(tables: Callable[..., None]) -> None:
    tables(*ALL)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(markers, "clock", clock)
    return clock


@pytest.fixture
def ref() -> Stats:
    return Stats.ref(**V)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that passes soon."""
    monkeypatch.setattr(Meta, "counted_deadline", 0.2)


class TestToken:
    def test_it_is_counted_once_and_a_repeat_gives_the_number_of_now(self, ref: Stats) -> None:
        assert Stats.plays.increment(ref, once="order-17") == 1
        assert Stats.plays.increment(ref, once="order-18") == 2
        assert Stats.plays.increment(ref, once="order-17") == 2

    def test_it_is_one_transaction_and_a_read_after_it(self, ref: Stats, clock: Clock) -> None:
        plan = Stats.plays.plan_increment(ref, 2, once="order-17")
        with record_requests(client()) as sent:
            Stats.plays.increment(ref, 2, once="order-17")
        assert [operation for operation, _ in sent] == ["TransactWriteItems", "GetItem"]
        assert sent[0][1]["TransactItems"] == plan.request()["TransactItems"]
        assert (plan.cost().wcu, plan.cost().rcu, plan.cost().items) == (4, 1, 2)
        marker, counter = plan.request()["TransactItems"]
        assert marker["Put"]["ConditionExpression"] == "(attribute_not_exists(PK) OR expires < :now)"
        assert counter["Update"]["UpdateExpression"] == "ADD #n0 :v0"

    def test_the_marker_says_what_was_counted_and_until_when_it_lives(self, ref: Stats, clock: Clock) -> None:
        Stats.plays.decrement(ref, 2, once="order-17")
        assert item(*MARKER) == {
            "counter": {"S": "PK='VID#9f3a' SK='STATS#TOTAL'"},
            "amounts": {"M": {"play_count": {"N": "-2"}}},
            "expires": {"N": str(1_700_000_000 + 30 * DAY)},
        }

    def test_a_token_that_comes_with_another_amount_is_refused(self, ref: Stats) -> None:
        Stats.plays.increment(ref, 2, once="order-17")
        calls: list[Callable[[], Any]] = [
            lambda: Stats.plays.increment(ref, 3, once="order-17"),
            lambda: Stats.plays.decrement(ref, 2, once="order-17"),
            lambda: Stats.plays.increment(ref, 2, once="order-17", also={"skips": 1}),
        ]
        for call in calls:
            with pytest.raises(TokenReused, match=r"once='order-17' was used before, .* by play_count 2"):
                call()
        assert item("VID#9f3a", "STATS#TOTAL") == {"play_count": {"N": "2"}}

    def test_an_amount_is_told_by_its_value(self, ref: Stats) -> None:
        assert Stats.plays.increment(ref, 1.5, once="t") == Stats.plays.increment(ref, 1.50, once="t")

    def test_it_is_for_one_counter_of_one_item(self, ref: Stats) -> None:
        """Nobody else's order-17 gets in its way."""
        other = Stats.ref(video_id="other")
        assert Stats.plays.increment(ref, once="order-17") == 1
        assert Stats.skips.increment(ref, once="order-17") == 1
        assert Stats.plays.increment(other, once="order-17") == 1

    def test_a_key_of_ones_own_can_make_it_one_for_all_items(self) -> None:
        one, two = Stock.ref(item_id="a"), Stock.ref(item_id="b")
        assert Stock.sold.increment(one, once="order-17") == 1
        with pytest.raises(TokenReused, match=r"for item_id='a' .* and comes now for item_id='b'"):
            Stock.sold.increment(two, once="order-17")

    def test_other_settings_are_made_once_too(self, ref: Stats) -> None:
        stats = Stats(**V)
        assert Stats.plays.increment(stats, once="t", set={"title": "a"}) == 1
        assert Stats.plays.increment(stats, once="t", set={"title": "b"}, style="set") == 1
        assert (stats.plays, stats.title) == (1, "a")

    @pytest.mark.parametrize("token", ["a#b", "50%", "é", "a b", "#", "x" * 2000])
    def test_a_token_may_be_any_text(self, ref: Stats, token: str) -> None:
        assert Stats.plays.increment(ref, once=token) == 1
        assert Stats.plays.increment(ref, once=token) == 1
        assert Stats.plays.increment(ref, once="other") == 2

    @pytest.mark.parametrize("token", ["", 17, "x" * 2044, b"x", "\ud800"])
    def test_one_that_cannot_be_a_key_is_refused_and_nothing_sent(self, ref: Stats, token: Any) -> None:
        with record_requests(client()) as sent, pytest.raises(KeyTemplateError, match=r"Stats\.plays.*once="):
            Stats.plays.increment(ref, once=token)
        assert sent == []


class TestLifetime:
    def test_the_token_is_known_until_the_marker_expires_and_counts_anew_after_it(
        self, ref: Stats, clock: Clock
    ) -> None:
        """Whether DynamoDB has deleted the expired marker by then or not."""
        Stats.plays.increment(ref, once="t")
        clock.now += 30 * DAY
        assert Stats.plays.increment(ref, once="t") == 1
        clock.now += 1
        assert Stats.plays.increment(ref, 5, once="t") == 6
        assert Stats.plays.increment(ref, 5, once="t") == 6

    def test_its_days_and_its_ttl_attribute_are_the_counters(self, clock: Clock) -> None:
        Stock.left.increment(Stock.ref(item_id="a"), 5, once="t")
        key = {"item_id": {"S": "ONCE#t#a#left"}}
        assert raw().get_item(TableName="Stock", Key=key)["Item"]["ttl"] == {"N": str(1_700_000_000 + DAY)}


class TestTrouble:
    @pytest.mark.parametrize("fault", [None, *Fault])
    def test_it_is_counted_once_whatever_happens(self, ref: Stats, fault: Fault | None) -> None:
        with FaultInjector(client()) as faults:
            faults.next(fault, fault, operation="TransactWriteItems")
            assert Stats.plays.increment(ref, once="t") == 1
        assert Stats.plays.increment(ref, once="t") == 1

    def test_a_call_again_after_a_lost_answer_finds_it_counted(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(Fault.LOST_RESPONSE, *[Fault.REFUSED_CONNECTION] * 50)
            with pytest.raises(OutcomeUnknown, match="again with the same once= is safe"):
                Stats.plays.increment(ref, once="t")
        assert Stats.plays.increment(ref, once="t") == 1

    def test_one_that_was_not_written_says_so(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(*[Fault.CONFLICT] * 50)
            with pytest.raises(CounterContention, match="nothing was written"):
                Stats.plays.increment(ref, once="t")
        assert Stats.plays.value(ref) is None

    def test_a_read_that_fails_afterwards_does_not_say_that_nothing_was_written(self, ref: Stats, short: None) -> None:
        with FaultInjector(connection_for(Meta).client) as faults:
            faults.next(*[Fault.THROTTLE] * 50, operation="GetItem")
            with pytest.raises(OutcomeUnknown, match=r"it is counted, for once='t'.*is safe"):
                Stats.plays.increment(ref, once="t")
        assert Stats.plays.increment(ref, once="t") == 1

    def test_an_item_that_goes_before_the_number_is_read_is_zero_then(self) -> None:
        stats = Stats(**V)
        key = {"PK": {"S": "VID#9f3a"}, "SK": {"S": "STATS#TOTAL"}}
        with before("GetItem", lambda: raw().delete_item(TableName="Video", Key=key), Meta):
            assert Stats.plays.increment(stats, once="t") == 0
        assert stats.plays is None

    def test_what_a_bound_refuses_leaves_no_marker_and_may_come_again(self) -> None:
        ref = Stock.ref(item_id="a")
        with pytest.raises(CounterBoundError) as told:
            Stock.left.decrement(ref, once="t")
        assert told.value.value == 0
        Stock.left.increment(ref, 1)
        assert Stock.left.decrement(ref, once="t") == 0

    def test_what_was_counted_is_not_refused_when_it_comes_again_to_a_bound(self) -> None:
        ref = Stock.ref(item_id="a")
        Stock.left.increment(ref, 1)
        assert Stock.left.decrement(ref, once="t") == 0
        assert Stock.left.decrement(ref, once="t") == 0
        with pytest.raises(CounterBoundError):
            Stock.left.decrement(ref, once="other")

    def test_an_item_that_is_no_marker_is_not_written_over(self, ref: Stats) -> None:
        key = {"PK": {"S": MARKER[0]}, "SK": {"S": MARKER[1]}}
        raw().put_item(TableName="Video", Item={**key, "precious": {"S": "x"}})
        with pytest.raises(TokenReused, match="an item that is no marker"):
            Stats.plays.increment(ref, once="order-17")
        assert item(*MARKER) == {"precious": {"S": "x"}}


class TestDeclaration:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"once_key": "ONCE#{once}"}, "one template for each key"),
            ({"once_key": ("ONCE", "X")}, r"must have the variable \{once\}"),
            ({"once_key": ("ONCE#{once}", "{colour}")}, "colour, which is no key variable"),
            ({"once_key": ("S#{once}", "T")}, "could be taken for an item of Shelf"),
            ({"once_key": ("S#{s}", "BOOK#{s}#{once}")}, "could be taken for an item of Book"),
            ({"once_key": 7}, "once_key=7"),
            ({"once_key": ("a", "b", "c")}, "once_key="),
            ({"once_days": 0}, "once_days=0"),
            ({"once_days": True}, "once_days=True"),
            ({"once_days": float("inf")}, "once_days=inf"),
            ({"once_expires": ""}, "once_expires=''"),
            ({"once_key": ("ONCE#{once}", "X"), "once_expires": "pk"}, "taken by another attribute"),
        ],
    )
    def test_what_cannot_be_is_told_when_the_class_is_built_or_first_used(
        self, options: dict[str, Any], said: str
    ) -> None:
        class Shelf(CountedModel):
            class Meta:
                table_name = "Shelf"

            pk = KeyAttribute("S#{s}", hash_key=True)
            sk = KeyAttribute("T", range_key=True)
            books = CounterField()

        class Book(CountedModel):
            class Meta:
                table_name = "Shelf"

            pk = KeyAttribute("S#{s}", hash_key=True)
            sk = KeyAttribute("BOOK#{b}", range_key=True)
            shelf = CountedIn(Shelf.books)

        with pytest.raises(DeclarationError, match=said):

            class Box(CountedModel):
                class Meta:
                    table_name = "Shelf"

                pk = KeyAttribute("S#{s}", hash_key=True)
                sk = KeyAttribute("BOX", range_key=True)
                things = CounterField(**options)

            _ = Box.things.plan_increment(Box.ref(s="1"), once="t")

    def test_a_table_with_a_number_for_a_key_has_no_place_for_a_token(self) -> None:
        class Number(CountedModel):
            class Meta:
                table_name = "Number"

            number = NumberAttribute(hash_key=True)
            things = CounterField()

        with pytest.raises(DeclarationError, match=r"whose key number is a number.*compare_and_set"):
            Number.things.increment(Number.ref(number=1), once="t")

    def test_a_table_with_plain_keys_has_one(self, tables: Callable[..., None]) -> None:
        class Plain(CountedModel):
            class Meta:
                table_name = "Plain"

            one = UnicodeAttribute(hash_key=True)
            two = UnicodeAttribute(range_key=True)
            things = CounterField("a{b}%")

        tables(Plain)
        assert Plain.things.increment(Plain.ref(one="a#", two="b"), once="t") == 1
        assert Plain.things.increment(Plain.ref(one="a", two="#b"), once="t") == 1
        assert Plain.things.increment(Plain.ref(one="a", two="#b"), once="t") == 1

    def test_a_subclass_keeps_its_markers_in_its_own_table(self) -> None:
        class Copy(Stats):
            class Meta:
                table_name = "Copy"

        assert Copy.plays.plan_increment(Copy.ref(**V), once="t").writes[0].key.table == "Copy"
        assert Stats.plays.plan_increment(Stats.ref(**V), once="t").writes[0].key.table == "Video"

    def test_an_item_that_must_be_there_leaves_no_marker_where_it_is_not(self) -> None:
        with pytest.raises(Exception, match="save"):
            Room.views.increment(Room.ref(room_id="1"), once="t")
        assert raw().scan(TableName="Video")["Count"] == 0


# -- a sale

BUYERS, STOCK, PROCESSES, THREADS = 3000, 1000, 4, 16


def sell(number: int, ready: Any) -> list[tuple[str, bool]]:
    """One server of a shop: what its buyers were told in the end, by their tokens."""
    Stock.Meta.counted_deadline = 0.5
    Stock.Meta.max_pool_connections = THREADS  # type: ignore[attr-defined]
    chance = random.Random(number)
    tokens = [f"order-{buyer}" for buyer in range(BUYERS) if buyer % PROCESSES == number]
    rates = {Fault.LOST_RESPONSE: 0.10, Fault.THROTTLE: 0.05, Fault.CONFLICT: 0.05, Fault.REFUSED_CONNECTION: 0.05}
    connection: Any = connection_for(Stock.Meta).client

    def buy(task: tuple[str, int]) -> tuple[str, bool]:
        token, repeats = task
        told: list[bool] = []
        while len(told) <= repeats:
            try:
                left = Stock.left.decrement(Stock.ref(item_id="x"), once=token)
            except CounterBoundError as error:
                assert error.value == 0
                told.append(False)
            except (OutcomeUnknown, CounterContention):
                continue  # as the error says, to call again is safe
            else:
                assert left >= 0
                told.append(True)
        assert len(set(told)) == 1, (token, told)  # nothing comes back to stock, so the truth does not change
        return token, told[0]

    ready.wait()
    with FaultInjector(connection, rates=rates, seed=number), ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(buy, [(token, chance.choice([0, 0, 0, 1])) for token in tokens]))


@pytest.mark.real_engine
def test_of_3000_buyers_exactly_1000_get_one_each_and_all_are_told_the_truth(engine: Any) -> None:
    """16 threads in each of 4 processes; answers are lost, and calls are made again at random."""
    Stock.left.increment(Stock.ref(item_id="x"), STOCK)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(PROCESSES) as pool:
        ready = manager.Barrier(PROCESSES)
        answers = [answer for told in pool.starmap(sell, [(n, ready) for n in range(PROCESSES)]) for answer in told]
    assert Counter(told for _, told in answers) == {True: STOCK, False: BUYERS - STOCK}
    assert Stock.left.value(Stock.ref(item_id="x"), consistent_read=True) == 0
    pages = raw().get_paginator("scan").paginate(TableName="Stock", ConsistentRead=True)
    there = {found["item_id"]["S"] for page in pages for found in page["Items"] if "amounts" in found}
    assert there == {f"ONCE#{token}#x#left" for token, told in answers if told}
