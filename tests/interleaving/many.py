"""Worlds with writers of many children at once, each of whose calls must be answered with the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.errors import CounterBoundError, CounterNotSeeded, ParentMissing
from pynacount.steps import Protocol
from pynacount.writing.discarding import Discard
from pynacount.writing.many import Member, perform_many
from pynacount.writing.saving import Save

from .protocols import (
    TABLE,
    Actor,
    Page,
    Poll,
    Post,
    View,
    deletes,
    discards,
    repairs,
    repairs_by_revision,
    saves,
    seeds,
)
from .repairs import DRIFTED, DRIFTED_POLL, early, poll, vote
from .scenarios import (
    OPEN_THREAD,
    PAGES,
    POLLS,
    POSTS,
    SEEDED,
    THREADS,
    UNSEEDED,
    Family,
    Scenario,
    child,
    like,
    parent,
    post,
    reply,
    table,
    thread,
)
from .store import Store


class Room(CountedModel):
    """A parent with room for two."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    seat_tally = CounterField(attr_name="seatTally", maximum=2)
    seats = CountedSet[Any]("Seat", tally="seat_tally")


class Seat(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SEAT#{user_id}", range_key=True, attr_name="SK")
    room = CountedIn(Room.seat_tally)


ROOMS = Family("seatTally", "SEAT#", "ROOM#1")


def seat(user: str) -> Callable[[], Seat]:
    return lambda: Seat(room_id="1", user_id=user)


def view(user: str) -> Callable[[], View]:
    return lambda: View(page_id="1", user_id=user)


Ask: TypeAlias = tuple[Literal["add", "discard"], str]
"""One call of a group: the verb, and the child's name."""

Told: TypeAlias = tuple[bool | str, ...]
"""What a group's calls were told: done, already so, or the name of the error."""

DOCUMENTED = {error.__name__ for error in (CounterBoundError, CounterNotSeeded, ParentMissing)}


def many(make: Callable[[str], Callable[[], Any]], *asks: Ask) -> Actor:
    """A group of calls, as one actor."""

    def protocol() -> Protocol[Told]:
        verbs: Mapping[str, type[Save | Discard]] = {"add": Save, "discard": Discard}
        members = [Member(verbs[verb](make(name)())) for verb, name in asks]
        yield from perform_many(members)
        assert not any(member.is_open for member in members)
        return tuple(type(m.error).__name__ if m.error is not None else bool(m.done) for m in members)

    return protocol


@dataclass(frozen=True, slots=True, eq=False)
class ManyScenario(Scenario):
    """A world with groups: ``groups`` says what each of those actors asked for. The others are as ever.

    ``cascades``: whether children may also go with their parent. ``most``: how many there may be.
    """

    groups: Mapping[str, tuple[Ask, ...]] = field(default_factory=dict)
    cascades: bool = False
    most: int | None = None

    def _exact(self, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
        if self.most is not None and len(there := self._children(store)) > self.most:
            return f"{sorted(there)} are more than {self.most}"
        return Scenario._exact(self, store, results, crashed)

    def _documented(self, results: Mapping[str, Any]) -> str | None:
        for name in self.groups:
            if strange := [t for t in results.get(name, ()) if not isinstance(t, bool) and t not in DOCUMENTED]:
                return f"undocumented answers {strange}"
        # super() does not work in a dataclass with slots, which is another class than the one that is written here.
        return Scenario._documented(self, {name: r for name, r in results.items() if name not in self.groups})

    def _told(self, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
        if self.cascades:
            return None  # which takes children along, of whom nobody is told
        before, there = set(self._children(self.store)), set(self._children(store))
        asked = {name for asks in self.groups.values() for _, name in asks}
        for user in {*self.adds, *self.removes, *asked}:
            alone = {*self.adds.get(user, ()), *self.removes.get(user, ())}
            of = {name for name, asks in self.groups.items() if any(user == u for _, u in asks)}
            if set(crashed) & (alone | of):
                continue
            came = sum(isinstance(results.get(name), dict) for name in self.adds.get(user, ()))
            went = sum(isinstance(results.get(name), dict) for name in self.removes.get(user, ()))
            for name in of:
                for (verb, asked_for), told in zip(self.groups[name], results[name], strict=True):
                    came += asked_for == user and verb == "add" and told is True
                    went += asked_for == user and verb == "discard" and told is True
            if (user in before) + came - went != (user in there):
                return f"{user}: was there: {user in before}, {came} added, {went} removed, now {user in there}"
        return None


def scenario(
    name: str, family: Any, store: Store, groups: Mapping[str, tuple[Ask, ...]], make: Any, **more: Any
) -> ManyScenario:
    """A world with these groups and further actors."""
    actors = {group: many(make, *asks) for group, asks in groups.items()} | dict(more.pop("actors", {}))
    return ManyScenario(name, family, store, actors, groups=groups, **more)


SCENARIOS = (
    scenario(
        "two groups of likes that meet in one child, beside an unlike",
        POSTS,
        SEEDED,
        {"one": (("add", "b"), ("add", "c")), "two": (("add", "b"), ("add", "a"))},
        like,
        actors={"un": discards(like("a"))},
        removes={"a": ("un",)},
        crashes=1,
        lost_responses=1,
    ),
    scenario(
        "a group that likes and unlikes one child, beside a like",
        POSTS,
        SEEDED,
        {"one": (("add", "b"), ("discard", "b"), ("discard", "a"), ("add", "b"))},
        like,
        actors={"add": saves(like("b"))},
        adds={"b": ("add",)},
        lost_responses=1,
    ),
    scenario(
        "a group of likes and a seeder, on a post that was never seeded",
        POSTS,
        UNSEEDED,
        {"one": (("add", "b"), ("add", "a"))},
        like,
        actors={"seeder": seeds(Post.like_tally, post()()), "un": discards(like("a"))},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    scenario(
        "a group of likes of a post that is created and deleted meanwhile",
        POSTS,
        table(),
        {"one": (("add", "a"), ("add", "b"))},
        like,
        actors={"anew": saves(post()), "delete": deletes(post())},
    ),
    scenario(
        "a group of replies, some that come and some that go, while their thread is deleted with all",
        THREADS,
        OPEN_THREAD,
        {"one": (("add", "c"), ("discard", "a"))},
        reply,
        actors={"delete": deletes(thread)},
        lost_responses=0,
        cascades=True,
    ),
    scenario(
        "a group of views that come and go, of a page that is gone, while it is created anew",
        PAGES,
        table(child(PAGES, "a"), child(PAGES, "b")),
        {"one": (("discard", "a"), ("add", "c"), ("discard", "b"))},
        view,
        actors={"anew": saves(lambda: Page(page_id="1", body="b"))},
        orphans=True,
    ),
    scenario(
        "two groups for the last seats of a room, beside one who leaves",
        ROOMS,
        table(parent(ROOMS, seatTally=1), child(ROOMS, "a")),
        {"one": (("add", "b"), ("add", "c"), ("add", "a")), "two": (("add", "d"),)},
        seat,
        actors={"un": discards(seat("a"))},
        removes={"a": ("un",)},
        lost_responses=0,
        most=2,
    ),
    scenario(
        "a group of likes beside a repair",
        POSTS,
        DRIFTED,
        {"one": (("add", "b"), ("discard", "a"))},
        like,
        actors={"repair": repairs(Post.like_tally, post()())},
        lost_responses=0,
        repairs=("repair",),
    ),
    scenario(
        "a group of votes beside a repair by revision",
        POLLS,
        DRIFTED_POLL,
        {"one": (("add", "b"), ("add", "a"))},
        lambda user: lambda: vote(user),
        actors={"repair": repairs_by_revision(Poll.vote_tally, poll())},
        lost_responses=0,
        repairs=("repair",),
    ),
    scenario(
        "a group of likes that are deferred, beside a seeder and one that counts",
        POSTS,
        UNSEEDED,
        {"one": (("add", "b"), ("add", "a"))},
        lambda user: lambda: early(user),
        actors={"seeder": seeds(Post.like_tally, post()()), "un": discards(like("a"))},
        removes={"a": ("un",)},
        crashes=0,
        lost_responses=0,
    ),
)
