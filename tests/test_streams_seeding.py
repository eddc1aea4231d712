"""Seeding counters that are kept from a stream, on an engine that has streams."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from files import ALL, Event, FileCount, Like, Post, file_count, number, raw, stored
from pynacount.commands import group
from pynacount.errors import DeclarationError, ParentMissing
from pynacount.streams import StreamTally, migrate, run, seed
from writers import at_work

pytestmark = pytest.mark.real_engine


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


def like(post: int, user: int | str) -> None:
    raw().put_item(TableName="Board", Item={"PK": {"S": f"POST#{post}"}, "SK": {"S": f"LIKE#{user}"}})


def unlike(post: int, user: int | str) -> None:
    raw().delete_item(TableName="Board", Key={"PK": {"S": f"POST#{post}"}, "SK": {"S": f"LIKE#{user}"}})


def tally(post: int) -> int | None:
    return number(stored("Board", PK=f"POST#{post}", SK="META"), "likeTally")


def likes(post: int) -> int:
    answer = raw().query(
        TableName="Board",
        ConsistentRead=True,
        Select="COUNT",
        KeyConditionExpression="PK = :pk AND begins_with(SK, :sk)",
        ExpressionAttributeValues={":pk": {"S": f"POST#{post}"}, ":sk": {"S": "LIKE#"}},
    )
    found: int = answer["Count"]
    return found


@contextmanager
def consuming() -> Iterator[None]:
    """A consumer that runs meanwhile; at the end it has read all there is."""
    stop = threading.Event()
    tally = StreamTally(Like)
    runner = threading.Thread(target=lambda: run(tally, stop=stop.is_set, poll=0.02))
    runner.start()
    try:
        yield
    finally:
        stop.set()
        runner.join()
        run(StreamTally(Like), idle=0.3)


@contextmanager
def writing(posts: int, threads: int = 4) -> Iterator[list[int]]:
    """Writers that know nothing of the library, each with users of its own."""
    done = [0] * threads

    def write(place: int, stop: threading.Event) -> None:
        chance = random.Random(place)
        while not stop.is_set():
            post, user = chance.randrange(posts), f"{place}-{chance.randrange(30)}"
            (like if chance.random() < 0.6 else unlike)(post, user)
            done[place] += 1

    with at_work(threads, write):
        yield done


def test_seeding_under_four_writers_is_exact() -> None:
    posts = 6
    for post in range(posts):
        Post(post_id=str(post)).save()
        for user in range(40):
            like(post, f"old-{user}")
    with consuming(), writing(posts) as done:
        time.sleep(0.3)  # the consumer is at work, and in some places behind
        outcomes = list(migrate([Post.like_tally]))
        made = sum(done)
        while sum(done) < made + 200:  # and they go on
            time.sleep(0.01)
    run(StreamTally(Like), idle=0.3)
    assert [outcome.status for outcome in outcomes] == ["seeded"] * posts
    assert [tally(post) for post in range(posts)] == [likes(post) for post in range(posts)]
    assert not [i for i in raw().scan(TableName="Board")["Items"] if i["SK"]["S"].startswith("PYNACOUNT#")]


def test_a_consumer_that_is_behind_the_seeder_or_never_ran_counts_nothing_twice() -> None:
    Post(post_id="1").save()
    like(1, "ada")
    assert seed(Post.like_tally, Post.ref(post_id="1")) == {Post.ref(post_id="1"): 1}
    like(1, "bob")
    assert tally(1) == 1
    run(StreamTally(Like), idle=0)  # from the oldest record on, ada's too
    assert tally(1) == 2


def test_what_the_consumer_met_before_the_seeding_waits_for_it() -> None:
    Post(post_id="1").save()
    like(1, "ada")
    run(StreamTally(Like), idle=0)
    assert tally(1) is None and stored("Board", PK="POST#1", SK="META")["likeTallyMoved"] == {"N": "1"}
    seed(Post.like_tally, Post.ref(post_id="1"))
    run(StreamTally(Like), idle=0)
    assert tally(1) == 1 and "likeTallyMoved" not in stored("Board", PK="POST#1", SK="META")


def test_a_counter_that_drifted_is_counted_anew() -> None:
    Post(post_id="1").save()
    like(1, "ada")
    key = {"PK": {"S": "POST#1"}, "SK": {"S": "META"}}
    seed(Post.like_tally, Post.ref(post_id="1"))
    raw().update_item(
        TableName="Board",
        Key=key,
        UpdateExpression="SET likeTally = :n",
        ExpressionAttributeValues={":n": {"N": "77"}},
    )
    assert seed(Post.like_tally, Post.ref(post_id="1")) == {Post.ref(post_id="1"): 77}
    assert seed(Post.like_tally, Post.ref(post_id="1"), anew=True) == {Post.ref(post_id="1"): 1}
    run(StreamTally(Like), idle=0)
    assert tally(1) == 1 and "likeTallyWas" not in stored("Board", PK="POST#1", SK="META")


def test_a_counter_of_another_table_is_seeded_where_there_is_no_item_yet() -> None:
    for n in range(3):
        Event(file_name="a", event_id=str(n), size=n).save()
    Event(file_name="a", event_id="9", hidden=True).save()
    seed(FileCount.count, FileCount.ref(file_name="a"), FileCount.ref(file_name="b"))
    assert (file_count("a"), file_count("b")) == (3, 0)
    run(StreamTally(Event), idle=0)
    assert (file_count("a"), number(stored("FileCounts", fileName="a"), "size")) == (3, 3)


def test_what_cannot_be_seeded_is_told() -> None:
    like(1, "ada")
    with pytest.raises(ParentMissing):
        seed(Post.like_tally, Post.ref(post_id="1"))


@pytest.mark.parametrize("anew", [True, False])
def test_a_number_that_is_in_shards_gets_no_watermark(anew: bool) -> None:
    key = {"PK": {"S": "POST#1"}, "SK": {"S": "META"}}
    raw().put_item(TableName="Board", Item={**key, "likeTallyShards": {"N": "2"}})
    with pytest.raises(DeclarationError, match="bring it back onto its item"):
        seed(Post.like_tally, Post.ref(post_id="1"), anew=anew)
    assert stored("Board", PK="POST#1", SK="META") == {**key, "likeTallyShards": {"N": "2"}}


def test_the_command_seeds_them_too() -> None:
    Post(post_id="1").save()
    like(1, "ada"), like(2, "bob")
    done = CliRunner().invoke(group, ["migrate", "files:Post", "--json"])
    assert done.exit_code == 0, done.output
    assert tally(1) == 1 and '"gone": 1' in done.output
    again = CliRunner().invoke(group, ["migrate", "files:Post", "--anew", "--dry-run", "--json"])
    assert '"planned": 2' in again.output


def test_a_fence_that_a_killed_seeder_left_is_cleared_and_a_fresh_one_stays() -> None:
    Post(post_id="1").save()
    like(1, "ada")
    for raised in (int(time.time()), int(time.time()) - 7200):
        like_fence = {"PK": {"S": "POST#1"}, "SK": {"S": f"PYNACOUNT#FENCE#{raised}-x"}, "pynacountFence": {"S": "{}"}}
        raw().put_item(TableName="Board", Item=like_fence)
    assert [one.tally for one in migrate([Post.like_tally])] == [1]
    fences = [i["SK"]["S"] for i in raw().scan(TableName="Board")["Items"] if i["SK"]["S"].startswith("PYNACOUNT#")]
    assert len(fences) == 1 and int(fences[0].split("#")[2].split("-")[0]) > time.time() - 3600
