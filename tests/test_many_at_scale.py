"""Many callers of ``add_many()`` and of lone likes at once, with faults: exact, and each is told the truth."""

from __future__ import annotations

import threading
from collections import Counter
from random import Random
from typing import Any

import pytest

import social
from pynacount.connections import connection_for
from pynacount.testing import Engine, Fault, FaultInjector, create_tables
from social import Meta, Post, number, unseed

THREADS = 6
USERS = [f"u{n:02}" for n in range(60)]
POSTS = ["a", "b"]


@pytest.mark.real_engine
@pytest.mark.parametrize("seed", [1, 2])
def test_writers_of_many_and_of_one_at_once_are_all_told_the_truth(engine: Engine, seed: int) -> None:
    create_tables(Post)
    for post in POSTS:
        Post(post_id=post).save()
    unseed("POST#b", "likeTally")
    moved: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()
    trouble: list[BaseException] = []

    def work(number: int) -> None:
        chance = Random(f"{seed} {number}")
        try:
            for _ in range(12):
                adds = chance.random() < 0.6
                asked = [{"post_id": chance.choice(POSTS), "user_id": user} for user in chance.sample(USERS, 25)]
                lone = number == 0  # lone likes beside them
                done = [one for one in asked[:8] if alone(adds, one)] if lone else together(adds, asked)
                with lock:
                    for one in done:
                        moved[one["post_id"], one["user_id"]] += 1 if adds else -1
        except BaseException as error:
            trouble.append(error)

    def alone(adds: bool, one: dict[str, str]) -> bool:
        likes = Post.ref(post_id=one["post_id"]).likes
        return likes.add(user_id=one["user_id"]) if adds else likes.discard(user_id=one["user_id"])

    def together(adds: bool, asked: list[dict[str, str]]) -> list[Any]:
        result: Any = Post.likes.add_many(asked) if adds else Post.likes.discard_many(asked)
        for failed in result.failed:
            raise failed.error
        told = [id(values) for values in result.already]
        done = [values for values in asked if id(values) not in told]
        assert len(done) == (result.added if adds else result.discarded)
        return done

    rates = {Fault.CONFLICT: 0.1, Fault.LOST_RESPONSE: 0.1, Fault.THROTTLE: 0.05, Fault.INTERNAL_ERROR: 0.03}
    with FaultInjector(connection_for(Meta).client, rates=rates, seed=seed) as injector:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not trouble, trouble
    assert injector.injected
    for post in POSTS:
        there = {sk.removeprefix("LIKE#USER#") for _, sk in social.items(f"POST#{post}") if sk != "META"}
        assert there == {user for (p, user), count in moved.items() if p == post and count == 1}
        assert set(moved.values()) <= {0, 1}
        assert number(f"POST#{post}", "likeTally") == str(len(there))
