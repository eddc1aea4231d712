"""Likes in shards under traffic, while their number is changed, and tallies are audited and repaired."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from history import Event, is_linearizable
from party import ALL, Page, Post
from pynacount.connections import connection_for
from pynacount.tallies import audit, repair, reshard
from pynacount.testing import Fault, FaultInjector

WRITERS = 6
POSTS = tuple(f"p{number}" for number in range(3))
RATES = {Fault.CONFLICT: 0.05, Fault.THROTTLE: 0.03, Fault.LOST_RESPONSE: 0.03}


@pytest.mark.real_engine
def test_likes_and_unlikes_while_4_shards_become_16_and_8_and_the_tallies_are_repaired_stay_exact(
    tables: Callable[..., None],
) -> None:
    tables(*ALL)
    for post in POSTS[1:]:
        Post(post_id=post).save()
    connection = connection_for(Post.Meta)
    # One post was never counted: its first like seeds it.
    connection.dispatch("PutItem", {"TableName": "Party", "Item": {"PK": {"S": "POST#p0"}, "SK": {"S": "META"}}})
    history: dict[tuple[str, str], list[Event]] = defaultdict(list)
    lock, stop = threading.Lock(), threading.Event()

    def write(number: int) -> None:
        chance = random.Random(number)
        while not stop.is_set():
            post, user, adds = chance.choice(POSTS), f"u{chance.randrange(40)}", chance.random() < 0.55
            likes = Post.ref(post_id=post).likes
            began = time.monotonic()
            answer = likes.add(user_id=user) if adds else likes.discard(user_id=user)
            with lock:
                history[post, user].append(Event(began, time.monotonic(), adds, answer))

    seen: list[int | None] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(Post.like_tally.value(Post.ref(post_id=POSTS[1])))

    with FaultInjector(connection.client, rates=RATES, seed=7) as faults, ThreadPoolExecutor(WRITERS + 1) as pool:
        work = [pool.submit(write, number) for number in range(WRITERS)] + [pool.submit(read)]
        try:
            for to in (16, 8, 1, 4):
                time.sleep(0.5)
                failed = [row for row in reshard([Post.like_tally], to, workers=1) if row.status == "failed"]
                assert not failed
            for post in POSTS:
                time.sleep(0.3)
                Post.like_tally.repair(Post.ref(post_id=post))
            assert [row for row in audit([Post.like_tally], workers=1) if row.state == "drifted"] == []
            time.sleep(0.3)
        finally:
            stop.set()
        for done in work:
            done.result()
    assert faults.injected > 50
    assert all(value is not None and 0 <= value <= 40 for value in seen)
    for post in POSTS:
        ref = Post.ref(post_id=post)
        there = {like.user_id for like in ref.likes}
        assert Post.like_tally.value(ref, consistent_read=True) == len(there) == ref.likes.recount()
        for user in (f"u{number}" for number in range(40)):
            assert is_linearizable(history[post, user], False, user in there), history[post, user]
    assert {row.state for row in audit([Post.like_tally], workers=1)} == {"ok"}
    assert len(history) == 120


@pytest.mark.real_engine
def test_drifted_tallies_in_shards_are_mended_under_traffic(tables: Callable[..., None]) -> None:
    tables(*ALL)
    posts = [f"p{number}" for number in range(20)]
    for post in posts:
        Post(post_id=post).save()
        Post.ref(post_id=post).likes.add_many([{"user_id": str(user)} for user in range(10)])
    drifted = {f"POST#{post}" for post in posts[::2]}
    for post in posts[::2]:
        connection_for(Post.Meta).dispatch(
            "UpdateItem",
            {
                "TableName": "Party",
                "Key": {"PK": {"S": f"POST#{post}"}, "SK": {"S": "META#likeTally#3"}},
                "UpdateExpression": "ADD likeTally :n",
                "ExpressionAttributeValues": {":n": {"N": "7"}},
            },
        )
    stop = threading.Event()

    def write(number: int) -> None:
        chance = random.Random(number)
        while not stop.is_set():
            likes = Post.ref(post_id=chance.choice(posts)).likes
            user = f"w{number}-{chance.randrange(5)}"
            assert likes.add(user_id=user)
            assert likes.discard(user_id=user)
            time.sleep(0.02)

    with ThreadPoolExecutor(3) as pool:
        work = [pool.submit(write, number) for number in range(3)]
        try:
            mended: set[str] = set()
            for _ in range(10):  # a busy parent may be told to be moving, and a like under way may hide a drift once
                for row in repair([Post.like_tally], audit([Post.like_tally], workers=2), workers=2):
                    mended |= {row.key.values[0][1]} if row.status == "repaired" else set()
                if mended >= drifted:
                    break
        finally:
            stop.set()
        for one in work:
            one.result()
    assert mended == drifted
    assert {(row.state, row.count) for row in audit([Post.like_tally], workers=1)} == {("ok", 10)}


@pytest.mark.real_engine
def test_plain_increments_of_many_threads_are_all_counted_while_the_shards_change(tables: Callable[..., None]) -> None:
    tables(*ALL)
    page = Page.ref(page_id="p")

    def work(number: int) -> None:
        for _ in range(100):
            Page.views.increment(page)

    with ThreadPoolExecutor(WRITERS) as pool:
        done = [pool.submit(work, number) for number in range(WRITERS)]
        for to in (9, 3, 7):
            Page.views.reshard(page, to)
        for one in done:
            one.result()
    assert Page.views.value(page, consistent_read=True) == 100 * WRITERS
