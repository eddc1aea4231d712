"""Small worlds in which the rules of docs/design.md must hold, whatever the order of the steps.

Each has a table, a handful of actors that run the library's own protocols, and is searched whole: every order of
every atomic step, a crash anywhere, a lost answer anywhere, and a transaction's child that a query sees later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pynacount.errors import (
    AlreadyCounted,
    CounterContention,
    CounterNotSeeded,
    NotCounted,
    ParentMissing,
    ParentNotEmpty,
)
from pynacount.protocols.repairing import Repair
from pynacount.protocols.resharding import Resharded
from pynacount.writing.discarding import Discard
from pynacount.writing.saving import Save

from .protocols import (
    TABLE,
    Actor,
    Like,
    Page,
    Post,
    Reply,
    Tag,
    Thread,
    Use,
    View,
    deletes,
    discards,
    edits,
    saves,
    seeds,
    several,
    uncounted,
)
from .store import Store


@dataclass(frozen=True, slots=True)
class Family:
    """How one family of models lies in the table: what its invariant looks at.

    ``anywhere``: the children's sort keys tell them, whatever their partition.
    """

    tally: str
    prefix: str
    partition: str
    anywhere: bool = False


POSTS = Family("likeTally", "LIKE#", "POST#1")
THREADS = Family("replyTally", "REPLY#", "THREAD#1")
PAGES = Family("viewTally", "VIEW#", "PAGE#1")
TAGS = Family("useTally", "USE#", "TAG#1")
POLLS = Family("voteTally", "VOTE#", "POLL#1")
BALLOTS = Family("markTally", "MARK#", "BALLOT#1")


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """One world. ``adds`` and ``removes`` name, for each child, the actors that do so: their answers must add up."""

    name: str
    family: Family
    store: Store
    actors: Mapping[str, Actor]
    adds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    removes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    crashes: int = 1
    lost_responses: int = 1
    orphans: bool = False
    repairs: tuple[str, ...] = ()
    reads: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)

    def invariant(self, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
        """At rest: the tally, where it is present, is the count; and every caller was told the truth."""
        return (
            self._exact(store, results, crashed)
            or self._no_phantom(store)
            or self._documented(results)
            or self._told(store, results, crashed)
            or self._read(results)
        )

    def _read(self, results: Mapping[str, Any]) -> str | None:
        wrong = {name: results[name] for name, right in self.reads.items() if results.get(name, right[0]) not in right}
        return f"readers were shown {wrong}" if wrong else None

    def _children(self, store: Store) -> dict[str, dict[str, Any]]:
        partition = None if self.family.anywhere else self.family.partition
        items = store.items(TABLE, partition, self.family.prefix)
        return {str(item["SK"]["S"]).removeprefix(self.family.prefix): item for item in items}

    def _exact(self, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
        count = sum(1 for child in self._children(store).values() if not child.get("hidden", {}).get("BOOL"))
        parent = store.get(TABLE, self.family.partition, "META")
        if parent is None and self._shards(store):
            return f"shards of a parent that is gone: {self._shards(store)}"
        if parent is None:
            return f"{count} children of a parent that is gone" if count and not self.orphans else None
        tally = store.number(self.family.tally, TABLE, self.family.partition, "META")
        if stray := self._stray_shards(store, parent):
            return stray
        if f"{self.family.tally}Shards" in parent:
            if tally is not None:
                return f"a tally on the parent, {tally}, and in shards"
            tally = sum(map(self._part, self._shards(store)))
        if tally is None and self.family in (TAGS, BALLOTS) and f"{self.family.tally}Closed" not in parent:
            tally = 0
        if tally in (None, count):
            return None
        if self.repairs and not any(isinstance(results.get(name), Repair) for name in self.repairs):
            return None  # it drifted before, and nobody has repaired it
        return f"tally {tally}, count {count}"

    def _shards(self, store: Store) -> list[dict[str, Any]]:
        return store.items(TABLE, self.family.partition, f"META#{self.family.tally}#")

    def _part(self, shard: dict[str, Any]) -> int:
        return int((shard.get(self.family.tally) or shard[f"{self.family.tally}Was"])["N"])

    def _stray_shards(self, store: Store, parent: dict[str, Any]) -> str | None:
        """Shards of a tally that is absent would take children that nobody has counted."""
        found = self._shards(store)
        if f"{self.family.tally}Shards" not in parent:
            return f"shards of an absent tally: {found}" if found else None
        in_use = found[: int(parent[f"{self.family.tally}Shards"]["N"])]
        return next((f"a shard in use is frozen: {shard}" for shard in in_use if self.family.tally not in shard), None)

    def _no_phantom(self, store: Store) -> str | None:
        parent = store.get(TABLE, self.family.partition, "META")
        return None if parent is None or "body" in parent else f"a parent that nobody saved: {parent}"

    def _documented(self, results: Mapping[str, Any]) -> str | None:
        refusals = (AlreadyCounted, NotCounted, ParentMissing, ParentNotEmpty, CounterContention, CounterNotSeeded)
        documented = (dict, int, type(None), Repair, Resharded, *refusals)
        strange = {name: result for name, result in results.items() if not isinstance(result, documented)}
        return f"undocumented answers {strange}" if strange else None

    def _told(self, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
        there = self._children(store)
        before = self._children(self.store)
        for user in {*self.adds, *self.removes}:
            adders, removers = self.adds.get(user, ()), self.removes.get(user, ())
            if set(crashed) & {*adders, *removers}:
                continue
            came = sum(isinstance(results.get(name), dict) for name in adders)
            went = sum(isinstance(results.get(name), dict) for name in removers)
            if (user in before) + came - went != (user in there):
                return (
                    f"{user}: was there: {user in before}, {came} told added, {went} told removed, now {user in there}"
                )
        return None


def table(*items: dict[str, Any]) -> Store:
    """A table with these items; a query's page holds one item, so that writers can come between two pages."""
    return Store.of({TABLE: ("PK", "SK")}, {TABLE: [_wire(item) for item in items]}, page_size=1)


def _wire(item: dict[str, Any]) -> dict[str, Any]:
    kinds: dict[type, str] = {str: "S", int: "N", bool: "BOOL"}
    return {name: {kinds[type(value)]: str(value) if type(value) is int else value} for name, value in item.items()}


def parent(family: Family, **more: Any) -> dict[str, Any]:
    """A parent item."""
    return {"PK": family.partition, "SK": "META", "body": "b", **more}


def child(family: Family, name: str, **more: Any) -> dict[str, Any]:
    """A child item."""
    return {"PK": family.partition, "SK": f"{family.prefix}{name}", **more}


def like(user: str, **more: Any) -> Callable[[], Like]:
    return lambda: Like(post_id="1", user_id=user, **more)


def reply(name: str) -> Callable[[], Reply]:
    return lambda: Reply(thread_id="1", reply_id=name)


def post(**more: Any) -> Callable[[], Post]:
    return lambda: Post(post_id="1", body="b", **more)


def thread() -> Thread:
    return Thread(thread_id="1")


SEEDED = table(parent(POSTS, likeTally=1), child(POSTS, "a"))
UNSEEDED = table(parent(POSTS), child(POSTS, "a"))
OPEN_THREAD = table(parent(THREADS, replyTally=2), child(THREADS, "a"), child(THREADS, "b"))
UNSEEDED_THREAD = table(parent(THREADS), child(THREADS, "a"))
HALF_SEEN = table(parent(POSTS, likeTally=2), child(POSTS, "a"), child(POSTS, "b", hidden=True), child(POSTS, "c"))


SCENARIOS = (
    Scenario(
        "a double click and an unlike, on a seeded post",
        POSTS,
        SEEDED,
        {"one": saves(like("b")), "two": saves(like("b")), "un": discards(like("b"))},
        adds={"b": ("one", "two")},
        removes={"b": ("un",)},
    ),
    Scenario(
        "a double unlike, on a seeded post",
        POSTS,
        SEEDED,
        {"one": discards(like("a")), "two": discards(like("a")), "add": saves(like("b"))},
        adds={"b": ("add",)},
        removes={"a": ("one", "two")},
    ),
    Scenario(
        "two writers and a seeder, on a post that was never seeded",
        POSTS,
        UNSEEDED,
        {"add": saves(like("b")), "un": discards(like("a")), "seeder": seeds(Post.like_tally, post()())},
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    Scenario(
        "a writer and a seeder with lost answers, on a post that was never seeded",
        POSTS,
        UNSEEDED,
        {"add": saves(like("b")), "seeder": seeds(Post.like_tally, post()())},
        adds={"b": ("add",)},
        lost_responses=2,
    ),
    Scenario(
        "a post created twice, liked, and created by a like that comes too early",
        POSTS,
        table(),
        {"one": saves(post()), "two": saves(post()), "like": saves(like("a"))},
        adds={"a": ("like",)},
    ),
    Scenario(
        "a post deleted under restrict, while it is liked and unliked",
        POSTS,
        SEEDED,
        {"delete": deletes(post()), "add": saves(like("b")), "un": discards(like("a"))},
        adds={"b": ("add",)},
        removes={"a": ("un",)},
    ),
    Scenario(
        "a post deleted under restrict before it was ever seeded",
        POSTS,
        UNSEEDED,
        {"delete": deletes(post()), "un": discards(like("a"))},
        removes={"a": ("un",)},
    ),
    Scenario(
        "a like hidden by one writer, deleted by another, shown by a third",
        POSTS,
        HALF_SEEN,
        {
            "hide": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=True),
            "delete": discards(like("a")),
            "show": edits(Like, HALF_SEEN, "POST#1", "LIKE#b", hidden=False),
        },
        removes={"a": ("delete",)},
    ),
    Scenario(
        "a like hidden twice from stale copies",
        POSTS,
        HALF_SEEN,
        {
            "one": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=True),
            "two": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=True),
            "rate": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", stars=5),
        },
    ),
    Scenario(
        "a post edited while it is liked",
        POSTS,
        SEEDED,
        {
            "edit": edits(Post, SEEDED, "POST#1", "META", body="new"),
            "over": saves(post()),
            "add": saves(like("b")),
        },
        adds={"b": ("add",)},
    ),
    Scenario(
        "two likes in one transaction, one of them doubled, on a post that was never seeded",
        POSTS,
        UNSEEDED,
        {
            "both": several(lambda: Save(like("b")()), lambda: Discard(like("a")())),
            "seeder": seeds(Post.like_tally, post()()),
        },
        lost_responses=0,
    ),
    Scenario(
        "a thread deleted with its replies, while one is added and one removed",
        THREADS,
        OPEN_THREAD,
        {"delete": deletes(thread), "add": saves(reply("c")), "un": discards(reply("a"))},
        lost_responses=0,
    ),
    Scenario(
        "a thread deleted by two at once",
        THREADS,
        OPEN_THREAD,
        {"one": deletes(thread), "two": deletes(thread)},
    ),
    Scenario(
        "a thread deleted while it is seeded, by a seeder and by a writer",
        THREADS,
        UNSEEDED_THREAD,
        {"delete": deletes(thread), "seeder": seeds(Thread.reply_tally, thread()), "add": saves(reply("b"))},
        lost_responses=0,
    ),
    Scenario(
        "a thread deleted and created anew, by which a slow cascade must not be fooled",
        THREADS,
        table(parent(THREADS, replyTally=1), child(THREADS, "a")),
        {
            "one": deletes(thread),
            "two": deletes(thread),
            "anew": saves(lambda: Thread(thread_id="1", body="b")),
            "add": saves(reply("a")),
        },
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "a page deleted that leaves its views, created anew and viewed",
        PAGES,
        table(parent(PAGES, viewTally=1), child(PAGES, "a")),
        {
            "delete": deletes(lambda: Page(page_id="1")),
            "anew": saves(lambda: Page(page_id="1", body="b")),
            "add": saves(lambda: View(page_id="1", user_id="b")),
        },
        adds={"b": ("add",)},
        lost_responses=0,
        orphans=True,
    ),
    Scenario(
        "the views of a page that is gone are removed, while it is created anew",
        PAGES,
        table(child(PAGES, "a")),
        {
            "anew": saves(lambda: Page(page_id="1", body="b")),
            "un": discards(lambda: View(page_id="1", user_id="a")),
            "un too": discards(lambda: View(page_id="1", user_id="a")),
        },
        removes={"a": ("un", "un too")},
        orphans=True,
    ),
    Scenario(
        "a tag whose absent tally counts as 0, used twice and deleted",
        TAGS,
        table(parent(TAGS)),
        {
            "one": saves(lambda: Use(tag_id="1", user_id="a")),
            "two": saves(lambda: Use(tag_id="1", user_id="a")),
            "delete": deletes(lambda: Tag(tag_id="1")),
        },
        lost_responses=0,
    ),
    Scenario(
        "a backfill beside a seeder",
        POSTS,
        UNSEEDED,
        {
            "backfill": uncounted(saves(like("b"))),
            "seeder": seeds(Post.like_tally, post()()),
        },
        adds={"b": ("backfill",)},
    ),
    Scenario(
        "a backfill beside a writer, on a seeded post",
        POSTS,
        SEEDED,
        {"backfill": uncounted(saves(like("b"))), "un": discards(like("a"))},
        adds={"b": ("backfill",)},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    Scenario(
        "a hidden like deleted twice, while it is shown",
        POSTS,
        HALF_SEEN,
        {
            "one": discards(like("b")),
            "two": discards(like("b")),
            "show": edits(Like, HALF_SEEN, "POST#1", "LIKE#b", hidden=False),
        },
        removes={"b": ("one", "two")},
    ),
    Scenario(
        "a hidden like shown twice from stale copies",
        POSTS,
        HALF_SEEN,
        {
            "one": edits(Like, HALF_SEEN, "POST#1", "LIKE#b", hidden=False),
            "two": edits(Like, HALF_SEEN, "POST#1", "LIKE#b", hidden=False),
        },
    ),
    Scenario(
        "a like hidden twice, shown, and deleted, all from stale copies",
        POSTS,
        HALF_SEEN,
        {
            "one": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=True),
            "two": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=True),
            "show": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", hidden=False),
            "delete": discards(like("a")),
        },
        removes={"a": ("delete",)},
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "a like edited in what it does not count by, while it is deleted",
        POSTS,
        HALF_SEEN,
        {"rate": edits(Like, HALF_SEEN, "POST#1", "LIKE#a", stars=5), "delete": discards(like("a"))},
        removes={"a": ("delete",)},
    ),
    Scenario(
        "a backfill that brings the like before its post",
        POSTS,
        table(),
        {
            "like": uncounted(saves(like("a"))),
            "post": uncounted(saves(post())),
            "writer": saves(like("b")),
        },
        adds={"a": ("like",), "b": ("writer",)},
        lost_responses=0,
        orphans=True,
    ),
    Scenario(
        "a second backfill, beside two seeders",
        POSTS,
        table(parent(POSTS, likeTallyPending=1), child(POSTS, "a")),
        {
            "backfill": uncounted(saves(like("b"))),
            "one": seeds(Post.like_tally, post()()),
            "two": seeds(Post.like_tally, post()()),
        },
        adds={"b": ("backfill",)},
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "a writer and two seeders after a backfill",
        POSTS,
        table(parent(POSTS, likeTallyPending=1), child(POSTS, "a")),
        {
            "add": saves(like("b")),
            "one": seeds(Post.like_tally, post()()),
            "two": seeds(Post.like_tally, post()()),
        },
        adds={"b": ("add",)},
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "a thread deleted while it is seeded after a backfill",
        THREADS,
        table(parent(THREADS, replyTallyPending=1), child(THREADS, "a")),
        {"delete": deletes(thread), "seeder": seeds(Thread.reply_tally, thread())},
        lost_responses=0,
    ),
    Scenario(
        "a page and its views removed and created anew, while a seeder sleeps",
        PAGES,
        table(parent(PAGES, viewTallyPending=0), child(PAGES, "a")),
        {
            "seeder": seeds(Page.view_tally, Page(page_id="1")),
            "delete": deletes(lambda: Page(page_id="1")),
            "un": discards(lambda: View(page_id="1", user_id="a")),
            "anew": saves(lambda: Page(page_id="1", body="b")),
        },
        removes={"a": ("un",)},
        crashes=0,
        lost_responses=0,
        orphans=True,
    ),
)
