"""Likes per second of one post that 64 threads like at once, on one engine.

    python -m tests.benchmarks.hot_post
    python -m tests.benchmarks.hot_post --endpoint http://127.0.0.1:4566   # another engine, which runs there, empty

Four ways: one transaction per like, written by hand on PynamoDB and tried again on a conflict; pynacount plain;
sharded, where ``CounterField`` takes ``shards``; and group commit. Each under DynamoDB's conflicts, by the model of
``pynacount.testing.Conflicts``, and without, which is how local engines are. In rounds, each way in turn, so that what
else the machine does hits all alike; which one comes first changes from round to round. After each the tally is
compared to the likes. The figures to look at are the ratios of the medians.

``WCU`` is 2 for each item of each transaction that was sent, the refused ones included, for each like. ``wait`` is how
long a caller waited for its answer. ``transaction`` is the longest (p99) that one request took, as the client saw it.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import itertools
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from pynacount import CountedIn, CountedSet, CounterField, models
from pynacount.commit import FIRST_BACKOFF, MAX_BACKOFF
from pynacount.connections import connection_for
from pynacount.testing import Conflicts, create_tables, engine
from pynacount.testing.environment import ISOLATED, environment, leads_to

THREADS = 64
SHARDS = 10
GROUP = "pynacount, group commit"
DEADLINE = 120
NOW = 1750636800


class Settings:
    table_name = "Social"
    max_pool_connections = THREADS
    counted_deadline = DEADLINE


class HandPost(Model):
    class Meta(Settings):
        pass

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
    like_tally = NumberAttribute(attr_name="likeTally", null=True)


class HandLike(Model):
    class Meta(Settings):
        pass

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
    liked_at = NumberAttribute(attr_name="likedAt")


class Post(models.PostMeta):
    class Meta(Settings):
        pass


class Like(models.Like):
    class Meta(Settings):
        pass

    post = CountedIn(Post.like_tally)


@dataclass(slots=True)
class Way:
    """One way to like a post, and the client that it goes by."""

    name: str
    client: Any
    create: Callable[[str], object]
    like: Callable[[str, str], object]
    tally: Callable[[str], int | None]


@dataclass(slots=True)
class Round:
    """What one way did in one round."""

    seconds: float
    likes: int
    waits: list[float]
    requests: list[float]
    items: int
    conflicts: int

    @property
    def rate(self) -> float:
        return self.likes / self.seconds

    @property
    def units(self) -> float:
        return 2 * self.items / self.likes


@dataclass(slots=True)
class Counted:
    """The transactions that a client sends: how many items, and how long each takes."""

    items: int = 0
    seconds: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    began: threading.local = field(default_factory=threading.local)

    @contextmanager
    def of(self, client: Any) -> Iterator[None]:
        events = (("provide-client-params", self.begin), ("after-call", self.end))
        for event, handler in events:
            client.meta.events.register_first(f"{event}.dynamodb.TransactWriteItems", handler)
        try:
            yield
        finally:
            for event, handler in events:
                client.meta.events.unregister(f"{event}.dynamodb.TransactWriteItems", handler)

    def begin(self, params: Any, **_: Any) -> None:
        self.began.at = time.perf_counter()
        with self.lock:
            self.items += len(params["TransactItems"])

    def end(self, http_response: Any, **_: Any) -> None:
        if http_response.status_code == 200:
            self.seconds.append(time.perf_counter() - self.began.at)


def hand_written() -> Way:
    connection = Connection(max_pool_connections=THREADS, max_retry_attempts=0)

    def like(post: str, user: str) -> None:
        for attempt in itertools.count():
            try:
                with TransactWrite(connection=connection) as transaction:
                    transaction.save(
                        HandLike(f"POST#{post}", f"LIKE#USER#{user}", liked_at=NOW),
                        condition=HandLike.sk.does_not_exist(),
                    )
                    transaction.update(
                        HandPost(f"POST#{post}", "META"),
                        actions=[HandPost.like_tally.add(1)],
                        condition=HandPost.like_tally.exists(),
                    )
                return
            except TransactWriteError as error:
                codes = {reason.code for reason in error.cancellation_reasons if reason is not None}
                if "TransactionConflict" not in codes:
                    raise
            time.sleep(random.uniform(0, min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** min(attempt, 16))))

    def tally(post: str) -> int | None:
        return HandPost.get(f"POST#{post}", "META", consistent_read=True).like_tally  # type: ignore[return-value]

    return Way(
        "hand-written PynamoDB",
        connection.client,
        lambda post: HandPost(f"POST#{post}", "META", like_tally=0).save(),
        like,
        tally,
    )


def counted(name: str, post_model: Any, like_model: Any) -> Way:
    return Way(
        name,
        connection_for(like_model.Meta).client,
        lambda post: post_model(post_id=post).save(),
        lambda post, user: post_model.ref(post_id=post).likes.add(user_id=user, liked_at=NOW),
        lambda post: post_model.like_tally.value(post_model.ref(post_id=post), consistent_read=True),
    )


def sharded() -> list[Way]:
    """Where there are sharded counters."""
    if "shards" not in inspect.signature(CounterField).parameters:
        return []
    sharding: dict[str, Any] = {"shards": SHARDS}

    class ShardPost(models.PostMeta):
        class Meta(Settings):
            table_name = "Sharded"

        like_tally = CounterField(attr_name="likeTally", **sharding)
        likes: CountedSet[Any] = CountedSet("ShardLike", tally="like_tally")

    class ShardLike(models.Like):
        class Meta(Settings):
            table_name = "Sharded"

        post = CountedIn(ShardPost.like_tally)

    create_tables(ShardPost, ShardLike)
    return [counted(f"pynacount, {SHARDS} shards", ShardPost, ShardLike)]


def grouped(window: float) -> Way:
    """Group commit, its window in milliseconds."""

    class GroupPost(models.PostMeta):
        class Meta(Settings):
            table_name = "Grouped"

        like_tally = CounterField(attr_name="likeTally", group_commit=window)
        likes: CountedSet[Any] = CountedSet("GroupLike", tally="like_tally")

    class GroupLike(models.Like):
        class Meta(Settings):
            table_name = "Grouped"

        post = CountedIn(GroupPost.like_tally)

    create_tables(GroupPost, GroupLike)
    return counted(GROUP, GroupPost, GroupLike)


@contextmanager
def delayed(client: Any, milliseconds: float) -> Iterator[None]:
    """The way to a region and back."""

    def wait(**_: Any) -> None:
        time.sleep(milliseconds / 1000)

    if milliseconds:
        client.meta.events.register_last("before-send.dynamodb.TransactWriteItems", wait)
    try:
        yield
    finally:
        if milliseconds:
            client.meta.events.unregister("before-send.dynamodb.TransactWriteItems", wait)


def measure(way: Way, post: str, seconds: float, latency: float, *, conflicts: bool) -> Round:
    """Let all threads like a new post for so long."""
    way.create(post)
    gate, stop = threading.Barrier(THREADS + 1), threading.Event()
    waits: list[list[float]] = [[] for _ in range(THREADS)]
    counts = Counted()
    failed: list[BaseException] = []

    def work(number: int) -> None:
        mine = waits[number]
        gate.wait()
        try:
            for like in itertools.count():
                if stop.is_set():
                    return
                began = time.perf_counter()
                way.like(post, f"{number}-{like}")
                mine.append(time.perf_counter() - began)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    with ExitStack() as stack:
        met = stack.enter_context(Conflicts(way.client)) if conflicts else None
        stack.enter_context(delayed(way.client, latency))
        stack.enter_context(counts.of(way.client))
        for thread in threads:
            thread.start()
        gc.collect()
        gate.wait()
        began = time.perf_counter()
        time.sleep(seconds)
        stop.set()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
    if failed:
        raise failed[0]
    likes = sum(map(len, waits))
    if way.tally(post) != likes:
        raise SystemExit(f"{way.name}: {likes} likes were answered, and the tally is {way.tally(post)}")
    every = [wait for mine in waits for wait in mine]
    return Round(took, likes, every, counts.seconds, counts.items, met.met if met else 0)


def percentile(values: list[float], part: float) -> float:
    """In milliseconds."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] * 1000


def show(title: str, found: dict[str, list[Round]], window: float) -> None:
    print(f"\n{title}")
    print(
        f"{'':24} {'likes/s':>8} {'(min, max)':>16} {'WCU':>6} {'wait p50':>9} {'p99 ms':>8} {'transaction p50':>16} "
        f"{'p99 ms':>7} {'conflicts':>10}"
    )
    for name, rounds in found.items():
        rates = [one.rate for one in rounds]
        waits = [wait for one in rounds for wait in one.waits]
        requests = [wait for one in rounds for wait in one.requests]
        print(
            f"{name:24} {statistics.median(rates):8.0f} {f'({min(rates):.0f}, {max(rates):.0f})':>16} "
            f"{sum(2 * one.items for one in rounds) / sum(one.likes for one in rounds):6.2f} "
            f"{percentile(waits, 0.5):9.1f} {percentile(waits, 0.99):8.1f} {percentile(requests, 0.5):16.1f} "
            f"{percentile(requests, 0.99):7.1f} {sum(one.conflicts for one in rounds):10}"
        )
    ours = found[GROUP]
    for name, rounds in found.items():
        if rounds is not ours:
            pairs = [mine.rate / theirs.rate for mine, theirs in zip(ours, rounds, strict=True)]
            ratio = statistics.median(one.rate for one in ours) / statistics.median(one.rate for one in rounds)
            print(f"group commit / {name:24} {ratio:6.1f}  (rounds: {', '.join(f'{pair:.1f}' for pair in pairs)})")
    waits = [wait for one in ours for wait in one.waits]
    requests = [wait for one in ours for wait in one.requests]
    bound = window + 2 * percentile(requests, 0.99)
    print(
        f"p99 wait of group commit: {percentile(waits, 0.99):.1f} ms; the window and two transactions: {bound:.1f} ms"
    )
    sys.stdout.flush()


def running(endpoint: str | None) -> AbstractContextManager[object]:
    """The engine at this endpoint, for every client made while the block runs; DynamoDB Local where there is none."""
    if endpoint is None:
        return engine("dynamodb-local")
    return environment({**ISOLATED, **leads_to(endpoint)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint", help="where another engine listens; without it, DynamoDB Local is started")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each way in each round")
    parser.add_argument("--latency", type=float, default=0, help="milliseconds added to each transaction")
    parser.add_argument("--window", type=float, default=20, help="milliseconds, of group commit")
    parser.add_argument("--only", choices=["conflicts", "none"], help="measure with conflicts, or without, alone")
    arguments = parser.parse_args()
    with running(arguments.endpoint):
        create_tables(Post, Like)
        ways = [
            hand_written(),
            counted("pynacount", Post, Like),
            *sharded(),
            grouped(arguments.window),
        ]
        kinds = {None: [True, False], "conflicts": [True], "none": [False]}[arguments.only]
        posts = map("post-{}".format, itertools.count())
        for way in [*ways, *ways]:  # the engine compiles the path of a write only after some thousands of them
            measure(way, next(posts), arguments.seconds, 0, conflicts=False)
        found: dict[bool, dict[str, list[Round]]] = {kind: {way.name: [] for way in ways} for kind in kinds}
        for round_ in range(arguments.rounds):
            for kind in kinds:
                turn = ways[round_ % len(ways) :] + ways[: round_ % len(ways)]
                for way in turn:
                    found[kind][way.name].append(
                        measure(way, next(posts), arguments.seconds, arguments.latency, conflicts=kind)
                    )
        for kind in kinds:
            show(f"{'with' if kind else 'without'} conflicts, {THREADS} threads", found[kind], arguments.window)


if __name__ == "__main__":
    main()
