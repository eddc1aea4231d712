"""Seeding a live table among many writers, under kills, and along the steps by which old code is replaced."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from history import Event, is_linearizable
from loading import like_item, load, post_item, zipf
from pynacount import CountedIn, CountedSet, CounterField, models
from pynacount.connections import connection_for
from pynacount.errors import CounterNotSeeded
from pynacount.inspecting import inspect
from pynacount.tallies import Tracking, migrate
from social import raw

pytestmark = pytest.mark.real_engine


class Meta:
    table_name = "Scale"
    counted_deadline = 60
    max_pool_connections = 32


class Post(models.PostMeta):
    """A writer counts a post with few likes on its way; the others are left to the migration."""

    Meta = Meta
    like_tally = CounterField(attr_name="likeTally", lazy_seed_limit=20)


class Like(models.Like):
    Meta = Meta
    post = CountedIn(Post.like_tally)


@pytest.fixture(autouse=True)
def table(tables: Callable[..., None]) -> None:
    tables(Post)


def fill(likes: dict[str, int]) -> None:
    """Posts and their likes, as a program wrote them that knew no tally."""
    load(raw(), "Scale", (post_item(post) for post in likes))
    load(raw(), "Scale", (like_item(post, f"{n:04}") for post, many in likes.items() for n in range(many)))


@dataclass(slots=True)
class Stored:
    """A post as it is in the table: its tally, and who likes it."""

    tally: int | None = None
    users: set[str] = field(default_factory=set)

    @property
    def drifted(self) -> bool:
        return self.tally != len(self.users)


def stored() -> dict[str, Stored]:
    found: dict[str, Stored] = defaultdict(Stored)
    for page in raw().get_paginator("scan").paginate(TableName="Scale", ConsistentRead=True):
        for item in page["Items"]:
            post, sort = found[item["PK"]["S"].removeprefix("POST#")], item["SK"]["S"]
            if sort == "META":
                post.tally = int(item["likeTally"]["N"]) if "likeTally" in item else None
            else:
                post.users.add(sort.removeprefix("LIKE#USER#"))
    return dict(found)


class History:
    """What every writer was told, like by like."""

    def __init__(self) -> None:
        self._before = {post: set(found.users) for post, found in stored().items()}
        self._events: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self._lock = threading.Lock()

    def note(self, post: str, user: str, event: Event) -> None:
        with self._lock:
            self._events[post, user].append(event)

    def check(self, after: dict[str, Stored]) -> None:
        """The answers fit the table as it was before and is now."""
        for (post, user), events in self._events.items():
            there = user in self._before.get(post, ())
            assert is_linearizable(events, there, user in after[post].users), (post, user, events)


Write = Callable[[str, str, bool], bool]
"""Adds or removes the like of a post by a user; whether that changed anything."""


class Writers:
    """Threads that like and unlike until they are stopped."""

    def __init__(self, name: str, threads: int, posts: list[str], users: int, write: Write, history: History) -> None:
        self._posts, self._users, self._write, self._history = posts, users, write, history
        self._stop = threading.Event()
        self._moved = threading.Condition()
        self._calls = 0
        self.turned_away: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(threads)
        self._people = [self._pool.submit(self._work, random.Random(f"{name}{n}")) for n in range(threads)]

    def _work(self, dice: random.Random) -> None:
        try:
            while not self._stop.is_set():
                self._one(dice)
        finally:
            with self._moved:
                self._moved.notify_all()

    def _one(self, dice: random.Random) -> None:
        post, user, adds = dice.choice(self._posts), f"{dice.randrange(self._users):04}", dice.random() < 0.5
        began = time.monotonic()
        try:
            answer = self._write(post, user, adds)
        except CounterNotSeeded:  # nothing was written
            with self._moved:
                self.turned_away[post] += 1
        else:
            self._history.note(post, user, Event(began, time.monotonic(), adds, answer))
        with self._moved:
            self._calls += 1
            self._moved.notify_all()

    def go_on(self, calls: int) -> None:
        """Wait until so many more calls were made."""
        with self._moved:
            enough = self._calls + calls
            self._moved.wait_for(lambda: self._calls >= enough or any(one.done() for one in self._people), 60)
            if self._calls >= enough:
                return
        self.stop()
        raise AssertionError("the writers have stopped, or stand still")

    def stop(self) -> None:
        """Let each end its call, and raise what one of them met."""
        self._stop.set()
        self._pool.shutdown()
        for one in self._people:
            one.result()


def by_library(model: Any) -> Write:
    def write(post: str, user: str, adds: bool) -> bool:
        likes = model.ref(post_id=post).likes
        changed: bool = likes.add(user_id=user) if adds else likes.discard(user_id=user)
        return changed

    return write


def by_hand(post: str, user: str, adds: bool) -> bool:
    """A like as old code writes it, which knows no tally."""
    item = like_item(post, user)
    try:
        if adds:
            raw().put_item(TableName="Scale", Item=item, ConditionExpression="attribute_not_exists(PK)")
        else:
            key = {name: item[name] for name in ("PK", "SK")}
            raw().delete_item(TableName="Scale", Key=key, ConditionExpression="attribute_exists(PK)")
    except ClientError as error:
        assert error.response["Error"]["Code"] == "ConditionalCheckFailedException"
        return False
    return True


def test_eight_writers_throughout_a_migration_are_told_the_truth_and_leave_every_tally_exact() -> None:
    likes = dict(zip(map("p{:03}".format, range(300)), zipf(300, 3000), strict=True))
    large = {post for post, many in likes.items() if many > 100}
    fill(likes)
    history, track = History(), Tracking()
    posts = [*likes, *sorted(large) * 20]  # the large ones are liked most, as anywhere
    writers = Writers("people", 8, posts, 40, by_library(Post), history)
    try:
        writers.go_on(200)
        outcomes = list(migrate([Post.like_tally], workers=2, segments=8, wcu_per_second=100, tracking=track))
        writers.go_on(200)
    finally:
        writers.stop()
    assert {seeded.status for seeded in outcomes} == {"seeded"}
    migrated = {seeded.key.values[0][1].removeprefix("POST#") for seeded in outcomes}
    assert large <= migrated and large <= writers.turned_away.keys()
    assert track.present > 0  # counted by a writer before the scan came to them
    after = stored()
    assert {post: found.tally for post, found in after.items() if found.drifted} == {}
    assert after.keys() == likes.keys()
    history.check(after)


# -- kills

MOMENTS = {
    "a page is asked for": "before-call.dynamodb.Scan",
    "a page is there": "after-call.dynamodb.Scan",
    "tallies are being written": "before-call.dynamodb.BatchExecuteStatement",
    "tallies were written": "after-call.dynamodb.BatchExecuteStatement",
}
LETTERS = dict(zip(MOMENTS, "pPwW", strict=True))
KILLS = 25
PAGE = 12
"""Items of a page: so a small table has many."""


def run_migration(state: Path, out: int) -> None:
    """The migration in a process of its own, with a letter written for every moment."""
    events = connection_for(Meta).client.meta.events

    def cut(params: dict[str, Any], **_: Any) -> None:
        params["Limit"] = PAGE

    def tell(letter: bytes) -> Callable[..., None]:
        def write(**_: Any) -> None:
            os.write(out, letter)

        return write

    events.register("before-parameter-build.dynamodb.Scan", cut)
    for moment, event in MOMENTS.items():
        events.register(event, tell(LETTERS[moment].encode()))
    for _ in migrate([Post.like_tally], workers=2, state=state):
        pass


def migration(state: Path, moment: str = "", times: int = 0) -> Counter[str]:
    """Run it, and kill it when the moment has come so many times; gives how often each came."""
    out, into = os.pipe()
    # A fork has all imported at once; the library makes its connections anew in it.
    child = multiprocessing.get_context("fork").Process(target=run_migration, args=(state, into))
    child.start()
    os.close(into)
    seen: Counter[str] = Counter()
    while letter := os.read(out, 1):
        seen[letter.decode()] += 1
        if moment and seen[LETTERS[moment]] == times:
            child.kill()
            break
    while rest := os.read(out, 4096):
        seen.update(rest.decode())
    os.close(out)
    child.join()
    assert child.exitcode == (-signal.SIGKILL if moment else 0), "it failed, or came to its end before it was killed"
    return Counter({name: seen[one] for name, one in LETTERS.items()})


def test_killed_25_times_at_random_moments_it_ends_exact_and_reads_little_twice(tmp_path: Path) -> None:
    likes = {f"p{post:03}": post % 6 for post in range(250)}
    fill(likes)
    dice = random.Random(7)
    moments = [*MOMENTS] * (KILLS // len(MOMENTS)) + dice.sample([*MOMENTS], KILLS % len(MOMENTS))
    dice.shuffle(moments)
    seen: Counter[str] = Counter()
    seeded = [0]
    for moment in moments:
        seen += migration(tmp_path / "state", moment, dice.randint(1, 6))
        seeded.append(sum(post.tally is not None for post in stored().values()))
    assert seeded == sorted(seeded)
    assert len(set(seeded)) > KILLS / 2  # they were spread over the run
    seen += migration(tmp_path / "state")
    assert {post: found.tally for post, found in stored().items()} == likes
    undisturbed = migration(tmp_path / "another")
    pages = "a page is asked for"
    assert seen[pages] <= undisturbed[pages] + 2 * KILLS  # one a segment for each kill


# -- old code and new


class Early(models.PostMeta):
    """The post of the first step: old code that does not count is still running beside it."""

    Meta = Meta
    like_tally = CounterField(attr_name="likeTally", missing="defer")
    likes: CountedSet[Any] = CountedSet("EarlyLike", tally="like_tally")


class EarlyLike(models.Like):
    Meta = Meta
    post = CountedIn(Early.like_tally)


class Later(models.PostMeta):
    """The post of the second step. Few likes are counted on the way, so that a migration has something to do."""

    Meta = Meta
    like_tally = CounterField(attr_name="likeTally", lazy_seed_limit=5, settle=0.1)
    likes: CountedSet[Any] = CountedSet("LaterLike", tally="like_tally")


class LaterLike(models.Like):
    Meta = Meta
    post = CountedIn(Later.like_tally)


USERS = 12


class Rollout:
    """Generations of writers of the same posts. Each creates a few as well, which all then like."""

    def __init__(self) -> None:
        likes = {f"p{post:02}": post % 10 for post in range(40)}
        fill(likes)
        self.posts, self.history = list(likes), History()
        self._running: list[Writers] = []

    def start(self, name: str, write: Write, born: Callable[[str], Any]) -> Writers:
        for post in (f"{name}{number}" for number in range(3)):
            born(post)
            self.posts.append(post)
        writers = Writers(name, 2, self.posts, USERS, write, self.history)
        self._running.append(writers)
        return writers

    def old(self) -> Writers:
        return self.start("old", by_hand, lambda post: load(raw(), "Scale", [post_item(post)]))

    def early(self) -> Writers:
        return self.start("early", by_library(Early), lambda post: Early(post_id=post).save())

    def later(self) -> Writers:
        return self.start("later", by_library(Later), lambda post: Later(post_id=post).save())

    def __enter__(self) -> Rollout:
        return self

    def __exit__(self, *_: object) -> None:
        for writers in self._running:
            writers.stop()


def test_old_code_replaced_by_the_three_steps_leaves_every_tally_exact() -> None:
    with Rollout() as rollout:
        old = rollout.old()
        old.go_on(100)
        early = rollout.early()  # step 1
        early.go_on(200)
        old.go_on(200)
        old.stop()
        later = rollout.later()  # step 2
        later.go_on(200)
        early.go_on(100)
        outcomes = list(migrate([Later.like_tally], workers=2))  # step 3
        early.go_on(100)
        later.go_on(100)
    assert outcomes and {seeded.status for seeded in outcomes} == {"seeded"}
    after = stored()
    assert {post: found for post, found in after.items() if found.drifted} == {}
    assert after.keys() == set(rollout.posts)
    rollout.history.check(after)


def test_old_code_left_running_beside_the_second_step_is_told_as_drift_and_repaired() -> None:
    with Rollout() as rollout:
        old = rollout.old()
        old.go_on(100)
        later = rollout.later()
        later.go_on(100)
        list(migrate([Later.like_tally], workers=2))
        old.go_on(200)
    after = stored()
    drifted = {post for post, found in after.items() if found.drifted}
    assert drifted
    rollout.history.check(after)  # the likes are what everybody was told; the tallies are not

    def told() -> set[str]:
        looks = {post: list(inspect([Later.like_tally], Later.ref(post_id=post), 0)) for post in after}
        return {post for post, (*_, summary) in looks.items() if summary.drifted == ("Later.like_tally",)}

    assert told() == drifted
    for post in drifted:
        Later.like_tally.repair(Later.ref(post_id=post))
    assert not told() and not any(found.drifted for found in stored().values())
