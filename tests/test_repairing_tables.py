"""Repairing what an audit found wrong: exact, whoever goes on writing, and to be stopped and called again anywhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, commit, models
from pynacount.connections import connection_for
from pynacount.errors import CounterNotSeeded, DeclarationError, StateError, TargetError
from pynacount.keys import ItemKey
from pynacount.tallies import Audited, Repaired, Tracking, read_audit, repair
from pynacount.tallies.repairing import _in_threads
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Album, Board, Meta, Post, Product, before, item, items, number, put, right_before

Tables = Callable[..., None]


class Wing(CountedModel):
    """A parent with two cascades, one of them newer than some deletions that were interrupted."""

    Meta = Meta
    pk = KeyAttribute("WING#{wing_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    room_tally = CounterField(attr_name="roomTally", on_delete="cascade", settle=0)
    desk_tally = CounterField(attr_name="deskTally", on_delete="cascade", settle=0)


class WingRoom(CountedModel):
    Meta = Meta
    pk = KeyAttribute("WING#{wing_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("ROOM#{name}", range_key=True, attr_name="SK")
    wing = CountedIn(Wing.room_tally)


class WingDesk(CountedModel):
    Meta = Meta
    pk = KeyAttribute("WING#{wing_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("DESK#{name}", range_key=True, attr_name="SK")
    wing = CountedIn(Wing.desk_tally)


REACHED = "GetItem"
"""The first request of a repair, which shows that somebody answers."""


class Poll(CountedModel):
    class Meta:
        table_name = "Polls"

    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    vote_tally = CounterField(attr_name="voteTally", revision="voteRev", missing="zero", settle=0)
    votes: CountedSet[Any] = CountedSet("PollVote", tally="vote_tally")


class PollVote(CountedModel):
    class Meta:
        table_name = "Polls"

    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    poll = CountedIn(Poll.vote_tally)


class Topic(CountedModel):
    """Keyed by a number, and weighed by what its answers say; they go with it."""

    class Meta:
        table_name = "Topics"

    number = NumberAttribute(hash_key=True)
    weight = CounterField(on_delete="cascade", settle=0)


class Answer(CountedModel):
    class Meta:
        table_name = "Answers"

    number = NumberAttribute(hash_key=True)
    name = UnicodeAttribute(range_key=True)
    text = UnicodeAttribute(null=True)
    topic = CountedIn(Topic.weight, amount=lambda answer: int(answer.text or 1), reads=("text",))


@pytest.fixture(autouse=True)
def social(tables: Tables) -> None:
    tables(*ALL, Poll, PollVote, Topic, Answer)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, none of which really takes place."""
    waits: list[float] = []
    monkeypatch.setattr(commit.time, "sleep", waits.append)
    return waits


def post(name: str, tally: int | None, likes: int = 3) -> None:
    put(f"POST#{name}", "META", **({} if tally is None else {"likeTally": {"N": str(tally)}}))
    for index in range(likes):
        put(f"POST#{name}", f"LIKE#USER#{index:03}")


def key(pk: str) -> ItemKey:
    return ItemKey("Town", ("PK", "SK"), (("S", pk), ("S", "META")))


def row(
    pk: str, state: Any = "drifted", tally: int | None = 5, counter: str = "Post.like_tally", **more: Any
) -> Audited:
    return Audited(counter, key(pk), state, tally, 3, wrong=state not in ("ok", "unseeded"), **more)


def repaired(counter: CounterField, *rows: Audited, **options: Any) -> list[Repaired]:
    return list(repair([counter], rows, workers=1, **options))


@pytest.mark.usefixtures("marks_from_0")
class TestDrifted:
    def test_each_gets_its_count_and_what_was_done_is_told(self, waits: list[float]) -> None:
        for name, tally in {"a": 5, "b": 0, "c": -7}.items():
            post(name, tally)
        began = datetime.now(timezone.utc)
        done = repaired(Post.like_tally, *(row(f"POST#{name}") for name in "abc"))
        assert [(one.status, one.was, one.now, one.by) for one in done] == [
            ("repaired", 5, 3, "fence"),
            ("repaired", 0, 3, "fence"),
            ("repaired", -7, 3, "fence"),
        ]
        assert all(began <= one.when <= datetime.now(timezone.utc) for one in done)
        assert {one.when.utcoffset() for one in done} == {timedelta(0)}
        assert [number(f"POST#{name}", "likeTally") for name in "abc"] == ["3", "3", "3"]

    def test_nothing_is_believed_of_what_the_audit_said(self, waits: list[float]) -> None:
        post("a", 3)
        (done,) = repaired(Post.like_tally, row("POST#a", tally=99))
        assert (done.status, done.was, done.now) == ("unchanged", 3, 3)

    def test_how_long_writers_had_to_wait_is_measured(self) -> None:
        post("a", 5)
        began = time.monotonic()
        (done,) = repaired(Post.like_tally, row("POST#a"))
        assert Post.like_tally.settle <= done.waited <= time.monotonic() - began

    def test_a_parent_that_is_gone_is_told_and_none_is_created(self) -> None:
        (done,) = repaired(Post.like_tally, row("POST#a"))
        assert (done.status, done.now, done.by, items()) == ("gone", None, None, {})

    def test_one_that_is_being_deleted_by_now_is_left(self, waits: list[float]) -> None:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        (done,) = repaired(Album.photo_tally, row("ALBUM#a", counter="Album.photo_tally"))
        assert (done.status, "sweep" in done.message) == ("left", True)

    @pytest.mark.parametrize("value", [{"S": "five"}, {"NULL": True}, {"M": {}}, {"SS": ["5"]}])
    def test_one_that_is_no_number_becomes_one_and_no_mark_is_left(self, waits: list[float], value: Any) -> None:
        post("a", None)
        put("POST#a", "META", likeTally=value)
        (done,) = repaired(Post.like_tally, row("POST#a", "unreadable", None))
        assert (done.status, done.was, done.now) == ("repaired", None, 3)
        assert item("POST#a", "META") == {"likeTally": {"N": "3"}, "likeTallyPending": {"N": "1"}}

    @pytest.mark.parametrize("value", [{"N": "5"}, {"S": "five"}])
    def test_what_an_interrupted_run_left_fenced_is_finished(self, waits: list[float], value: Any) -> None:
        post("a", None)
        put("POST#a", "META", likeTally=value)
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                repaired(Post.like_tally, row("POST#a"))
        assert number("POST#a", "likeTally") is None
        (done,) = repaired(Post.like_tally, row("POST#a", "repairing"))
        assert (done.status, done.now, done.by) == ("repaired", 3, "fence")
        assert item("POST#a", "META") == {"likeTally": {"N": "3"}, "likeTallyPending": {"N": "1"}}

    def test_a_child_that_cannot_be_counted_is_told_with_what_it_means_and_the_rest_goes_on(
        self, waits: list[float]
    ) -> None:
        for name, stars in (("p", {"S": "five"}), ("q", {"N": "4"})):
            put(f"PRODUCT#{name}", "META", **{"star-sum": {"N": "9"}})
            put(f"PRODUCT#{name}", "REVIEW#1", stars=stars)
        rows = [row(f"PRODUCT#{name}", counter="Product.star_tally") for name in "pq"]
        broken, mended = repaired(Product.star_tally, *rows)
        assert (broken.status, mended.status) == ("failed", "repaired")
        assert "stars" in broken.message and "it stays without its tally" in broken.message
        assert (number("PRODUCT#p", "star-sum"), number("PRODUCT#q", "star-sum")) == (None, "4")

    def test_what_the_applications_own_amount_raises_is_told_too(self) -> None:
        Topic(number=5).save()
        Answer(number=5, name="a", text="7").save()
        Answer(number=5, name="b", text="2").save()
        connection_for(Topic.Meta).client.put_item(
            TableName="Answers", Item={"number": {"N": "5"}, "name": {"S": "c"}, "text": {"S": "many"}}
        )
        topic = Audited("Topic.weight", ItemKey("Topics", ("number",), (("N", "5"),)), "drifted", 1, 9, wrong=True)
        (done,) = repaired(Topic.weight, topic)
        assert done.status == "failed"
        assert "the child number='5' name='c' cannot be counted: ValueError: invalid literal" in done.message

    def test_what_dynamodb_refuses_is_raised(self) -> None:
        post("a", 5)
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="UpdateItem")
            with pytest.raises(Exception, match="AccessDenied"):
                repaired(Post.like_tally, row("POST#a"))
        assert number("POST#a", "likeTally") == "5"

    def test_a_throttled_table_is_waited_for(self, waits: list[float]) -> None:
        post("a", 5)
        track = Tracking()
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(Fault.THROTTLE, None, Fault.THROTTLE)
            (done,) = repaired(Post.like_tally, row("POST#a"), tracking=track)
        assert (done.status, sum(track.retries.values())) == ("repaired", 2)


class TestWhatIsPassedOver:
    def test_what_is_right_is_not_told_and_what_is_anothers_business_is_left(self) -> None:
        states = ["ok", "unseeded", "closed", "orphaned", "moving", "unknown"]
        with record_requests(connection_for(Meta).client) as sent:
            done = repaired(Post.like_tally, *(row(f"POST#{state}", state) for state in states))
        assert [(one.key.values[0][1], one.status) for one in done] == [
            ("POST#closed", "left"),
            ("POST#orphaned", "left"),
            ("POST#moving", "left"),
            ("POST#unknown", "left"),
        ]
        assert all(one.message for one in done) and sent == []

    def test_what_the_audit_says_of_it_is_passed_on(self) -> None:
        (done,) = repaired(Post.like_tally, row("POST#a", "unknown", message="stars are five"))
        assert done.message == "stars are five"

    def test_orphans_that_were_left_on_purpose_are_not_told(self) -> None:
        row = Audited("Board.pin_tally", key("BOARD#b"), "orphaned", None, 2, wrong=False)
        assert repaired(Board.pin_tally, row) == []

    def test_a_dry_run_sends_nothing(self) -> None:
        with record_requests(connection_for(Meta).client) as sent:
            (done,) = repaired(Post.like_tally, row("POST#a"), dry_run=True)
            (swept,) = repaired(
                Album.photo_tally, row("ALBUM#a", "closed", None, "Album.photo_tally"), dry_run=True, sweep=True
            )
        assert (done.status, done.was, done.now, done.by) == ("planned", 5, 3, "fence")
        assert (swept.status, swept.by, sent) == ("planned", "sweep", [])

    @pytest.mark.parametrize(
        "strange",
        [
            row("POST#a", counter="Album.photo_tally"),
            Audited("Post.like_tally", ItemKey("Elsewhere", ("PK", "SK"), key("POST#a").values), "drifted", 5, 3),
        ],
    )
    def test_a_row_of_another_counter_or_table_is_refused(self, strange: Audited) -> None:
        with pytest.raises(TargetError, match=r"is of none of Post\.like_tally"):
            repaired(Post.like_tally, strange)


class TestSweep:
    def closed(self) -> Audited:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True}, title={"S": "t"})
        for index in range(120):
            put("ALBUM#a", f"PHOTO#{index}")
        return row("ALBUM#a", "closed", None, "Album.photo_tally")

    def test_a_cascade_that_was_interrupted_is_finished(self) -> None:
        closed = self.closed()
        (left,) = repaired(Album.photo_tally, closed)
        assert (left.status, len(items("ALBUM#"))) == ("left", 121)
        (done,) = repaired(Album.photo_tally, closed, sweep=True)
        assert (done.status, done.by, items("ALBUM#")) == ("swept", "sweep", {})
        (again,) = repaired(Album.photo_tally, closed, sweep=True)
        assert again.status == "gone"

    def test_one_that_only_some_of_its_counters_closed_is_told_which_way_out_there_is(self, tables: Tables) -> None:
        tables(Wing)
        put("WING#w", "META", roomTallyClosed={"BOOL": True}, deskTally={"N": "0"})
        key = Wing._counting.key_of(Wing.ref(wing_id="w"))
        found = Audited("Wing.room_tally", key, "closed", None, None, wrong=True)
        (left,) = repair([Wing.room_tally], [found], sweep=True, workers=1)
        assert left.status == "left"
        assert "closed by roomTallyClosed, and not by all of its counters" in left.message
        assert "delete() it" in left.message and "remove roomTallyClosed and seed it" in left.message

    def test_an_album_that_came_back_meanwhile_is_not_deleted(self) -> None:
        closed = self.closed()
        repaired(Album.photo_tally, closed, sweep=True)
        Album(album_id="a").save()
        Album.ref(album_id="a").photos.add(photo_id="new")
        (done,) = repaired(Album.photo_tally, closed, sweep=True)
        assert (done.status, number("ALBUM#a", "photoTally"), len(items("ALBUM#"))) == ("left", "1", 2)

    def test_one_that_comes_back_during_the_sweep_keeps_its_photos(self) -> None:
        closed = self.closed()

        def come_back() -> None:
            repaired(Album.photo_tally, closed, sweep=True)
            Album(album_id="a").save()
            Album.ref(album_id="a").photos.add(photo_id="7")

        with before("TransactWriteItems", come_back):
            repaired(Album.photo_tally, closed, sweep=True)
        assert (number("ALBUM#a", "photoTally"), len(items("ALBUM#"))) == ("1", 2)

    def test_one_whose_children_dynamodb_refuses_to_delete_has_failed(self) -> None:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        put("ALBUM#a", "PHOTO#1")
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next_error("ValidationException", "no", operation="TransactWriteItems")
            (done,) = repaired(Album.photo_tally, row("ALBUM#a", "closed", None, "Album.photo_tally"), sweep=True)
        assert (done.status, "refused to delete" in done.message, len(items("ALBUM#"))) == ("failed", True, 2)

    def test_a_parent_keyed_by_a_number_goes_with_its_children_in_another_table(self) -> None:
        Topic(number=5).save()
        Answer(number=5, name="a").save()
        client = connection_for(Topic.Meta).client
        client.put_item(TableName="Topics", Item={"number": {"N": "5"}, "weightClosed": {"BOOL": True}})
        closed = Audited("Topic.weight", ItemKey("Topics", ("number",), (("N", "5"),)), "closed", None, 1, wrong=True)
        (done,) = repaired(Topic.weight, closed, sweep=True)
        assert done.status == "swept"
        assert (client.scan(TableName="Topics")["Items"], client.scan(TableName="Answers")["Items"]) == ([], [])


def poll_item() -> Any:
    client = connection_for(Poll.Meta).client
    stored = client.get_item(TableName="Polls", Key={"PK": {"S": "POLL#p"}, "SK": {"S": "META"}}, ConsistentRead=True)
    return {name: value for name, value in stored["Item"].items() if name not in ("PK", "SK")}


class TestRevision:
    POLL = Audited("Poll.vote_tally", ItemKey("Polls", ("PK", "SK"), (("S", "POLL#p"), ("S", "META"))), "drifted", 9, 1)

    @pytest.fixture(params=[{"N": "9"}, {"S": "nine"}, None], ids=["number", "text", "absent"])
    def poll(self, request: pytest.FixtureRequest) -> Any:
        client = connection_for(Poll.Meta).client
        own = {} if request.param is None else {"voteTally": request.param}
        client.put_item(TableName="Polls", Item={"PK": {"S": "POLL#p"}, "SK": {"S": "META"}, **own})
        client.put_item(TableName="Polls", Item={"PK": {"S": "POLL#p"}, "SK": {"S": "VOTE#old"}})
        return own.get("voteTally", {})

    def test_the_number_is_set_without_a_fence_and_nobody_waits(self, poll: Any) -> None:
        with record_requests(connection_for(Poll.Meta).client) as sent:
            (done,) = repaired(Poll.vote_tally, self.POLL)
        assert (done.status, done.now, done.by, done.waited) == ("repaired", 1, "revision", 0.0)
        assert [operation for operation, _ in sent] == [REACHED, "GetItem", "Query", "UpdateItem"]
        assert poll_item() == {"voteTally": {"N": "1"}}

    def test_a_vote_between_the_count_and_the_write_is_counted_again(self, poll: Any) -> None:
        if "S" in poll:
            pytest.skip("nobody can vote while it is no number")
        vote = Poll.ref(poll_id="p").votes.add
        with right_before(b"SET voteTally", lambda: vote(user_id="new"), Poll.Meta):
            (done,) = repaired(Poll.vote_tally, self.POLL)
        assert (done.now, poll_item()) == (2, {"voteTally": {"N": "2"}, "voteRev": {"N": "1"}})

    def test_a_poll_that_is_closed_meanwhile_stays_closed(self, poll: Any) -> None:
        client = connection_for(Poll.Meta).client
        closed = {"PK": {"S": "POLL#p"}, "SK": {"S": "META"}, "voteTallyClosed": {"BOOL": True}}
        with right_before(b"SET voteTally", lambda: client.put_item(TableName="Polls", Item=closed), Poll.Meta):
            (done,) = repaired(Poll.vote_tally, self.POLL)
        assert (done.status, poll_item()) == ("left", {"voteTallyClosed": {"BOOL": True}})

    def test_a_poll_that_never_rests_has_failed_and_the_fence_is_named(self) -> None:
        Poll(poll_id="p").save()
        client, users = connection_for(Poll.Meta).client, iter(range(100))

        def vote(request: Any, **_: Any) -> None:
            if b"SET voteTally" in request.body:
                Poll.ref(poll_id="p").votes.add(user_id=str(next(users)))

        client.meta.events.register_first("before-send.dynamodb.UpdateItem", vote, "race")
        try:
            (done,) = repaired(Poll.vote_tally, self.POLL)
        finally:
            client.meta.events.unregister("before-send.dynamodb.UpdateItem", vote, "race")
        assert (done.status, "repair(ref, fence=True)" in done.message) == ("failed", True)
        assert poll_item()["voteTally"] == {"N": "5"}


class TestWhatCannotBeRepaired:
    def test_a_counter_that_starts_from_zero_is_refused_before_a_row_is_read(self) -> None:
        class Zeros(models.PostMeta):
            class Meta:
                table_name = "Zeros"

            like_tally = CounterField(attr_name="likeTally", missing="zero")

        rows = iter([row("POST#a")])
        with pytest.raises(DeclarationError, match='Declare missing="seed"'):
            repair([Zeros.like_tally], rows)
        assert next(rows)

    def test_children_that_only_a_scan_would_find_are_refused_before_the_tally_is_taken_away(self) -> None:
        class Shop(CountedModel):
            class Meta:
                table_name = "Polls"

            pk = KeyAttribute("SHOP#{shop_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            sale_tally = CounterField(attr_name="saleTally", settle=0)

        class Sale(CountedModel):
            class Meta:
                table_name = "Polls"

            pk = KeyAttribute("SALE#{sale_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            shop_id = UnicodeAttribute()
            shop = CountedIn(Shop.sale_tally)

        Shop(shop_id="s").save()
        with pytest.raises(DeclarationError, match="eclare an index"):
            repair([Shop.sale_tally], [])
        with pytest.raises(CounterNotSeeded, match="Declare an index"):
            Shop.sale_tally.repair(Shop.ref(shop_id="s"))
        stored = connection_for(Shop.Meta).client.scan(TableName="Polls")["Items"]
        assert [item["saleTally"] for item in stored] == [{"N": "0"}]


class TestGoingOn:
    def test_closing_it_stops_between_two_parents(self, waits: list[float]) -> None:
        for name in "abc":
            post(name, 5)
        outcomes = repair([Post.like_tally], (row(f"POST#{name}") for name in "abc"), workers=1)
        next(outcomes)
        outcomes.close()
        assert [number(f"POST#{name}", "likeTally") for name in "abc"] == ["3", "5", "5"]

    def test_no_more_rows_are_read_than_are_worked_on(self) -> None:
        pulled, gate = [], threading.Semaphore(0)

        def rows() -> Iterator[Audited]:
            for index in range(100):
                pulled.append(index)
                if index == 2:
                    gate.release()
                yield row(f"POST#{index}")

        def task(row: Audited) -> Callable[[], str]:
            return lambda: (gate.acquire(), row.key.values[0][1])[1]

        results = _in_threads(rows(), task, 3)
        assert next(results).startswith("POST#")
        assert pulled == [0, 1, 2]
        gate.release(99)
        assert len(list(results)) == 99

    @pytest.mark.parametrize("where", ["task", "rows"])
    def test_after_trouble_what_is_under_way_is_told_before_it_is_raised(self, where: str) -> None:
        gate = threading.Event()

        def rows() -> Iterator[Audited]:
            yield row("POST#slow")
            if where == "rows":
                gate.set()
                raise OSError("broken")
            yield row("POST#bad")
            yield row("POST#more")

        def work(name: str) -> str:
            if name == "POST#bad":
                gate.set()
                raise OSError("broken")
            assert gate.wait(10)
            return name

        results = _in_threads(rows(), lambda row: lambda: work(row.key.values[0][1]), 2)
        told = []
        with pytest.raises(OSError, match="broken"):
            for name in results:
                told.append(name)
        assert told[:1] == ["POST#slow"]  # one more may have begun before the trouble was seen


LINE = {
    "kind": "parent",
    "counter": "Post.like_tally",
    "key": {"PK": "POST#a", "SK": "META"},
    "state": "drifted",
    "tally": 5,
    "count": 3,
    "drift": 2,
}


def saved(*lines: Any, counters: tuple[CounterField, ...] = (Post.like_tally,)) -> list[Audited]:
    return list(read_audit(counters, [line if isinstance(line, (str, bytes)) else json.dumps(line) for line in lines]))


class TestSavedAudit:
    def test_its_rows_are_what_the_audit_gave(self) -> None:
        (found,) = saved(LINE, "", {"kind": "summary"})
        assert found == row("POST#a")

    def test_numbers_are_exact_and_may_be_text(self) -> None:
        one, two = saved({**LINE, "tally": 10**37 + 1, "count": "0.5"}, json.dumps(LINE).replace("5", "0.1"))
        assert (one.tally, one.count, two.tally) == (10**37 + 1, Decimal("0.5"), Decimal("0.1"))

    @pytest.mark.parametrize("text", ["5", 5, "5.0", "5E0"])
    def test_a_number_in_a_key_is_the_number(self, text: Any) -> None:
        (found,) = saved({**LINE, "counter": "Topic.weight", "key": {"number": text}}, counters=(Topic.weight,))
        assert found.key == ItemKey("Topics", ("number",), (("N", "5"),))

    @pytest.mark.parametrize(("state", "wrong"), [("ok", False), ("unseeded", False), ("orphaned", True)])
    def test_whether_it_is_wrong_follows_from_its_state(self, state: str, wrong: bool) -> None:
        assert saved({**LINE, "state": state})[0].wrong is wrong
        pins = {**LINE, "counter": "Board.pin_tally", "state": state, "key": {"PK": "BOARD#b", "SK": "META"}}
        assert saved(pins, counters=(Board.pin_tally,))[0].wrong is False

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("{", "this is no JSON"),
            (b"\xff\xfe\xfd", "line 2"),
            ("[" * 100_000, "line 2"),
            ("5", "no line of an audit"),
            ({**LINE, "kind": "child"}, "no line of an audit"),
            ({**LINE, "counter": "Post.views"}, "'Post.views' is none of Post.like_tally"),
            ({**LINE, "counter": ["x"]}, "is none of"),
            ({**LINE, "state": "odd"}, "'odd' is none of"),
            ({**LINE, "state": ["ok"]}, "is none of"),
            ({**LINE, "key": {"PK": "POST#a"}}, "has not the attributes PK, SK of table Town"),
            ({**LINE, "key": {"PK": "USER#a", "SK": "META"}}, "does not follow 'POST#{post_id}'"),
            ({**LINE, "key": {"PK": "POST#a", "SK": "LIKE#USER#u"}}, "does not follow"),
            ({**LINE, "key": {"PK": 5, "SK": "META"}}, "is no text"),
            ({**LINE, "key": "POST#a"}, "has not the attributes"),
            ({**LINE, "tally": True}, "True is no number"),
            ({**LINE, "tally": "five"}, "'five' is no number"),
            ({**LINE, "count": "NaN"}, "'NaN' is no number"),
            ({**LINE, "count": [1]}, "is no number"),
        ],
    )
    def test_a_line_that_cannot_be_read_is_named(self, line: Any, said: str) -> None:
        with pytest.raises(StateError) as told:
            saved(LINE, line)
        assert "the saved audit, line 2: " in told.value.msg and said in told.value.msg
        assert "\n" not in told.value.msg

    @pytest.mark.parametrize("value", [None, "x", "", True, "1E999", [5]])
    def test_a_key_that_should_be_a_number_and_is_none_is_named(self, value: Any) -> None:
        with pytest.raises(StateError, match="line 1"):
            saved({**LINE, "counter": "Topic.weight", "key": {"number": value}}, counters=(Topic.weight,))

    def test_two_counters_of_one_name_are_not_told_apart(self) -> None:
        class Other(models.PostMeta):
            class Meta:
                table_name = "Others"

        Other.like_tally.owner.__name__ = "Post"
        with pytest.raises(TargetError, match=r"two counters are called Post\.like_tally"):
            saved(LINE, counters=(Post.like_tally, Other.like_tally))


class Hall(CountedModel):
    """Its guests lie anywhere, so that no query finds those of one hall."""

    class Meta:
        table_name = "Halls"

    pk = KeyAttribute("HALL#{hall_id}", hash_key=True, attr_name="PK")
    guest_tally = CounterField(attr_name="guestTally")


class HallGuest(CountedModel):
    class Meta:
        table_name = "HallGuests"

    pk = KeyAttribute("GUEST#{guest_id}", hash_key=True, attr_name="id")
    hall_id = UnicodeAttribute(null=True)
    hall = CountedIn(Hall.guest_tally)


def test_what_no_repair_takes_is_left_and_the_rest_is_repaired(waits: list[float]) -> None:
    post("a", 5)
    hall = {"kind": "parent", "counter": "Hall.guest_tally", "state": "drifted", "tally": 1, "count": 0}
    lines = [
        {**hall, "key": {"PK": "HALL#1"}},
        {**hall, "key": {"id": "GUEST#1"}, "state": "unknown", "message": "it does not tell its hall"},
        {**hall, "counter": "Post.like_tally", "key": {"PK": "POST#a", "SK": "META"}},
    ]
    counters = (Hall.guest_tally, Post.like_tally)
    done = list(repair(counters, saved(*lines, counters=counters), workers=1))
    assert [one.status for one in done] == ["left", "left", "repaired"]
    assert ("only a scan" in done[0].message, done[1].message) == (True, "it does not tell its hall")
    assert number("POST#a", "likeTally") == "3"
