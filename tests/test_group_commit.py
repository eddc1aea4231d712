"""Group commit: calls that share a request, each with the answer that it would have had alone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from history import Event, is_linearizable
from pynacount import (
    CountedIn,
    CountedModel,
    CountedSet,
    CounterField,
    KeyAttribute,
    commit,
    fields,
    models,
    transaction,
    uncounted,
)
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterBoundError,
    CounterContention,
    CounterTypeError,
    DeclarationError,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
)
from pynacount.grouping.gathering import LINES
from pynacount.grouping.lines import Ticket, Told
from pynacount.plain import increment_of
from pynacount.protocols.summing import send_summed
from pynacount.testing import Conflicts, Engine, Fault, FaultInjector, create_tables, record_requests
from pynacount.writing import grouped

ROOT = Path(__file__).parent.parent
THREADS = 16


class Meta:
    table_name = "Grouped"
    counted_deadline = 30
    max_pool_connections = 2 * THREADS


class Post(models.PostMeta):
    Meta = Meta
    like_tally = CounterField(attr_name="likeTally", group_commit=40)
    likes: CountedSet[Any] = CountedSet("GroupedLike", tally="like_tally")


class GroupedLike(models.Like):
    Meta = Meta
    note = UnicodeAttribute(null=True)
    post = CountedIn(Post.like_tally)


class Room(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    seat_tally = CounterField(attr_name="seatTally", maximum=5, group_commit=5)
    seats: CountedSet[Any] = CountedSet("GroupedSeat", tally="seat_tally")


class GroupedSeat(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SEAT#{user_id}", range_key=True, attr_name="SK")
    weight = NumberAttribute(default=1)
    room = CountedIn(Room.seat_tally, amount="weight")


class Video(CountedModel):
    Meta = Meta
    pk = KeyAttribute("VIDEO#{video_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    title = UnicodeAttribute(null=True)
    plays = CounterField(attr_name="plays", group_commit=20)
    left = CounterField(attr_name="left", minimum=0, maximum=10, group_commit=20)
    skips = CounterField(attr_name="skips")


@pytest.fixture(autouse=True)
def table(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(commit, "FIRST_BACKOFF", 0.001)
    create_tables(Post, GroupedLike)
    Post(post_id="a").save()
    Room(room_id="r").save()
    yield
    assert not LINES.lines, "nobody is left in a line"


def client() -> Any:
    return connection_for(Meta).client


def post_likes() -> Any:
    return Post.ref(post_id="a").likes


def tally() -> Any:
    return Post.like_tally.value(Post.ref(post_id="a"), consistent_read=True)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Their results, or the errors that they raised."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        gate.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def add(user: str) -> Callable[[], Any]:
    return lambda: post_likes().add(user_id=user)


def discard(user: str) -> Callable[[], Any]:
    return lambda: post_likes().discard(user_id=user)


# -- the declaration


@pytest.mark.parametrize("window", [0, -1, 1001, True, False, float("nan"), float("inf"), "5", 1e-400])
def test_a_window_that_is_none_is_refused_when_it_is_declared(window: Any) -> None:
    with pytest.raises(DeclarationError, match=r"group_commit=.*milliseconds above 0 and up to 1000"):
        CounterField(attr_name="n", group_commit=window)


# -- one caller


def test_a_lone_caller_gets_the_answers_that_it_would_get_without_groups() -> None:
    assert post_likes().add(user_id="ada")
    assert not post_likes().add(user_id="ada")
    with pytest.raises(AlreadyCounted, match=r"GroupedLike .*LIKE#USER#ada.* is there already"):
        GroupedLike(post_id="a", user_id="ada").save()
    like = GroupedLike(post_id="a", user_id="bob")
    assert like.save() == {}
    assert tally() == 2
    assert like.delete() == {}
    with pytest.raises(NotCounted, match=r"LIKE#USER#bob.* is not there"):
        like.delete()
    assert post_likes().discard(user_id="ada")
    assert not post_likes().discard(user_id="ada")
    with pytest.raises(ParentMissing, match="POST#gone"):
        GroupedLike(post_id="gone", user_id="ada").save()
    assert tally() == 0


def test_a_saved_child_is_edited_and_the_loaded_parent_follows() -> None:
    post = Post.get(post_id="a")
    assert post.likes.add(user_id="ada") and post.like_tally == 1
    like = GroupedLike.get(post_id="a", user_id="ada")
    like.note = "good"
    like.save()
    assert GroupedLike.get(post_id="a", user_id="ada").note == "good"
    assert post.likes.discard(user_id="ada") and post.like_tally == 0


def never(*_: Any) -> None:
    raise AssertionError("it went in a group")


def test_what_cannot_share_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    like = GroupedLike(post_id="a", user_id="ada")
    monkeypatch.setattr(grouped, "call_in_group", never)
    monkeypatch.setattr(fields, "call_in_group", never)
    like.save(GroupedLike.sk.does_not_exist())
    like.note = "good"
    like.save()
    like.delete(GroupedLike.note == "good")
    with transaction() as tx:
        tx.save(like)
    with uncounted():
        GroupedLike(post_id="a", user_id="bob").save()
        post_likes().discard(user_id="bob")
    GroupedSeat(room_id="r", user_id="ada", weight=0).save()  # counts nowhere
    video = Video.ref(video_id="v")
    Video.plays.increment(video, once="t")
    Video.plays.increment(video, set={"title": "hi"})
    Video.plays.increment(video, also={"skips": 1})
    Video.skips.increment(video)
    with pytest.raises(AssertionError, match="in a group"):
        post_likes().add(user_id="eve")
    with pytest.raises(AssertionError, match="in a group"):
        Video.plays.increment(video)


# -- several callers


@pytest.mark.real_engine
def test_calls_that_arrive_together_share_a_transaction_and_each_gets_its_answer() -> None:
    for user in ("old1", "old2"):
        post_likes().add(user_id=user)
    calls = [add(f"u{number}") for number in range(10)] + [add("u0"), add("old1"), discard("old2"), discard("no")]
    with record_requests(client()) as sent:
        told = at_once(calls)
    assert sum(told[:1] + told[10:11]) == 1 and told[1:10] == [True] * 9
    assert told[11:] == [False, True, False]
    assert tally() == len(list(post_likes())) == 11
    assert len(sent) <= 5


@pytest.mark.real_engine
def test_a_bound_lets_in_as_many_as_there_is_room_for_and_no_more() -> None:
    seats = Room.ref(room_id="r").seats
    told = at_once([lambda n=n: seats.add(user_id=str(n)) for n in range(THREADS)])  # type: ignore[misc]
    refused = [one for one in told if one is not True]
    assert told.count(True) == 5
    assert all(isinstance(one, CounterBoundError) and one.value == 5 for one in refused)
    assert len({id(one) for one in refused}) == len(refused), "each raises an error of its own"
    assert Room.seat_tally.value(Room.ref(room_id="r"), consistent_read=True) == len(list(seats)) == 5


@pytest.mark.real_engine
def test_a_group_of_likes_on_an_unseeded_post_seeds_it_once() -> None:
    key = {"PK": {"S": "POST#old"}, "SK": {"S": "META"}}
    client().put_item(TableName="Grouped", Item=key)
    client().put_item(TableName="Grouped", Item={**key, "SK": {"S": "LIKE#USER#old"}, "likedAt": {"N": "1"}})
    likes = Post.ref(post_id="old").likes
    assert at_once([lambda n=n: likes.add(user_id=str(n)) for n in range(8)]) == [True] * 8  # type: ignore[misc]
    assert Post.like_tally.value(Post.ref(post_id="old"), consistent_read=True) == likes.recount() == 9


@pytest.mark.real_engine
def test_under_conflicts_throttles_and_lost_answers_the_tally_is_the_count_and_every_caller_is_told_the_truth() -> None:
    history: dict[tuple[str, str], list[Event]] = defaultdict(list)
    lock = threading.Lock()
    posts = ("a", "b", "c")
    for post in posts[1:]:
        Post(post_id=post).save()
    rates = {Fault.CONFLICT: 0.10, Fault.THROTTLE: 0.05, Fault.LOST_RESPONSE: 0.10, Fault.INTERNAL_ERROR: 0.05}

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(60):
            post, user, adds = chance.choice(posts), f"u{chance.randrange(20)}", chance.random() < 0.6
            likes = Post.ref(post_id=post).likes
            began = time.monotonic()
            answer = likes.add(user_id=user) if adds else likes.discard(user_id=user)
            with lock:
                history[post, user].append(Event(began, time.monotonic(), adds, answer))

    with Conflicts(client()), FaultInjector(client(), rates=rates, seed=3) as faults:
        told = at_once([lambda n=n: work(n) for n in range(THREADS)])  # type: ignore[misc]
    assert told == [None] * THREADS
    assert faults.injected > 20
    for post in posts:
        there = {like.user_id for like in Post.ref(post_id=post).likes}
        assert Post.get(post_id=post, consistent_read=True).like_tally == len(there)
        for user in (f"u{number}" for number in range(20)):
            assert is_linearizable(history[post, user], False, user in there), history[post, user]


# -- plain counters


def summed(*amounts: Any, counter: Any = Video.plays) -> list[Any]:
    """The answers of one group of increments."""
    driver = Video._counting.driver("Video.plays")
    now, ref = time.monotonic(), Video.ref(video_id="v")
    moves = [increment_of(counter, ref, by, "add", None, None, "increment") for by in amounts]
    answers = send_summed(driver, [Ticket(move, now, now + 30, 0, "thread") for move in moves])
    number = counter.attr_name
    return [Decimal(a.value[number]["N"]) if isinstance(a, Told) else a.error for a in answers]


def test_increments_become_one_update_and_each_is_told_the_number_after_its_own() -> None:
    with record_requests(client()) as sent:
        assert summed(1, 5, -2, 1) == [1, 6, 4, 5]
    assert [operation for operation, _ in sent] == ["UpdateItem"]
    assert summed(2, -2) == [7, 5], "together they move nothing"


def test_fractions_are_summed_exactly_and_what_cannot_be_stored_as_a_sum_is_sent_one_by_one() -> None:
    assert summed(Decimal("0.1"), Decimal("0.2")) == [Decimal("0.1"), Decimal("0.3")]
    with record_requests(client()) as sent:
        summed(Decimal("1E+30"), Decimal("1E-20"))  # 51 digits together
    values = [
        list(request["ExpressionAttributeValues"].values()) for operation, request in sent if operation == "UpdateItem"
    ]
    assert values == [[{"N": str(10**30)}], [{"N": "1E-20"}]]


def test_of_increments_that_do_not_fit_together_the_first_ones_that_fit_are_counted() -> None:
    with record_requests(client()) as sent:
        answers = summed(4, 4, 11, 3, 2, counter=Video.left)
    assert answers[0:2] == [4, 8] and answers[4] == 10
    assert [error.value for error in answers[2:4]] == [0, 10]
    assert len(sent) == 2
    assert all(isinstance(error, CounterBoundError) for error in answers[2:4])


def test_ups_and_downs_of_a_bounded_counter_show_no_number_past_its_bounds() -> None:
    assert summed(9, counter=Video.left) == [9]
    down, up, full = summed(-1, 1, 1, counter=Video.left)
    assert (up, full.value, down) == (10, 10, 9)
    far, near = summed(-10, -1, counter=Video.left)
    assert (far.value, near) == (9, 8)


def test_a_counter_that_stores_no_number_is_told_to_all_of_a_group() -> None:
    key = {"PK": {"S": "VIDEO#v"}, "SK": {"S": "META"}}
    client().put_item(TableName="Grouped", Item={**key, "plays": {"S": "many"}})
    first, second = summed(1, 2)
    assert isinstance(first, CounterTypeError) and isinstance(second, CounterTypeError) and first is not second


def test_an_increment_whose_answer_is_lost_is_told_as_alone_it_would_be() -> None:
    assert summed(9, counter=Video.left) == [9]
    with FaultInjector(client()) as faults:
        faults.next(Fault.LOST_RESPONSE)
        answers = summed(1, counter=Video.left)
    assert isinstance(answers[0], OutcomeUnknown)


@pytest.mark.real_engine
def test_increments_of_many_threads_are_each_told_a_number_of_their_own() -> None:
    Video(video_id="v").save()

    def work() -> list[int]:
        return [Video.plays.increment(Video.ref(video_id="v")) for _ in range(10)]

    with record_requests(client()) as sent:
        told = at_once([work] * THREADS)
    assert sorted(number for mine in told for number in mine) == list(range(1, 10 * THREADS + 1))
    assert all(mine == sorted(mine) for mine in told)
    assert len(sent) <= 5 * THREADS
    assert at_once([lambda: Video.plays.decrement(Video.ref(video_id="v"))]) == [10 * THREADS - 1]


@pytest.mark.real_engine
def test_a_stock_of_ten_is_sold_ten_times() -> None:
    video = Video.ref(video_id="v")
    Video.left.increment(video, by=10)
    told = at_once([lambda: Video.left.decrement(video)] * 30)
    sold = [number for number in told if isinstance(number, int)]
    assert sorted(sold) == list(range(10))
    assert all(isinstance(error, CounterBoundError) and error.value == 0 for error in told if error not in sold)


# -- deadlines


class ShortMeta(Meta):
    counted_deadline = 0.4


class ShortPost(models.PostMeta):
    Meta = ShortMeta
    like_tally = CounterField(attr_name="likeTally", group_commit=30)
    likes: CountedSet[Any] = CountedSet("ShortLike", tally="like_tally")


class ShortLike(models.Like):
    Meta = ShortMeta
    post = CountedIn(ShortPost.like_tally)


@contextmanager
def held(seconds: float) -> Iterator[threading.Event]:
    """The first transaction takes this long, and more than its client waits for."""
    reached, once = threading.Event(), threading.Lock()

    def hold(**_: Any) -> None:
        if once.acquire(blocking=False):
            reached.set()
            time.sleep(seconds)

    events = connection_for(ShortMeta).client.meta.events
    events.register_first("before-send.dynamodb.TransactWriteItems", hold)
    try:
        yield reached
    finally:
        events.unregister("before-send.dynamodb.TransactWriteItems", hold)


@pytest.mark.real_engine
def test_a_callers_deadline_holds_and_what_it_is_told_is_true() -> None:
    likes = ShortPost.ref(post_id="a").likes
    took: dict[str, float] = {}
    told: dict[str, Any] = {}

    def call(user: str) -> None:
        began = time.monotonic()
        try:
            told[user] = likes.add(user_id=user)
        except Exception as error:
            told[user] = error
        took[user] = time.monotonic() - began

    with held(1.2) as reached:
        group = [threading.Thread(target=call, args=(user,)) for user in ("lead", "mate")]
        for thread in group:
            thread.start()
        assert reached.wait(5)
        late = threading.Thread(target=call, args=("late",))
        late.start()
        for thread in (*group, late):
            thread.join()
    leader, mate = ("lead", "mate") if took["lead"] > took["mate"] else ("mate", "lead")
    assert took[mate] < 0.9 and took["late"] < 0.9
    assert isinstance(told["late"], CounterContention), "it was in no group yet"
    assert isinstance(told[mate], (OutcomeUnknown, bool)) and isinstance(told[leader], (OutcomeUnknown, bool))
    there = {like.user_id for like in Post.ref(post_id="a").likes}
    assert "late" not in there
    assert tally() == len(there)
    assert all(user in there for user, answer in told.items() if answer is True)


@pytest.mark.real_engine
def test_a_throttled_group_gives_up_at_its_deadline_with_nothing_written() -> None:
    likes = ShortPost.ref(post_id="a").likes
    with FaultInjector(connection_for(ShortMeta).client, rates={Fault.THROTTLE: 1}):
        began = time.monotonic()
        told = at_once([lambda n=n: likes.add(user_id=str(n)) for n in range(6)])  # type: ignore[misc]
    assert time.monotonic() - began < 2
    assert all(isinstance(one, CounterContention) for one in told), told
    assert "nothing was written within 0.4 s" in str(told[0])
    assert tally() == 0


# -- interrupts, forks and the interpreter's exit


@pytest.mark.real_engine
def test_a_leader_that_is_interrupted_does_not_leave_the_others_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    send, interrupted = grouped._send, []

    def interrupt(driver: Any, group: Any) -> Any:
        if not interrupted:
            interrupted.append(group)
            raise KeyboardInterrupt
        return send(driver, group)

    monkeypatch.setattr(grouped, "_send", interrupt)

    def call(number: int) -> Any:
        try:
            return post_likes().add(user_id=str(number))
        except KeyboardInterrupt:
            return "interrupted"

    began = time.monotonic()
    told = at_once([lambda n=n: call(n) for n in range(8)])  # type: ignore[misc]
    assert time.monotonic() - began < 10
    assert told.count("interrupted") == 1
    unknown = [one for one in told if isinstance(one, OutcomeUnknown)]
    assert len(unknown) == len(interrupted[0]) - 1
    assert all("was interrupted" in str(one) for one in unknown)
    assert tally() == len(list(post_likes())) == told.count(True)


SETUP = """
import os, sys, threading, time
sys.path.insert(0, "tests")
from test_group_commit import Post, post_likes, tally, at_once, add, LINES
"""

FORK = """
done = []
thread = threading.Thread(target=lambda: done.append(post_likes().add(user_id="parent")))
thread.start()
while not LINES.lines:
    time.sleep(0.001)
with LINES.lock:  # as another thread may, while the process forks
    pid = os.fork()
    if pid == 0:
        assert not LINES.lines, "the parent's group"
        assert post_likes().add(user_id="child")
        os._exit(0)
_, status = os.waitpid(pid, 0)
thread.join()
assert status == 0, status
assert done == [True], done
users = [like.user_id for like in post_likes()]
assert sorted(users) == ["child", "parent"] and tally() == 2, users
"""

EXIT = """
def work(name):
    for number in range(1000):
        if post_likes().add(user_id=f"{name}-{number}"):
            os.write(1, f"{name}-{number}\\n".encode())
        if not name.startswith("daemon") and number == 5:
            return
for number in range(4):
    threading.Thread(target=work, args=(f"daemon{number}",), daemon=True).start()
    threading.Thread(target=work, args=(f"thread{number}",)).start()
import atexit
atexit.register(lambda: work("exit"))
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SETUP + script], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60
    )


@pytest.mark.real_engine
def test_a_fork_while_a_group_is_open_leaves_it_to_the_parent_and_does_not_hold_up_the_child() -> None:
    done = run(FORK)
    assert done.returncode == 0, done.stderr


@pytest.mark.real_engine
def test_at_the_interpreters_exit_threads_finish_and_what_was_answered_is_in_the_table() -> None:
    done = run(EXIT)
    assert done.returncode == 0, done.stderr
    answered = set(done.stdout.split())
    there = {like.user_id for like in post_likes()}
    assert {f"{name}-{number}" for name in ("thread0", "thread3", "exit") for number in range(6)} <= answered
    assert any(user.startswith("daemon") for user in answered)
    assert answered <= there
    assert tally() == len(there)


def test_no_thread_is_started() -> None:
    before = threading.active_count()
    post_likes().add(user_id="ada")
    assert threading.active_count() == before
