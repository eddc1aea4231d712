"""``increment_many()``: plain counters of many items at once, each with an answer of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from pynamodb.exceptions import UpdateError

from pynacount.connections import connection_for
from pynacount.errors import (
    CounterBoundError,
    CounterTypeError,
    KeyTemplateError,
    OutcomeUnknown,
    UncountedWrite,
)
from pynacount.pool import DEFAULT_WORKERS
from pynacount.testing import Fault, FaultInjector, record_requests
from social import Post
from video import ALL, Meta, Stats, Stock, client


@pytest.fixture(autouse=True)
def videos(tables: Callable[..., None]) -> None:
    tables(*ALL)


def refs(count: int) -> list[Stats]:
    return [Stats.ref(video_id=f"v{n}") for n in range(count)]


def test_each_ref_gets_its_new_number() -> None:
    some = refs(3)
    Stats.plays.increment(some[1], 41)
    result = Stats.plays.increment_many(some, workers=1)
    assert result.values == {some[0]: 1, some[1]: 42, some[2]: 1}
    assert list(result.values) == some
    assert result.failed == {}


def test_a_dict_gives_each_ref_an_amount_of_its_own() -> None:
    one, two = refs(2)
    assert Stats.plays.increment_many({one: 5, two: -2}, workers=1).values == {one: 5, two: -2}
    assert Stats.plays.increment_many([one, two], by=10, workers=1).values == {one: 15, two: 8}


def test_one_that_is_refused_does_not_keep_the_others_from_being_counted() -> None:
    full, other = Stock.ref(item_id="full"), Stock.ref(item_id="other")
    Stock.left.increment(full, 100)
    Stock.left.increment(other, 1)
    result = Stock.left.increment_many({full: -101, other: -1}, workers=1)
    assert result.values == {other: 0}
    (error,) = result.failed.values()
    assert isinstance(error, CounterBoundError)
    assert error.value == 100


def test_one_whose_answer_is_lost_for_good_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meta, "counted_deadline", 0.2)
    one, two = refs(2)

    with FaultInjector(client()) as injector:
        injector.next(None, *[Fault.LOST_RESPONSE] * 300, operation="UpdateItem")
        result = Stats.plays.increment_many([one, two], workers=1)
    assert result.values == {one: 1}
    assert isinstance(result.failed[two], OutcomeUnknown)


def test_what_no_retry_mends_is_told_for_each() -> None:
    client().delete_table(TableName=Meta.table_name)
    result = Stats.plays.increment_many(refs(2), workers=1)
    assert not result.values
    assert all(isinstance(error, UpdateError) for error in result.failed.values())


def test_a_token_counts_once_for_each_ref() -> None:
    some = refs(3)
    for _ in range(2):
        result = Stats.plays.increment_many(some, once="run-17", workers=1)
    assert set(result.values.values()) == {1}


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: Stats.plays.increment_many([*refs(2), refs(1)[0]]), ValueError, "comes twice"),
        (
            lambda: Stats.plays.increment_many([refs(1)[0], Stats(video_id="v0")]),
            ValueError,
            "comes twice, as Stats.ref",
        ),
        (lambda: Stats.plays.increment_many([Stats(video_id="v0"), Stats(video_id="v0")]), ValueError, "comes twice"),
        (lambda: Stats.plays.increment_many({refs(1)[0]: 1, Stats(video_id="v0"): 2}), ValueError, "comes twice"),
        (lambda: Stats.plays.increment_many({refs(1)[0]: 1}, by=4), ValueError, "leave by= out"),
        (lambda: Stats.plays.increment_many(refs(2), by=0), CounterTypeError, "0 moves nothing"),
        (lambda: Stats.plays.increment_many({refs(1)[0]: True}), CounterTypeError, "bool"),
        (lambda: Stats.plays.increment_many(refs(2), workers=0), ValueError, "workers=0"),
        (lambda: Stats.plays.increment_many(refs(2), workers=True), ValueError, "workers=True"),
        (lambda: Stats.plays.increment_many("v1"), TypeError, "give a list of refs"),
        (lambda: Stats.plays.increment_many([*refs(1), "v1"]), TypeError, "'v1' is no Stats"),
        (lambda: Stats.plays.increment_many(refs(2), once=""), KeyTemplateError, "once"),
        (lambda: Post.like_tally.increment_many([Post.ref(post_id="a")]), UncountedWrite, "is counted in"),
    ],
)
def test_a_bad_call_is_refused_before_anything_is_sent(
    call: Callable[[], Any], error: type[Exception], said: str
) -> None:
    with record_requests(connection_for(Meta).client) as sent, pytest.raises(error, match=said):
        call()
    assert list(sent) == []


def test_no_refs_are_no_request() -> None:
    with record_requests(client()) as sent:
        result = Stats.plays.increment_many([])
    assert (result.values, result.failed, list(sent)) == ({}, {}, [])


def test_for_one_ref_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread was started"))
    assert len(Stats.plays.increment_many(refs(1)).values) == 1


@pytest.mark.real_engine
def test_many_are_under_way_at_once_and_no_thread_is_left_behind() -> None:
    some = refs(60)
    before = threading.active_count()
    names: set[str] = set()

    def note(**_: Any) -> None:
        names.add(threading.current_thread().name)

    events = client().meta.events
    events.register("before-send.dynamodb.UpdateItem", note)
    try:
        for _ in range(3):
            result = Stats.plays.increment_many(some)
    finally:
        events.unregister("before-send.dynamodb.UpdateItem", note)
    assert list(result.values) == some
    assert set(result.values.values()) == {3}
    assert threading.active_count() == before
    assert 1 < len({name.rpartition("_")[2] for name in names}) <= DEFAULT_WORKERS
    assert all(name.startswith("pynacount-increment") for name in names)


@pytest.mark.real_engine
def test_what_is_not_the_databases_error_ends_it_and_no_thread_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def break_down(self: Any, ref: Any, *_: Any) -> int:
        begun.append(ref)
        raise KeyError("broken")

    monkeypatch.setattr(type(Stats.plays), "_move", break_down)
    before = threading.active_count()
    with pytest.raises(KeyError, match="broken"):
        Stats.plays.increment_many(refs(500), workers=2)
    assert threading.active_count() == before
    assert len(begun) < 500
