"""Counting once, and bounds, by every interleaving of the library's own steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, markers
from pynacount.errors import AlreadyCounted, CounterBoundError, NotCounted
from pynacount.plain import comparison_of, increment_of, marker_of
from pynacount.protocols.comparing import compare_and_set
from pynacount.protocols.incrementing import read_moved
from pynacount.protocols.marking import increment_once
from pynacount.steps import Protocol, Send

from .explorer import Report, explore
from .mutations import Guard, all_guards, without
from .protocols import TABLE, Actor, discards, saves
from .store import Store

NOW = 1_700_000_000


class Stock(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("ITEM#{item_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STOCK", range_key=True, attr_name="SK")
    left = CounterField(attr_name="unsold", minimum=0)


class Team(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("TEAM#{team_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    seat_tally = CounterField(attr_name="seatTally", minimum=1, maximum=2)
    members: CountedSet[Any] = CountedSet("Seat", tally="seat_tally")


class Seat(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("TEAM#{team_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SEAT#{user_id}", range_key=True, attr_name="SK")
    team = CountedIn(Team.seat_tally)


ITEM = Stock.ref(item_id="1")


def buys(token: str) -> Actor:
    """Take one out of stock, once for this token; the answer is whether it was counted now."""

    def protocol() -> Protocol[Any]:
        move = increment_of(Stock.left, ITEM, -1, "add", None, None, "decrement")
        counted = yield from increment_once(move, marker_of(Stock.left, ITEM, token))
        assert (yield from read_moved(move)) is not None
        return counted

    return protocol


def compares(expected: int, new: int) -> Actor:
    return lambda: compare_and_set(comparison_of(Stock.left, ITEM, expected, new))


def sits(user: str) -> Actor:
    return saves(lambda: Seat(team_id="1", user_id=user))


def leaves(user: str) -> Actor:
    return discards(lambda: Seat(team_id="1", user_id=user))


def table(*items: dict[str, dict[str, Any]]) -> Store:
    return Store.of({TABLE: ("PK", "SK")}, {TABLE: list(items)}, page_size=1)


def stock(left: int) -> dict[str, dict[str, Any]]:
    return {"PK": {"S": "ITEM#1"}, "SK": {"S": "STOCK"}, "unsold": {"N": str(left)}}


def marker(token: str, expires: int) -> dict[str, dict[str, Any]]:
    return {
        "PK": {"S": f"ONCE#{token}"},
        "SK": {"S": "ITEM#1#STOCK#unsold"},
        "counter": {"S": "PK='ITEM#1' SK='STOCK'"},
        "amounts": {"M": {"unsold": {"N": "-1"}}},
        "expires": {"N": str(expires)},
    }


def team(*users: str) -> Store:
    seats = [{"PK": {"S": "TEAM#1"}, "SK": {"S": f"SEAT#{user}"}} for user in users]
    return table({"PK": {"S": "TEAM#1"}, "SK": {"S": "META"}, "seatTally": {"N": str(len(users))}}, *seats)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One world; ``check`` says what is wrong when all is quiet."""

    name: str
    store: Store
    actors: Mapping[str, Actor]
    check: Callable[[World, Store, Mapping[str, Any], Any], str | None]
    safe: Callable[[Store], str | None]


def tokens_of(world: World) -> dict[str, list[str]]:
    """The actors by their token: ``order1`` and ``order1again`` come with one."""
    found: dict[str, list[str]] = {}
    for name in world.actors:
        found.setdefault(name.removesuffix("again"), []).append(name)
    return found


def sold_once(world: World, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
    """What is gone is what the tokens took, each once; and every buyer was told the truth."""
    before, after = (s.number("unsold", TABLE, "ITEM#1", "STOCK") or 0 for s in (world.store, store))
    taken = 0
    for token, names in tokens_of(world).items():
        item = store.get(TABLE, f"ONCE#{token}", "ITEM#1#STOCK#unsold")
        counted = item is not None and int(item["expires"]["N"]) >= NOW
        fresh = counted and item != world.store.get(TABLE, f"ONCE#{token}", "ITEM#1#STOCK#unsold")
        taken += fresh
        told = [results[name] for name in names if name in results]
        if strange := [t for t in told if not isinstance(t, (bool, CounterBoundError))]:
            return f"undocumented answers {strange}"
        if not counted and any(isinstance(t, bool) for t in told):
            return f"{token} was told that it is counted, and has no marker"
        if told.count(True) > 1 or (True in told and not fresh):
            return f"{token} was counted {told.count(True)} times"
        if fresh and not set(names) & set(crashed) and True not in told:
            return f"{token} was counted, and nobody was told: {told}"
        if any(isinstance(t, CounterBoundError) and t.value != 0 for t in told):
            return f"{token} was refused, and told what was not so: {told}"
    return None if before - taken == after else f"{before} were there, {taken} were taken, {after} are left"


def never_below_zero(store: Store) -> str | None:
    left = store.number("unsold", TABLE, "ITEM#1", "STOCK")
    return None if left is None or left >= 0 else f"{left} are left"


def set_once(world: World, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
    """Of those that compare with one number only one sets it, and it knows that it was the one."""
    if crashed:
        return None
    left = store.number("unsold", TABLE, "ITEM#1", "STOCK")
    winners = [name for name, told in results.items() if told is True]
    return None if [f"to{left}"] == winners else f"{left} is there, and told it was: {winners}"


def seated(world: World, store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
    """The tally is the count, and who was told that it sits does."""
    sitting = {str(item["SK"]["S"]).removeprefix("SEAT#") for item in store.items(TABLE, "TEAM#1", "SEAT#")}
    tally = store.number("seatTally", TABLE, "TEAM#1", "META")
    if tally != len(sitting):
        return f"tally {tally}, count {len(sitting)}"
    for name, told in results.items():
        verb, _, user = name.partition(" ")
        if not isinstance(told, (dict, CounterBoundError, AlreadyCounted, NotCounted)):
            return f"undocumented answer {told!r}"
        others = [n for n in world.actors if n != name and n.endswith(f" {user}")]
        if isinstance(told, dict) and not others and (user in sitting) != (verb == "sits"):
            return f"{name} was told it is done, and it is not"
    return None


def within(store: Store) -> str | None:
    tally = store.number("seatTally", TABLE, "TEAM#1", "META")
    return None if tally is None or 1 <= tally <= 2 else f"a tally of {tally}"


def anything(store: Store) -> str | None:
    return None


WORLDS = (
    World(
        "two buyers, one who calls twice, and one thing to sell",
        table(stock(1)),
        {"one": buys("one"), "oneagain": buys("one"), "two": buys("two")},
        sold_once,
        never_below_zero,
    ),
    World(
        "one buyer who calls three times, and enough to sell",
        table(stock(5)),
        {"one": buys("one"), "oneagain": buys("one"), "two": buys("two")},
        sold_once,
        never_below_zero,
    ),
    World(
        "a marker that has expired and is not deleted yet, and one that lives",
        table(stock(5), marker("old", NOW - 1), marker("new", NOW)),
        {"old": buys("old"), "oldagain": buys("old"), "new": buys("new")},
        sold_once,
        never_below_zero,
    ),
    World("nothing to sell", table(), {"one": buys("one"), "two": buys("two")}, sold_once, never_below_zero),
    World(
        "two who set one number",
        table(stock(7)),
        {"to8": compares(7, 8), "to9": compares(7, 9)},
        set_once,
        anything,
    ),
    World(
        "one seat left, and two who want it",
        team("a"),
        {"sits b": sits("b"), "sits c": sits("c"), "leaves a": leaves("a")},
        seated,
        within,
    ),
    World(
        "two who sit, and both leave, where one must stay",
        team("a", "b"),
        {"leaves a": leaves("a"), "leaves b": leaves("b")},
        seated,
        within,
    ),
)


def run(world: World, mutate: Callable[[Send], Send] | None = None) -> Report:
    with patch.object(markers, "clock", lambda: float(NOW)):  # a replayed actor must send the same again
        return explore(
            world.actors,
            world.store,
            lambda store, results, crashed: world.check(world, store, results, crashed),
            mutate=mutate,
            safety=world.safe,
        )


REPORTS = {world.name: run(world) for world in WORLDS}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_what_is_counted_once_is_and_no_bound_is_passed(world: World) -> None:
    report = REPORTS[world.name]
    assert report.violation is None, str(report.violation)
    assert report.quiescent > 0


BOUNDS_AND_MARKERS = ("expires", "unsold", "seatTally <=", "seatTally >=")


def guards() -> dict[str, list[tuple[Guard, World]]]:
    """The guards of markers, of bounds and of comparisons, by what they say, and the worlds that they are in."""
    found: dict[str, list[tuple[Guard, World]]] = {}
    for world in WORLDS:
        for guard in all_guards(REPORTS[world.name].sends):
            if any(word in guard.text for word in BOUNDS_AND_MARKERS):
                found.setdefault(guard.text, []).append((guard, world))
    return found


GUARDS = guards()


def test_the_guards_are_those_that_are_meant() -> None:
    assert sorted(GUARDS) == [
        "attribute_not_exists(PK) OR expires < ?",
        "seatTally <= ?",
        "seatTally >= ?",
        "unsold = ?",
        "unsold >= ?",
    ]


@pytest.mark.parametrize("text", GUARDS)
def test_without_any_one_of_them_some_order_of_steps_goes_wrong(text: str) -> None:
    assert any(run(world, without(guard)).violation is not None for guard, world in GUARDS[text])


def test_marker_and_move_apart_go_wrong() -> None:
    """As two requests: whoever crashes between them has a marker and no move."""

    def apart(token: str) -> Actor:
        def protocol() -> Protocol[Any]:
            move = increment_of(Stock.left, ITEM, -1, "add", None, None, "decrement")
            answer = yield Send("PutItem", marker_of(Stock.left, ITEM, token).put(move).request())
            if isinstance(answer, dict):
                yield move.plan().send()
            return isinstance(answer, dict)

        return protocol

    world = World("apart", table(stock(5)), {"one": apart("one")}, sold_once, never_below_zero)
    violation = run(world).violation
    assert violation is not None and "are left" in violation.message
