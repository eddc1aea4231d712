"""Small worlds with tallies in shards: beside seeders, repairs, deletions, and while their number is changed.

Writers of the generation of code before, which declares no shards, are in some of them. A query sees an update later,
too: it is by a query that shards are read.
"""

from __future__ import annotations

from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.protocols.reading import read_tally
from pynacount.protocols.resharding import reshard
from pynacount.steps import Item
from pynacount.writing.saving import Save

from .protocols import (
    TABLE,
    Actor,
    EarlyLike,
    Like,
    Page,
    Post,
    Reply,
    Thread,
    View,
    deletes,
    discards,
    repairs,
    saves,
    seeds,
    several,
    uncounted,
)
from .scenarios import PAGES, POSTS, THREADS, Family, Scenario, child, parent, table
from .store import Store, Veils, everything

POST, USERS = {"post_id": "1"}, ("a", "b")


class SpreadPost(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally", shards=2)
    likes = CountedSet[Any]("SpreadLike", tally="like_tally")


class SpreadLike(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(SpreadPost.like_tally)


class SpreadThread(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    reply_tally = CounterField(attr_name="replyTally", on_delete="cascade", shards=2)
    replies = CountedSet[Any]("SpreadReply", tally="reply_tally")


class SpreadReply(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("REPLY#{reply_id}", range_key=True, attr_name="SK")
    thread = CountedIn(SpreadThread.reply_tally)


class SpreadPage(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    view_tally = CounterField(attr_name="viewTally", on_delete="leave", shards=2)
    views = CountedSet[Any]("SpreadView", tally="view_tally")


class SpreadView(CountedModel):
    __module__ = "spread"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VIEW#{user_id}", range_key=True, attr_name="SK")
    page = CountedIn(SpreadPage.view_tally)


def children(kind: str, key: Item) -> bool:
    """A veil over children alone, where no reader looks at shards."""
    return not key["SK"]["S"].startswith("META")


def world(*items: dict[str, Any], veils: Veils = children) -> Store:
    """A table with these items; the parent and its shards are one page of a query, as they are in truth."""
    store = table(*items)
    return Store.of({TABLE: ("PK", "SK")}, {TABLE: store.items(TABLE)}, page_size=6, veils=veils)


def shards(family: Family, *parts: int) -> list[dict[str, Any]]:
    """The shards of a tally."""
    return [
        {"PK": family.partition, "SK": f"META#{family.tally}#{place}", family.tally: part}
        for place, part in enumerate(parts)
    ]


def spread(family: Family, *parts: int, **more: Any) -> list[dict[str, Any]]:
    """A parent and its shards."""
    return [parent(family, **{f"{family.tally}Shards": len(parts)}, **more), *shards(family, *parts)]


def likes(user: str) -> Actor:
    return saves(lambda: SpreadLike(post_id="1", user_id=user))


def unlikes(user: str) -> Actor:
    return discards(lambda: SpreadLike(post_id="1", user_id=user))


def old_likes(user: str) -> Actor:
    return saves(lambda: Like(post_id="1", user_id=user))


def reshards(to: int, counter: CounterField = SpreadPost.like_tally, ref: Any = None) -> Actor:
    """Change the number of shards of the post."""
    ref = ref or SpreadPost.ref(post_id="1")
    return lambda: reshard(counter.tally, counter.owner._counting.key_of(ref), to, plain=False)


def reads(counter: CounterField = SpreadPost.like_tally) -> Actor:
    """Read the tally by an eventually consistent read."""
    return lambda: read_tally(counter.tally, counter.owner._counting.key_of(SpreadPost.ref(post_id="1")), False)


SEEDER = seeds(SpreadPost.like_tally, SpreadPost.ref(post_id="1"))
REPAIR = repairs(SpreadPost.like_tally, SpreadPost.ref(post_id="1"))
OLD_SEEDER = seeds(Post.like_tally, Post.ref(post_id="1"))
OLD_REPAIR = repairs(Post.like_tally, Post.ref(post_id="1"))


def post(name: str, items: list[dict[str, Any]], actors: dict[str, Actor], **more: Any) -> Scenario:
    """One world with a post; where somebody reads, queries see updates later, too."""
    store = world(*items, veils=everything if "reads" in more else children)
    if len(actors) > 2:  # else crashes and lost answers make the worlds too large
        more = {"crashes": 0, "lost_responses": 0, **more}
    return Scenario(name, POSTS, store, actors, **more)


SCENARIOS = (
    post(
        "shards: two likes and a seeder, on a post that was never seeded",
        [parent(POSTS), child(POSTS, "c")],
        {"a": likes("a"), "b": likes("b"), "seeder": SEEDER},
        adds={"a": ("a",), "b": ("b",)},
    ),
    post(
        "shards: a like and a seeder, on a post that was never seeded",
        [parent(POSTS), child(POSTS, "c")],
        {"a": likes("a"), "seeder": SEEDER},
        adds={"a": ("a",)},
    ),
    post(
        "shards: a repair beside a like",
        [*spread(POSTS, 5, 1), child(POSTS, "b")],
        {"a": likes("a"), "repair": REPAIR},
        adds={"a": ("a",)},
        repairs=("repair",),
    ),
    post(
        "shards: from 3 to 2, beside a like",
        [*spread(POSTS, 0, 0, 1), child(POSTS, "b")],
        {"a": likes("a"), "reshard": reshards(2)},
        adds={"a": ("a",)},
    ),
    post(
        "shards: from 3 to 2, twice at once",
        [*spread(POSTS, 0, 0, 1), child(POSTS, "b")],
        {"one": reshards(2), "other": reshards(2)},
    ),
    post(
        "shards: two likes of one user, and one taken back",
        [*spread(POSTS, 1, 0), child(POSTS, "b")],
        {"a": likes("a"), "again": likes("a"), "b": unlikes("b")},
        adds={"a": ("a", "again")},
        removes={"b": ("b",)},
    ),
    post(
        "shards: a post created and liked",
        [],
        {"post": saves(lambda: SpreadPost(post_id="1", body="b")), "a": likes("a")},
        adds={"a": ("a",)},
    ),
    post(
        "shards: a post created with a like in it, twice",
        [],
        {
            "post": several(
                lambda: Save(SpreadPost(post_id="1", body="b")), lambda: Save(SpreadLike(post_id="1", user_id="a"))
            ),
            "b": likes("b"),
        },
        adds={"b": ("b",)},
    ),
    post(
        "shards: a repair beside a like and an unlike",
        [*spread(POSTS, 5, 1), child(POSTS, "b")],
        {"a": likes("a"), "b": unlikes("b"), "repair": REPAIR},
        adds={"a": ("a",)},
        removes={"b": ("b",)},
        repairs=("repair",),
    ),
    post(
        "shards: two repairs beside a like",
        [*spread(POSTS, 5, 1), child(POSTS, "b")],
        {"a": likes("a"), "repair": REPAIR, "other": REPAIR},
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
        repairs=("repair", "other"),
    ),
    post(
        "shards: from 2 to 3, beside a like and an unlike",
        [*spread(POSTS, 1, 0), child(POSTS, "b")],
        {"a": likes("a"), "b": unlikes("b"), "reshard": reshards(3)},
        adds={"a": ("a",)},
        removes={"b": ("b",)},
    ),
    post(
        "shards: from 3 to 2, beside a like and an unlike",
        [*spread(POSTS, 1, 1, 2), *(child(POSTS, user) for user in "bcde")],
        {"a": likes("a"), "b": unlikes("b"), "reshard": reshards(2)},
        adds={"a": ("a",)},
        removes={"b": ("b",)},
    ),
    post(
        "shards: from 3 to 2, half done, beside one that goes on, one that wants 3, and then a like",
        [
            parent(POSTS, likeTallyShards=2, likeTallyRetiring=3),
            *shards(POSTS, 1, 0, 0),
            child(POSTS, "b"),
        ],
        {"down": reshards(2), "up": reshards(3), "a": likes("a")},
        adds={"a": ("a",)},
        crashes=1,
    ),
    post(
        "shards: from 2 onto the parent, beside one that wants 3",
        [*spread(POSTS, 1, 0), child(POSTS, "c")],
        {"down": reshards(1), "up": reshards(3)},
        crashes=0,
        lost_responses=0,
    ),
    post(
        "shards: a backfill beside a delete",
        spread(POSTS, 0, 0),
        {"backfill": uncounted(likes("b")), "delete": deletes(lambda: SpreadPost(post_id="1"))},
        orphans=True,
    ),
    post(
        "shards: from the parent into 2, beside likes of both generations",
        [parent(POSTS, likeTally=1), child(POSTS, "c")],
        {"a": likes("a"), "b": old_likes("b"), "reshard": reshards(2)},
        adds={"a": ("a",), "b": ("b",)},
    ),
    post(
        "shards: from 2 onto the parent, beside likes of both generations",
        [*spread(POSTS, 1, 0), child(POSTS, "c")],
        {"a": likes("a"), "b": old_likes("b"), "reshard": reshards(1)},
        adds={"a": ("a",), "b": ("b",)},
    ),
    post(
        "shards: from 3 to 2, beside a repair and a like",
        [*spread(POSTS, 1, 0, 4), child(POSTS, "b")],
        {"a": likes("a"), "repair": REPAIR, "reshard": reshards(2)},
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
        repairs=("repair",),
    ),
    post(
        "shards: from 3 to 2, beside a reader",
        [*spread(POSTS, 1, 0, 2), *(child(POSTS, user) for user in "bcd")],
        {"reader": reads(), "reshard": reshards(2)},
        reads={"reader": (3,)},
    ),
    post(
        "shards: from the parent into 2, beside a reader of each generation",
        [parent(POSTS, likeTally=3), *(child(POSTS, user) for user in "bcd")],
        {"reader": reads(), "old": reads(Post.like_tally), "reshard": reshards(2)},
        reads={"reader": (3,), "old": (3,)},
    ),
    post(
        "shards: a repair beside a reader",
        [*spread(POSTS, 1, 2), *(child(POSTS, user) for user in "bcd")],
        {"reader": reads(), "repair": REPAIR},
        reads={"reader": (3, None)},
    ),
    post(
        "shards: seeders and likes of both generations",
        [parent(POSTS), child(POSTS, "c")],
        {"a": likes("a"), "old": old_likes("b"), "seeder": OLD_SEEDER},
        adds={"a": ("a",), "b": ("old",)},
    ),
    post(
        "shards: repairs of both generations",
        [*spread(POSTS, 5, 1), child(POSTS, "b")],
        {"repair": REPAIR, "old": OLD_REPAIR},
        repairs=("repair", "old"),
    ),
    post(
        "shards: a repair of the parent's own tally, beside a reshard and a like",
        [parent(POSTS, likeTally=5), child(POSTS, "b")],
        {"a": likes("a"), "old": OLD_REPAIR, "reshard": reshards(2)},
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
        repairs=("old",),
    ),
    post(
        "shards: a backfill beside a like",
        [*spread(POSTS, 1, 0), child(POSTS, "c")],
        {"a": likes("a"), "backfill": uncounted(likes("b"))},
        adds={"a": ("a",), "b": ("backfill",)},
    ),
    post(
        "shards: a backfill of the generation before, beside a seeder and a like",
        [parent(POSTS), child(POSTS, "c")],
        {"a": likes("a"), "backfill": uncounted(old_likes("b")), "seeder": SEEDER},
        adds={"a": ("a",), "b": ("backfill",)},
        crashes=0,
        lost_responses=0,
    ),
    post(
        "shards: a deferred like beside a seeder and a like",
        [parent(POSTS), child(POSTS, "c")],
        {
            "a": likes("a"),
            "early": saves(lambda: EarlyLike(post_id="1", user_id="b")),
            "seeder": SEEDER,
        },
        adds={"a": ("a",), "b": ("early",)},
        crashes=0,
        lost_responses=0,
    ),
    post(
        "shards: a post deleted while it is liked",
        spread(POSTS, 0, 0),
        {"a": likes("a"), "delete": deletes(lambda: SpreadPost(post_id="1"))},
        adds={"a": ("a",)},
    ),
    post(
        "shards: a post deleted by the generation before, beside a like and an unlike",
        [*spread(POSTS, 0, 1), child(POSTS, "b")],
        {"a": likes("a"), "b": unlikes("b"), "delete": deletes(lambda: Post(post_id="1"))},
        adds={"a": ("a",)},
        removes={"b": ("b",)},
        crashes=0,
        lost_responses=0,
    ),
    post(
        "shards: a post deleted while it is brought from 3 to 2, beside a like",
        spread(POSTS, 0, 0, 0),
        {"a": likes("a"), "reshard": reshards(2), "delete": deletes(lambda: SpreadPost(post_id="1"))},
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "shards: a thread deleted with its replies, while one is added and one removed",
        THREADS,
        world(*spread(THREADS, 1, 0), child(THREADS, "b")),
        {
            "a": saves(lambda: SpreadReply(thread_id="1", reply_id="a")),
            "b": discards(lambda: SpreadReply(thread_id="1", reply_id="b")),
            "delete": deletes(lambda: SpreadThread(thread_id="1")),
        },
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "shards: a thread deleted with its replies, while it is brought from 2 to 3",
        THREADS,
        world(*spread(THREADS, 1, 0), child(THREADS, "b")),
        {
            "reshard": reshards(3, SpreadThread.reply_tally, SpreadThread.ref(thread_id="1")),
            "delete": deletes(lambda: SpreadThread(thread_id="1")),
        },
    ),
    Scenario(
        "shards: a thread deleted by the generation before, while one is added and it is brought from 3 to 2",
        THREADS,
        world(*spread(THREADS, 1, 0, 0), child(THREADS, "b")),
        {
            "a": saves(lambda: SpreadReply(thread_id="1", reply_id="a")),
            "reshard": reshards(2, SpreadThread.reply_tally, SpreadThread.ref(thread_id="1")),
            "delete": deletes(lambda: Thread(thread_id="1")),
        },
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "shards: a thread brought into shards while it is deleted by the generation before, and one is added",
        THREADS,
        world(parent(THREADS, replyTally=1), child(THREADS, "b")),
        {
            "a": saves(lambda: Reply(thread_id="1", reply_id="a")),
            "reshard": reshards(2, SpreadThread.reply_tally, SpreadThread.ref(thread_id="1")),
            "delete": deletes(lambda: Thread(thread_id="1")),
        },
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "shards: a page deleted and created anew, beside a view",
        PAGES,
        world(*spread(PAGES, 1, 0), child(PAGES, "b")),
        {
            "a": saves(lambda: SpreadView(page_id="1", user_id="a")),
            "delete": deletes(lambda: SpreadPage(page_id="1")),
            "again": saves(lambda: SpreadPage(page_id="1", body="b")),
        },
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
        orphans=True,
    ),
    Scenario(
        "shards: a page deleted by the generation before, and created anew, beside a view",
        PAGES,
        world(*spread(PAGES, 1, 0), child(PAGES, "b")),
        {
            "a": saves(lambda: View(page_id="1", user_id="a")),
            "delete": deletes(lambda: Page(page_id="1")),
            "again": saves(lambda: SpreadPage(page_id="1", body="b")),
        },
        adds={"a": ("a",)},
        crashes=0,
        lost_responses=0,
        orphans=True,
    ),
)
