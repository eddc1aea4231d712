"""Seeding every parent of a live table: exact, and to be stopped and gone on with anywhere."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models, uncounted
from pynacount.connections import connection_for
from pynacount.errors import DeclarationError, StateError
from pynacount.tallies import Tracking, migrate
from pynacount.tallies.groups import Groups
from pynacount.tallies.pages import Pace
from pynacount.tallies.passes import passes
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Album, Like, Meta, Post, Product, User, items, number, put, raw


@pytest.fixture(autouse=True)
def social(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames or "tables" in request.fixturenames:
        request.getfixturevalue("tables")(*ALL)


def legacy(posts: dict[str, int]) -> None:
    """Posts and their likes, as a program wrote them that knew no tally."""
    for post, likes in posts.items():
        put(f"POST#{post}", "META", createdAt={"N": "1"})
        for index in range(likes):
            put(f"POST#{post}", f"LIKE#USER#{index:03}")


def tallies() -> dict[str, str | None]:
    return {pk.removeprefix("POST#"): number(pk, "likeTally") for pk, sk in items("POST#") if sk == "META"}


Tables = Callable[..., None]


class TestMigrate:
    @pytest.mark.parametrize("by", ["scan", "query"])
    @pytest.mark.parametrize("segments", [1, 3])
    def test_every_parent_gets_its_count(self, tables: Tables, by: Any, segments: int) -> None:
        posts = {f"p{index}": index % 4 for index in range(12)}
        legacy(posts)
        outcomes = list(migrate([Post.like_tally], by=by, workers=1, segments=segments))
        assert {str(seeded.key): seeded.tally for seeded in outcomes} == {
            f"PK='POST#{post}' SK='META'": likes for post, likes in posts.items()
        }
        assert {seeded.status for seeded in outcomes} == {"seeded"}
        assert tallies() == {post: str(likes) for post, likes in posts.items()}

    def test_a_model_and_its_subclass_over_the_same_items_are_counted_once(self, tables: Tables) -> None:
        class Picture(CountedModel):
            Meta = Meta
            pk = KeyAttribute("PICTURE#{picture_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            view_tally = CounterField(attr_name="viewTally")

        class View(CountedModel):
            Meta = Meta
            pk = KeyAttribute("PICTURE#{picture_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("VIEW#{user_id}", range_key=True, attr_name="SK")
            picture = CountedIn(Picture.view_tally)

        class LongView(View):
            Meta = Meta

        put("PICTURE#a", "META")
        put("PICTURE#a", "VIEW#u")
        (seeded,) = migrate([Picture.view_tally], workers=1)
        assert seeded.tally == 1

    def test_a_second_run_finds_nothing_to_do(self, tables: Tables) -> None:
        legacy({"a": 1, "b": 2})
        list(migrate([Post.like_tally], workers=1))
        track = Tracking()
        assert list(migrate([Post.like_tally], workers=1, tracking=track)) == []
        assert (track.present, track.items) == (2, 5)

    def test_children_without_a_parent_create_none(self, tables: Tables) -> None:
        put("POST#gone", "LIKE#USER#u")
        assert list(migrate([Post.like_tally], workers=1)) == []
        assert len(items()) == 1

    def test_one_pass_serves_several_counters_and_models(self, tables: Tables) -> None:
        legacy({"a": 2})
        put("PRODUCT#p", "META")
        put("PRODUCT#p", "REVIEW#1", stars={"N": "2.5"}, hidden={"BOOL": False})
        put("PRODUCT#p", "REVIEW#2", hidden={"BOOL": True})
        counters = [Post.like_tally, Product.review_tally, Product.shown_tally, Product.star_tally]
        with record_requests(connection_for(Post.Meta).client) as sent:
            outcomes = list(migrate(counters, workers=1))
        assert sorted((seeded.counter, seeded.tally) for seeded in outcomes) == [
            ("Post.like_tally", 2),
            ("Product.review_tally", 2),
            ("Product.shown_tally", 1),
            ("Product.star_tally", Decimal("2.5")),
        ]
        assert [operation for operation, _ in sent if operation in ("Scan", "Query")] == ["Scan"]

    def test_children_elsewhere_are_counted_by_their_index(self, tables: Tables) -> None:
        for name in ("ada", "bob"):
            put(f"USER#{name}", "META")
        put("PRODUCT#p", "REVIEW#1", authorId={"S": "ada"})
        put("PRODUCT#q", "REVIEW#1", authorId={"S": "ada"})
        found = {seeded.key.values[0][1]: seeded.tally for seeded in migrate([User.given_tally], workers=1)}
        assert found == {"USER#ada": 2, "USER#bob": 0}

    def test_a_parent_with_a_mark_is_counted_by_itself(self, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
        waits: list[float] = []
        monkeypatch.setattr("pynacount.commit.time.sleep", waits.append)
        Post(post_id="a").save()
        with uncounted():
            Like(post_id="a", user_id="u").save()
        with record_requests(connection_for(Post.Meta).client) as sent:
            (seeded,) = migrate([Post.like_tally], workers=1)
        assert (seeded.tally, number("POST#a", "likeTally")) == (1, "1")
        assert "Query" in [operation for operation, _ in sent]
        assert 1.0 in waits

    def test_a_parent_that_is_being_deleted_is_named_and_left(self, tables: Tables) -> None:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        (seeded,) = migrate([Album.photo_tally], workers=1)
        assert (seeded.status, number("ALBUM#a", "photoTally")) == ("closed", None)

    def test_a_child_that_cannot_be_read_is_named_and_the_rest_goes_on(self, tables: Tables) -> None:
        for name in ("p", "q"):
            put(f"PRODUCT#{name}", "META")
        put("PRODUCT#p", "REVIEW#1", stars={"S": "five"})
        put("PRODUCT#q", "REVIEW#1", stars={"N": "5"})
        outcomes = {seeded.key.values[0][1]: seeded for seeded in migrate([Product.star_tally], workers=1)}
        assert outcomes["PRODUCT#p"].status == "failed"
        assert "REVIEW#1" in outcomes["PRODUCT#p"].message
        assert (number("PRODUCT#p", "star-sum"), number("PRODUCT#q", "star-sum")) == (None, "5")

    def test_a_sum_that_dynamodb_cannot_hold_is_told_of_its_parent_and_the_rest_goes_on(self, tables: Tables) -> None:
        for name, stars in (("p", ("9E125", "9E125")), ("q", ("1E30", "1E-30")), ("r", ("1", "2"))):
            put(f"PRODUCT#{name}", "META")
            for index, number_of in enumerate(stars):
                put(f"PRODUCT#{name}", f"REVIEW#{index}", stars={"N": number_of})
        found = {seeded.key.values[0][1]: seeded for seeded in migrate([Product.star_tally], workers=1)}
        assert {name: seeded.status for name, seeded in found.items()} == {
            "PRODUCT#p": "failed",
            "PRODUCT#q": "failed",
            "PRODUCT#r": "seeded",
        }
        assert "Product.star_tally of the parent PK='PRODUCT#q' SK='META'" in found["PRODUCT#q"].message

    def test_a_limit_stops_it_and_the_next_run_does_the_rest(self, tables: Tables) -> None:
        legacy({f"p{index}": 1 for index in range(5)})
        assert len(list(migrate([Post.like_tally], workers=1, limit=2))) == 2
        assert len(list(migrate([Post.like_tally], workers=1))) == 3
        assert set(tallies().values()) == {"1"}

    def test_two_machines_share_a_table_by_segments(self, tables: Tables) -> None:
        posts = {f"p{index}": 1 for index in range(10)}
        legacy(posts)
        first = list(migrate([Post.like_tally], segments=2, segment=0, workers=1))
        second = list(migrate([Post.like_tally], segments=2, segment=1, workers=1))
        assert len(first) + len(second) == 10
        assert tallies() == dict.fromkeys(posts, "1")

    @pytest.mark.parametrize("fault", [Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.LOST_RESPONSE])
    def test_faults_slow_it_down_and_change_nothing(self, tables: Tables, fault: Fault) -> None:
        legacy({"a": 1, "b": 2})
        track = Tracking()
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(fault, fault, None, fault)
            list(migrate([Post.like_tally], workers=1, tracking=track))
        assert tallies() == {"a": "1", "b": "2"}
        assert sum(track.retries.values()) == 3

    def test_what_dynamodb_refuses_is_raised(self, tables: Tables) -> None:
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Scan")
            with pytest.raises(Exception, match="AccessDenied"):
                list(migrate([Post.like_tally], workers=1))

    @pytest.mark.real_engine
    def test_it_is_exact_while_people_go_on_liking(self, tables: Tables) -> None:
        posts = {f"p{index}": index % 7 for index in range(60)}
        legacy(posts)
        stop: list[bool] = []

        def click(seed: int) -> int:
            dice, told = random.Random(seed), 0
            while not stop:
                likes = Post.ref(post_id=f"p{dice.randrange(60)}").likes
                user = f"{dice.randrange(12):03}"
                told += likes.add(user_id=user) if dice.random() < 0.5 else -likes.discard(user_id=user)
            return told

        with ThreadPoolExecutor(4) as pool:
            people = [pool.submit(click, seed) for seed in range(4)]
            outcomes = list(migrate([Post.like_tally], workers=2))
            stop.append(True)
            told = sum(person.result() for person in people)
        assert {seeded.status for seeded in outcomes} <= {"seeded"}
        table = items("POST#")
        counts = {pk: sum(p == pk and sk != "META" for p, sk in table) for pk, sk in table if sk == "META"}
        assert {pk: int(number(pk, "likeTally") or -1) if counts[pk] else 0 for pk in counts} == counts
        assert sum(counts.values()) == sum(posts.values()) + told


class TestState:
    def test_after_an_interruption_anywhere_it_goes_on_where_it_stopped(self, tables: Tables, tmp_path: Path) -> None:
        posts = {f"p{index}": index % 3 for index in range(30)}
        legacy(posts)
        state = tmp_path / "state"
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(None, operation="BatchExecuteStatement")
            injector.next_error("ResourceNotFoundException", "no", operation="BatchExecuteStatement")
            with pytest.raises(Exception, match="ResourceNotFound"):
                list(migrate([Post.like_tally], workers=1, state=state))
        assert 0 < list(tallies().values()).count(None) < 30
        list(migrate([Post.like_tally], workers=1, state=state))
        assert tallies() == {post: str(likes) for post, likes in posts.items()}
        with record_requests(connection_for(Post.Meta).client) as sent:
            assert list(migrate([Post.like_tally], workers=1, state=state)) == []
        assert sent == []  # it was read to its end

    def test_a_group_that_spans_pages_goes_on_in_its_midst(self, tables: Tables, tmp_path: Path) -> None:
        put("POST#big", "META")
        for index in range(6):
            put("POST#big", f"LIKE#USER#{index}", filler={"S": "x" * 390_000})
        state, client = tmp_path / "state", connection_for(Post.Meta).client
        with FaultInjector(client) as injector:
            injector.next(None)
            injector.next_error("AccessDeniedException", "no", operation="Scan")
            with pytest.raises(Exception, match="AccessDenied"):
                list(migrate([Post.like_tally], workers=1, state=state))
        with record_requests(client) as sent:
            (seeded,) = migrate([Post.like_tally], workers=1, state=state)
        assert seeded.tally == 6
        assert "ExclusiveStartKey" in next(request for operation, request in sent if operation == "Scan")

    def test_each_of_several_tables_has_a_state_of_its_own(self, tables: Tables, tmp_path: Path) -> None:
        class Far(models.PostMeta):
            class Meta:
                table_name = "Far"

            likes: CountedSet[Any] = CountedSet("FarLike", tally="like_tally")

        class FarLike(models.Like):
            class Meta:
                table_name = "Far"

            post = CountedIn(Far.like_tally)

        tables(Far)
        legacy({"a": 1})
        raw().put_item(TableName="Far", Item={"PK": {"S": "POST#b"}, "SK": {"S": "META"}, "createdAt": {"N": "1"}})
        state = tmp_path / "state"
        for seeded in (2, 0):
            assert len(list(migrate([Post.like_tally, Far.like_tally], workers=1, state=state))) == seeded
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state.Far", "state.Town"]

    def test_the_state_of_another_pass_is_refused(self, tables: Tables, tmp_path: Path) -> None:
        state = tmp_path / "state"
        list(migrate([Post.like_tally], workers=1, state=state))
        for options in ({"workers": 2}, {"workers": 1, "by": "query"}):
            with pytest.raises(StateError, match="is the state of another pass"):
                list(migrate([Post.like_tally], state=state, **options))
        (tmp_path / "text").write_text("no state at all, but long enough to be taken for something" * 20)
        with pytest.raises(StateError, match="is no state file"):
            list(migrate([Post.like_tally], workers=1, state=tmp_path / "text"))


class TestWhatCannotBeSeeded:
    @pytest.mark.parametrize("missing", ["zero", "defer"])
    def test_a_counter_that_is_not_counted_on_the_way_says_what_to_declare(self, missing: Any) -> None:
        class Other(models.PostMeta):
            Meta = Meta
            like_tally = CounterField(attr_name="likeTally", missing=missing)

        with pytest.raises(DeclarationError, match=rf'missing="{missing}".*declare missing="seed"'):
            next(migrate([Other.like_tally]))


# -- the pure part


def group_of(pages: list[list[dict[str, Any]]], restored: bool) -> list[tuple[str, Any]]:
    (one,) = passes([Post.like_tally])
    groups = Groups(one.names, one.locals)
    found = []
    for page in pages:
        found += list(groups.take(page))
        if restored:  # as after a kill between any two pages
            text = groups.saved()
            groups = Groups(one.names, one.locals)
            groups.restore(text)
    found += list(groups.finish())
    return [(one.key.values[0][1], one.counted) for one in found]


@given(st.lists(st.integers(0, 4), max_size=6), st.integers(1, 5), st.booleans())
def test_however_the_pages_are_cut_each_group_is_counted_whole(likes: list[int], size: int, restored: bool) -> None:
    flat = [
        {"PK": {"S": f"POST#{post}"}, "SK": {"S": sort_key}}
        for post, many in enumerate(likes)
        for sort_key in [*(f"LIKE#USER#{user}" for user in range(many)), "META"]
    ]
    pages = [flat[start : start + size] for start in range(0, len(flat), size)]
    assert group_of(pages, restored) == [(f"POST#{post}", many) for post, many in enumerate(likes)]


def test_a_pace_holds_up_those_who_are_ahead_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("pynacount.tallies.pages.time.monotonic", lambda: 100.0)
    stopping = threading.Event()
    monkeypatch.setattr(stopping, "wait", slept.append)
    pace = Pace(10.0)
    pace.spend(5, stopping)
    pace.spend(10, stopping)
    assert slept == [0.5, 1.5]
    Pace(None).spend(1000, stopping)
    assert len(slept) == 2


def test_whoever_is_held_up_by_a_pace_can_be_stopped() -> None:
    stopping = threading.Event()
    began = time.monotonic()
    threading.Timer(0.1, stopping.set).start()
    Pace(0.001).spend(1, stopping)
    assert time.monotonic() - began < 10
