"""Threads, conflicts, throttles and lost answers, all at once, on an engine that is safe under threads."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import PutError

from history import Event, is_linearizable
from pynacount import CountedIn, models
from pynacount.connections import connection_for
from pynacount.testing import Fault, FaultInjector

THREADS = 8


class Post(models.PostMeta):
    edits = NumberAttribute(null=True)
    version = VersionAttribute()

    class Meta:
        table_name = "Stress"
        counted_deadline = 60
        max_pool_connections = 2 * THREADS


class Like(models.Like):
    post = CountedIn(Post.like_tally)
    note = UnicodeAttribute(null=True)

    class Meta:
        table_name = "Stress"
        counted_deadline = 60
        max_pool_connections = 2 * THREADS


def in_threads(work: Callable[[int], None]) -> None:
    """Run ``work(0)`` to ``work(THREADS - 1)`` at once; the first exception is raised."""
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(run, number) for number in range(THREADS)]:
            done.result()


@pytest.mark.real_engine
def test_five_thousand_likes_and_unlikes_under_faults_leave_no_drift_and_no_false_answer(
    tables: Callable[..., None],
) -> None:
    tables(Post)
    posts = [f"p{number}" for number in range(5)]
    for post in posts:
        Post(post_id=post).save()
    history: dict[tuple[str, str], list[Event]] = defaultdict(list)
    lock = threading.Lock()
    rates = {Fault.CONFLICT: 0.10, Fault.THROTTLE: 0.05, Fault.LOST_RESPONSE: 0.05}

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(5000 // THREADS):
            post, user, adds = chance.choice(posts), f"u{chance.randrange(50)}", chance.random() < 0.55
            likes = Post.ref(post_id=post).likes
            began = time.monotonic()
            answer = likes.add(user_id=user) if adds else likes.discard(user_id=user)
            event = Event(began, time.monotonic(), adds, answer)
            with lock:
                history[post, user].append(event)

    with FaultInjector(connection_for(Post.Meta).client, rates=rates, seed=1) as faults:
        in_threads(work)
    assert faults.injected > 800

    for post in posts:
        there = {like.user_id for like in Post.ref(post_id=post).likes}
        assert Post.get(post_id=post, consistent_read=True).like_tally == len(there)
        for user in (f"u{number}" for number in range(50)):
            assert is_linearizable(history[post, user], False, user in there), history[post, user]


@pytest.mark.real_engine
def test_a_thousand_edits_while_a_thousand_likes_arrive_lose_neither(tables: Callable[..., None]) -> None:
    tables(Post)
    Post(post_id="a91f", body="", edits=0).save()
    editors = 2
    done: list[int] = []

    def edit() -> None:
        while True:
            post = Post.get(post_id="a91f", consistent_read=True)
            post.edits = (post.edits or 0) + 1
            try:
                post.save()
            except PutError as error:
                assert error.cause_response_code == "ConditionalCheckFailedException"
            else:
                return

    def work(number: int) -> None:
        if number < editors:
            for _ in range(1000 // editors):
                edit()
                done.append(1)
        else:
            for like in range(number, 1000, THREADS):
                assert Post.ref(post_id="a91f").likes.add(user_id=str(like))
            if number >= THREADS - editors:  # the likes that the editors' numbers leave over
                for like in range(number - (THREADS - editors), 1000, THREADS):
                    assert Post.ref(post_id="a91f").likes.add(user_id=str(like))

    in_threads(work)
    post = Post.get(post_id="a91f", consistent_read=True)
    assert (post.edits, len(done), post.version) == (1000, 1000, 1001)
    assert post.like_tally == post.likes.recount() == 1000


@pytest.mark.real_engine
def test_writers_that_meet_an_unseeded_post_all_at_once_seed_it_exactly(tables: Callable[..., None]) -> None:
    tables(Post)
    legacy: Any = connection_for(Post.Meta).client
    for post in range(10):
        legacy.put_item(TableName="Stress", Item={"PK": {"S": f"POST#{post}"}, "SK": {"S": "META"}})
        for user in range(30):
            item = {"PK": {"S": f"POST#{post}"}, "SK": {"S": f"LIKE#USER#old{user}"}, "likedAt": {"N": "1"}}
            legacy.put_item(TableName="Stress", Item=item)

    def work(number: int) -> None:
        for post in range(10):
            likes = Post.ref(post_id=str(post)).likes
            assert likes.add(user_id=f"new{number}")
            assert likes.discard(user_id=f"old{number}")
            if number == 0:
                Post.like_tally.seed(Post.ref(post_id=str(post)))

    in_threads(work)
    for post in range(10):
        ref = Post.ref(post_id=str(post))
        assert Post.like_tally.value(ref, consistent_read=True) == ref.likes.recount() == 30
