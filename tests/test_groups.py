"""Many calls in one transaction: each gets the answer that it would have had alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import TransactWriteError

import social
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, commit
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterBoundError,
    CounterContention,
    CounterNotSeeded,
    CounterTypeError,
    OutcomeUnknown,
    ParentMissing,
    PynacountError,
)
from pynacount.testing import Engine, Fault, FaultInjector, create_tables, record_requests
from pynacount.writing.discarding import Discard
from pynacount.writing.many import Member, run_many
from pynacount.writing.saving import Save
from social import Like, Meta, Post, Product, Review, number, put, raw, unseed


class Room(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    seat_tally = CounterField(attr_name="seatTally", maximum=5)


class Seat(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SEAT#{user_id}", range_key=True, attr_name="SK")
    note = UnicodeAttribute(null=True)
    room = CountedIn(Room.seat_tally)


@pytest.fixture(autouse=True)
def table(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FIRST_BACKOFF", 0.001)
    create_tables(Post)


def run(*members: Member) -> list[Any]:
    """Their answers, in their order."""
    run_many(Post._counting.driver("group"), members)
    return [m.done if m.error is None else m.error for m in members]


def add(user: str, post: str = "a") -> Member:
    return Member(Save(Like(post_id=post, user_id=user)))


def discard(user: str, post: str = "a") -> Member:
    return Member(Discard(Like(post_id=post, user_id=user)))


def seat(user: str, **more: Any) -> Member:
    return Member(Save(Seat(room_id="r", user_id=user, **more)))


def likes(post: str = "a") -> set[str]:
    return {sk.removeprefix("LIKE#USER#") for pk, sk in social.items(f"POST#{post}") if sk != "META"}


def transactions(act: Callable[[], Any]) -> list[dict[str, Any]]:
    """The transactions that were sent."""
    with record_requests(connection_for(Meta).client) as requests:
        act()
    return [request for operation, request in requests if operation == "TransactWriteItems"]


def test_99_new_children_and_their_parent_are_one_transaction() -> None:
    Post(post_id="a").save()
    members = [add(f"u{n}") for n in range(99)]
    (sent,) = transactions(lambda: run(*members))
    assert all(m.done for m in members)
    assert len(sent["TransactItems"]) == 100
    assert number("POST#a", "likeTally") == "99" == str(len(likes()))


def test_a_group_that_passes_100_items_is_sent_in_several() -> None:
    Post(post_id="a").save()
    members = [add(f"u{n}") for n in range(150)]
    assert len(transactions(lambda: run(*members))) == 2
    assert all(m.done for m in members)
    assert number("POST#a", "likeTally") == "150"


def test_those_that_are_there_already_are_taken_out_by_one_refusal() -> None:
    Post(post_id="a").save()
    run(add("x"), add("y"))
    members = [add(u) for u in "uxvyw"]
    assert len(transactions(lambda: run(*members))) == 2
    assert [m.done for m in members] == [True, False, True, False, True]
    assert number("POST#a", "likeTally") == "5"


def test_those_that_are_not_there_are_taken_out_of_a_group_that_discards() -> None:
    Post(post_id="a").save()
    run(add("x"), add("y"))
    assert run(discard("u"), discard("x"), discard("v")) == [False, True, False]
    assert number("POST#a", "likeTally") == "1"


def test_a_second_call_for_one_child_costs_no_transaction() -> None:
    Post(post_id="a").save()
    members = [add("u"), add("u"), add("v")]
    assert len(transactions(lambda: run(*members))) == 1
    assert [m.done for m in members] == [True, False, True]


def test_calls_for_one_child_are_answered_in_their_order() -> None:
    Post(post_id="a").save()
    assert run(add("u"), discard("u"), discard("u"), add("u"), add("u")) == [True, True, False, True, False]
    assert likes() == {"u"}
    assert number("POST#a", "likeTally") == "1"


def test_an_unseeded_parent_is_seeded_on_the_way() -> None:
    Post(post_id="a").save()
    put("POST#a", "LIKE#USER#x")
    unseed("POST#a", "likeTally")
    assert run(add("u"), add("x"), add("v")) == [True, False, True]
    assert number("POST#a", "likeTally") == "3"


def test_of_several_parents_one_that_is_missing_fails_its_own_calls_alone() -> None:
    Post(post_id="a").save()
    told = run(add("u"), add("u", "gone"), add("v", "gone"), add("v"))
    assert told[0] is True is told[3]
    assert isinstance(told[1], ParentMissing)
    assert isinstance(told[2], ParentMissing)
    assert told[1] is not told[2], "each caller raises one of its own"
    assert not social.items("POST#gone")
    assert number("POST#a", "likeTally") == "2"


def test_children_of_a_parent_that_is_gone_can_be_discarded_while_others_fail_to_come() -> None:
    put("POST#gone", "LIKE#USER#x")
    told = run(discard("x", "gone"), add("u", "gone"), discard("y", "gone"))
    assert told[0] is True
    assert isinstance(told[1], ParentMissing)
    assert told[2] is False
    assert not social.items("POST#gone")


def test_a_later_group_asks_again_for_a_parent_that_was_gone() -> None:
    members = [discard("x", "gone"), add("x", "gone")]
    put("POST#gone", "LIKE#USER#x")
    told = run(*members)
    assert told[0] is True
    assert isinstance(told[1], ParentMissing), "the child must not be written beside a check that there is no parent"


def test_a_parent_too_large_to_seed_fails_its_own_calls_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    Post(post_id="a").save()
    Post(post_id="big").save()
    for n in range(3):
        put("POST#big", f"LIKE#USER#x{n}")
    unseed("POST#big", "likeTally")
    monkeypatch.setattr(Post.like_tally, "lazy_seed_limit", 2)
    monkeypatch.setattr(Post.like_tally, "_tally", None)
    try:
        told = run(add("u"), add("u", "big"))
    finally:
        Post.like_tally._tally = None
    assert told[0] is True
    assert isinstance(told[1], CounterNotSeeded)


def test_a_tally_that_is_no_number_fails_the_calls_of_its_parent_alone() -> None:
    Post(post_id="a").save()
    put("POST#odd", "META", likeTally={"S": "many"})
    told = run(add("u"), add("u", "odd"), add("v", "odd"))
    assert told[0] is True
    assert isinstance(told[1], CounterTypeError)
    assert isinstance(told[2], CounterTypeError)


def test_as_many_as_fit_a_bound_are_counted_in_order_and_the_others_told() -> None:
    Room(room_id="r").save()
    run(seat("x"), seat("y"))
    members = [seat(u) for u in "abxcdey"]
    sent = transactions(lambda: run(*members))
    told = [m.done if m.error is None else m.error for m in members]
    assert told[:4] == [True, True, False, True]
    assert told[6] is False
    for refused in told[4:6]:
        assert isinstance(refused, CounterBoundError)
        assert (refused.value, refused.limit, refused.bound) == (5, 5, "maximum")
    assert number("ROOM#r", "seatTally") == "5"
    assert len(sent) == 3  # refused; the three that fit; the two others, who are told what it is now


def test_a_group_of_large_items_is_split_until_it_passes() -> None:
    Room(room_id="r").save()
    told = run(seat("a"), seat("huge", note="x" * 410_000), seat("b"))
    assert told[0] is True is told[2]
    assert isinstance(told[1], PynacountError)
    assert "huge" in str(told[1])
    assert number("ROOM#r", "seatTally") == "2"


def test_large_children_are_spread_over_transactions_that_take_them() -> None:
    Product(product_id="p", title="t").save()
    reviews = [Review(product_id="p", number=n, text="x" * 300_000) for n in range(14)]
    members = [Member(Save(review)) for review in reviews]
    assert len(transactions(lambda: run(*members))) == 2
    assert all(member.done for member in members)
    assert number("PRODUCT#p", "reviewTally") == "14"


def test_where_dynamodb_names_the_write_at_fault_the_others_go_on_at_once() -> None:
    Room(room_id="r").save()
    members = [seat(f"u{n}") for n in range(4)]
    named = [None, None, {"Code": "ItemCollectionSizeLimitExceeded", "Message": "Too much"}, None, None]
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next_error("TransactionCanceledException", reasons=named, operation="TransactWriteItems")
        sent = transactions(lambda: run(*members))
    assert len(sent) == 2
    assert [m.done for m in members] == [True, True, None, True]
    assert "SEAT#u2': ItemCollectionSizeLimitExceeded: Too much" in str(members[2].error)


def test_a_call_goes_on_where_an_earlier_one_for_the_same_child_was_refused() -> None:
    Room(room_id="r").save()
    told = run(seat("a", note="x" * 410_000), seat("a"), seat("a"))
    assert isinstance(told[0], PynacountError)
    assert told[1:] == [True, False]


def test_a_call_that_would_still_fit_does_not_overtake_an_earlier_one_for_the_same_child() -> None:
    Product(product_id="p", title="t").save()
    members = [Member(Save(Review(product_id="p", number=n, text="x" * 300_000))) for n in range(12)]
    members.append(Member(Discard(Review(product_id="p", number=11), add_version_condition=False)))
    assert all(run(*members))
    assert number("PRODUCT#p", "reviewTally") == "11"


def test_what_a_child_counts_by_is_read_before_it_is_discarded() -> None:
    Product(product_id="p", title="t").save()
    for n in (1, 2):
        Review(product_id="p", number=n, stars=n).save()
    told = run(*(Member(Discard(Review(product_id="p", number=n), add_version_condition=False)) for n in (1, 2, 3)))
    assert told == [True, True, False]
    assert number("PRODUCT#p", "star-sum") == "0"
    assert number("PRODUCT#p", "reviewTally") == "0"


def test_a_lost_answer_is_learnt_by_its_token() -> None:
    Post(post_id="a").save()
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next(Fault.LOST_RESPONSE, Fault.CONFLICT, Fault.LOST_RESPONSE, operation="TransactWriteItems")
        assert run(add("u"), add("v")) == [True, True]
        assert not injector.pending


def test_when_the_deadline_passes_those_that_are_settled_keep_their_answer() -> None:
    Post(post_id="a").save()
    run(add("x"))
    members = [add("x"), add("u"), add("v")]
    driver = commit.Driver(connection_for(Meta), 0.2, lambda: "group")
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next(None, *[Fault.LOST_RESPONSE] * 500, operation="TransactWriteItems")
        run_many(driver, members)
    assert members[0].done is False
    assert isinstance(members[1].error, OutcomeUnknown)
    assert isinstance(members[2].error, OutcomeUnknown)
    assert members[1].error is not members[2].error
    assert run(add("u"), add("v")) == [False, False], "it had landed"
    assert number("POST#a", "likeTally") == "3"


def test_what_no_retry_mends_is_the_error_of_all() -> None:
    raw().delete_table(TableName="Town")
    told = run(add("u"), add("v"))
    assert all(isinstance(error, TransactWriteError) for error in told)
    assert not any(isinstance(error, CounterContention) for error in told)


@settings(max_examples=40)
@given(
    asks=st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("uvwx")), max_size=12),
    there=st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from("uvwx"))),
    unseeded=st.booleans(),
    faults=st.lists(st.sampled_from([None, *Fault]), max_size=4),
)
def test_any_group_is_answered_as_its_calls_would_be_one_by_one(
    asks: list[tuple[bool, str, str]], there: set[tuple[str, str]], unseeded: bool, faults: list[Fault | None]
) -> None:
    for pk, sk in social.items():
        raw().delete_item(TableName="Town", Key={"PK": {"S": pk}, "SK": {"S": sk}})
    for post in "ab":
        Post(post_id=post).save()
    run(*(add(user, post) for post, user in there))
    if unseeded:
        unseed("POST#a", "likeTally")
    expected = []
    now = set(there)
    for adds, post, user in asks:
        expected.append(adds != ((post, user) in now))
        (now.add if adds else now.discard)((post, user))
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next(*faults)
        told = run(*((add if adds else discard)(user, post) for adds, post, user in asks))
    assert told == expected
    for post in "ab":
        assert likes(post) == {u for p, u in now if p == post}
        if asks or not unseeded:
            assert number(f"POST#{post}", "likeTally") in (None, str(len(likes(post))))
