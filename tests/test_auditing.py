"""The audit of a table that is live: every kind of wrong is named, and nothing that is right."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from pynacount import CountedIn, CounterField, models
from pynacount.connections import connection_for
from pynacount.errors import ParentMissing
from pynacount.protocols.repairing import fence
from pynacount.tallies import Audited, Tracking, audit
from pynacount.tallies.scanning import item_count
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Album, Meta, Photo, Post, Product, User, before, items, put, raw

Tables = Callable[..., None]


@pytest.fixture(autouse=True)
def social(tables: Tables) -> None:
    tables(*ALL)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between looks, which are not waited for."""
    found: list[float] = []
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", found.append)
    return found


def post(name: str, tally: int | None, likes: int, **marks: Any) -> None:
    """A post and its likes, written behind the library's back."""
    stored = {} if tally is None else {"likeTally": {"N": str(tally)}}
    put(f"POST#{name}", "META", createdAt={"N": "1"}, **stored, **marks)
    for index in range(likes):
        put(f"POST#{name}", f"LIKE#USER#{index:03}")


def told(*counters: CounterField, **options: Any) -> dict[str, Audited]:
    found = list(audit(counters or [Post.like_tally], workers=1, **options))
    by_key = {str(one.key.values[0][1]).partition("#")[2]: one for one in found}
    assert len(by_key) == len(found)
    return by_key


def state_of(found: Audited) -> tuple[Any, ...]:
    return found.state, found.tally, found.count, found.wrong


class TestStates:
    @pytest.mark.parametrize("by", ["scan", "query"])
    def test_right_drifted_and_unseeded_parents_are_told_apart(self, by: Any) -> None:
        post("right", 2, 2)
        post("high", 5, 2)
        post("low", -1, 2)
        post("new", None, 3)
        found = told(by=by)
        assert {name: state_of(one) for name, one in found.items()} == {
            "right": ("ok", 2, 2, False),
            "high": ("drifted", 5, 2, True),
            "low": ("drifted", -1, 2, True),
            "new": ("unseeded", None, 3, False),
        }
        assert (found["high"].drift, found["low"].drift, found["new"].drift) == (3, -3, None)

    def test_nothing_is_written(self) -> None:
        post("high", 5, 2)
        post("new", None, 3)
        before = items()
        told()
        assert items() == before

    def test_children_without_a_parent_are_orphaned(self) -> None:
        put("POST#gone", "LIKE#USER#a")
        put("POST#gone", "LIKE#USER#b")
        found = told()["gone"]
        assert state_of(found) == ("orphaned", None, 2, True)
        assert "save the parent, or delete the children" in found.message

    def test_children_that_were_left_on_purpose_are_nothing_wrong(self) -> None:
        class Left(models.PostMeta):
            Meta = Meta
            like_tally = CounterField(attr_name="likeTally", on_delete="leave")

        class Like(models.Like):
            Meta = Meta
            post = CountedIn(Left.like_tally)

        put("POST#gone", "LIKE#USER#a")
        assert state_of(told(Left.like_tally)["gone"]) == ("orphaned", None, 1, False)

    def test_an_unfinished_cascade_is_named(self) -> None:
        Album(album_id="a").save()
        Photo(album_id="a", photo_id="1").save()
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        put("ALBUM#a", "PHOTO#1")
        found = told(Album.photo_tally)["a"]
        assert (found.state, found.count, found.wrong) == ("closed", 1, True)
        assert "delete() again" in found.message

    def test_an_unfinished_repair_is_named_with_the_number_that_was(self, pauses: list[float]) -> None:
        post("a", 5, 2)
        Post._counting.driver("fence").run(
            only(fence(Post.like_tally.tally, Post._counting.key_of(Post.ref(post_id="a"))))
        )
        found = told()["a"]
        assert state_of(found) == ("repairing", 5, 2, True)
        assert pauses == [1.0] * 4  # one that is under way would have ended

    def test_a_tally_that_is_no_number_is_named(self) -> None:
        put("POST#a", "META", createdAt={"N": "1"}, likeTally={"S": "5"})
        found = told()["a"]
        assert state_of(found) == ("unreadable", None, 0, True)

    def test_a_child_that_cannot_be_counted_is_named_with_its_key(self) -> None:
        put("PRODUCT#p", "META", **{"star-sum": {"N": "5"}})
        put("PRODUCT#p", "REVIEW#1", stars={"S": "five"})
        put("PRODUCT#q", "META", **{"star-sum": {"N": "2.5"}})
        put("PRODUCT#q", "REVIEW#1", stars={"N": "2.5"})
        found = told(Product.star_tally)
        assert state_of(found["p"]) == ("unknown", 5, None, True)
        assert "REVIEW#1" in found["p"].message
        assert state_of(found["q"]) == ("ok", Decimal("2.5"), Decimal("2.5"), False)

    def test_a_function_of_the_application_that_raises_is_named_with_the_child(self) -> None:
        put("PRODUCT#p", "META", count={"N": "0"})
        put("PRODUCT#p", "REVIEW#1", hidden={"S": "maybe"})
        found = told(Product.shown_tally)["p"]
        assert found.state == "unknown"
        assert "REVIEW#1" in found.message

    def test_an_absent_number_of_a_zero_counter_is_0(self) -> None:
        class Zero(models.PostMeta):
            Meta = Meta
            like_tally = CounterField(attr_name="likeTally", missing="zero")

        class Like(models.Like):
            Meta = Meta
            post = CountedIn(Zero.like_tally)

        post("none", None, 0)
        post("two", None, 2)
        found = told(Zero.like_tally)
        assert state_of(found["none"]) == ("ok", 0, 0, False)
        assert state_of(found["two"]) == ("drifted", 0, 2, True)

    def test_children_on_an_index_are_counted_by_it(self) -> None:
        for name, tally in (("ada", "2"), ("bob", "1")):
            put(f"USER#{name}", "META", givenTally={"N": tally})
        put("PRODUCT#p", "REVIEW#1", authorId={"S": "ada"})
        put("PRODUCT#q", "REVIEW#1", authorId={"S": "ada"})
        found = told(User.given_tally)
        assert (state_of(found["ada"]), state_of(found["bob"])) == (("ok", 2, 2, False), ("drifted", 1, 0, True))

    def test_one_scan_serves_several_counters(self) -> None:
        post("a", 1, 0)
        put("PRODUCT#p", "META", reviewTally={"N": "0"}, count={"N": "0"})
        with record_requests(connection_for(Post.Meta).client) as sent:
            found = list(audit([Post.like_tally, Product.review_tally, Product.shown_tally], workers=1))
        assert sorted((one.counter, one.state) for one in found) == [
            ("Post.like_tally", "drifted"),
            ("Product.review_tally", "ok"),
            ("Product.shown_tally", "ok"),
        ]
        assert [operation for operation, _ in sent].count("Scan") == 1


class TestLookingAgain:
    def test_a_difference_that_is_gone_at_the_next_look_is_none(self) -> None:
        post("a", 2, 1)  # as a scan sees it that read the likes before the newest came
        with before("GetItem", lambda: put("POST#a", "LIKE#USER#new")):
            assert state_of(told()["a"]) == ("ok", 2, 2, False)

    def test_a_parent_that_is_gone_at_the_next_look_is_not_told_of(self) -> None:
        post("a", 2, 0)
        with before("GetItem", lambda: raw().delete_item(TableName="Town", Key=key("POST#a"))):
            assert told() == {}

    def test_a_drift_is_told_only_when_two_looks_showed_the_same(self, pauses: list[float]) -> None:
        post("a", 5, 1)
        post("b", 7, 1)
        track = Tracking()
        found = told(tracking=track)
        assert {one.state for one in found.values()} == {"drifted"}
        assert (track.looks, pauses) == (4, [1.0])  # all suspects together: one pause

    def test_a_parent_whose_children_never_stand_still_is_moving(self) -> None:
        post("a", 50, 1)
        client, fresh = connection_for(Post.Meta).client, itertools.count()

        def like(**_: Any) -> None:
            put("POST#a", f"LIKE#USER#new{next(fresh)}")

        client.meta.events.register("before-call.dynamodb.Query", like)
        try:
            found = told()["a"]
        finally:
            client.meta.events.unregister("before-call.dynamodb.Query", like)
        assert (found.state, found.wrong) == ("moving", True)
        assert "each of 5 looks" in found.message

    def test_however_many_differ_few_are_kept_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
    ) -> None:
        monkeypatch.setattr("pynacount.tallies.auditing.MOST_SUSPECTS", 3)
        for index in range(7):
            post(f"p{index}", 5, index % 2)
        assert [one.state for one in told().values()] == ["drifted"] * 7
        assert len(pauses) == 3

    @pytest.mark.parametrize("fault", [Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.LOST_RESPONSE])
    def test_faults_slow_it_down_and_change_nothing(self, fault: Fault) -> None:
        post("a", 5, 1)
        post("b", 1, 1)
        track = Tracking()
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(fault, None, fault, fault)
            found = told(tracking=track)
        assert {name: one.state for name, one in found.items()} == {"a": "drifted", "b": "ok"}
        assert sum(track.retries.values()) == 3


class TestSomeParents:
    def test_named_parents_are_audited_without_a_scan(self) -> None:
        post("a", 5, 1)
        post("b", 1, 1)
        with record_requests(connection_for(Post.Meta).client) as sent:
            found = told(refs=[Post.ref(post_id="a"), Post.ref(post_id="b")])
        assert {name: one.state for name, one in found.items()} == {"a": "drifted", "b": "ok"}
        assert "Scan" not in [operation for operation, _ in sent]

    def test_a_named_parent_that_is_not_there_is_an_error(self) -> None:
        with pytest.raises(ParentMissing, match="no parent PK='POST#a' SK='META' in table Town"):
            told(refs=[Post.ref(post_id="a")])

    def test_a_sample_is_so_many_parents_each_once(self) -> None:
        for index in range(20):
            post(f"p{index}", 1, 1)
        assert item_count(Post) == 40
        assert len(told(sample=6)) == 6

    def test_a_sample_of_more_than_there_are_is_all_of_them(self) -> None:
        for index in range(5):
            post(f"p{index}", 1, 1)
        assert len(told(sample=50)) == 5

    def test_machines_share_a_table_by_segments(self) -> None:
        for index in range(10):
            post(f"p{index}", 1, 1)
        found = {*told(segments=2, segment=0), *told(segments=2, segment=1)}
        assert len(found) == 10

    def test_closing_the_iterator_stops_it(self) -> None:
        for index in range(10):
            post(f"p{index}", 1, 1)
        found = audit([Post.like_tally], workers=1)
        next(found)
        found.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "pynacount-scan"]


@pytest.mark.real_engine
def test_under_traffic_it_finds_every_drift_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the pauses are needed
    names = [f"p{index}" for index in range(200)]
    for index, name in enumerate(names):
        post(name, index % 5, index % 5)
    wrong = {name: (-3, -1, 1, 4)[index % 4] for index, name in enumerate(names[::4])}
    for name, drift in wrong.items():
        raw().update_item(
            TableName="Town",
            Key=key(f"POST#{name}"),
            UpdateExpression="ADD likeTally :d",
            ExpressionAttributeValues={":d": {"N": str(drift)}},
        )
    stop: list[bool] = []

    def click(seed: int) -> int:
        dice, clicks = random.Random(seed), 0
        while not stop:
            likes = Post.ref(post_id=dice.choice(names)).likes
            user = f"{dice.randrange(6):03}"
            likes.add(user_id=user) if dice.random() < 0.5 else likes.discard(user_id=user)
            clicks += 1
        return clicks

    with ThreadPoolExecutor(4) as pool:
        people = [pool.submit(click, seed) for seed in range(4)]
        try:
            found = [list(audit([Post.like_tally], workers=2)) for _ in range(3)]
        finally:
            stop.append(True)
        assert all(person.result() > 20 for person in people)
    told_wrong = {
        audited.key.values[0][1].removeprefix("POST#"): audited.drift
        for one in found
        for audited in one
        if audited.wrong
    }
    assert told_wrong == wrong  # an unlike while its post is read can hide a drift from one audit, not from all
    assert [len(one) for one in found] == [len(names)] * 3


def only(step: Any) -> Any:
    yield step


def key(pk: str) -> dict[str, Any]:
    return {"PK": {"S": pk}, "SK": {"S": "META"}}
