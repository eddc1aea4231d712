"""Counting each record of a stream once in a number that is in shards, while their number is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.protocols.reading import read_tally
from pynacount.protocols.resharding import reshard
from pynacount.protocols.spreading import gathered
from pynacount.shards import ParentInShards, layout_of, number_of
from pynacount.steps import Item, Protocol, Send
from pynacount.streams.spots import Spot

from .explorer import Report, explore
from .mutations import take_out
from .protocols import TABLE, Actor
from .store import Store, nothing
from .test_streams import TWO, Delivery, Record, by_markers, consumes, key_of


class Wide(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("COUNT", range_key=True, attr_name="SK")
    seeded = CounterField(attr_name="seeded", shards=3)
    zero = CounterField(attr_name="zero", missing="zero", shards=3)


class Seen(CountedModel):
    class Meta:
        table_name = "Seen"

    seen_id = UnicodeAttribute(hash_key=True)
    file_name = UnicodeAttribute(range_key=True)
    counted = CountedIn(Wide.seeded, by="stream")
    from_zero = CountedIn(Wide.zero, by="stream")


class Narrow(CountedModel):
    """The same items, by a program that declares no shards."""

    __module__ = "narrow"

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("COUNT", range_key=True, attr_name="SK")
    seeded = CounterField(attr_name="seeded")
    zero = CounterField(attr_name="zero", missing="zero")


def consumer(counter: CounterField, log: Sequence[Record], *deliveries: Delivery) -> Actor:
    """A consumer by markers; an item is made where its number begins at 0."""

    def count(spot: Spot, moves: Any) -> Protocol[Any]:
        return by_markers(Spot(counter.tally, spot.key, creates=counter.missing == "zero"), moves)

    return consumes(log, deliveries, count, counter)


def reshards(to: int, counter: CounterField = Wide.seeded) -> Actor:
    def protocol() -> Protocol[Any]:
        item = (yield Send("GetItem", {"TableName": TABLE, "Key": key_of("a").wire()})).get("Item")  # type: ignore[union-attr]
        return (yield from reshard(counter.tally, key_of("a"), to, plain=False)) if item else None

    return protocol


def reads(counter: CounterField = Wide.seeded) -> Actor:
    return lambda: read_tally(counter.tally, key_of("a"), True)


def spread(name: str, *parts: int) -> list[Item]:
    """The counter's item, with its number on it or in shards."""
    own = key_of("a").wire()
    if len(parts) == 1:
        return [{**own, name: {"N": str(parts[0])}}]
    shards = [{**own, "SK": {"S": f"COUNT#{name}#{place}"}, name: {"N": str(part)}} for place, part in enumerate(parts)]
    return [{**own, f"{name}Shards": {"N": str(len(parts))}}, *shards]


THREE = tuple(Record(n, {"a": 1}, source) for n, source in enumerate("zdy", 1))
"""A batch from the first on takes the last of three shards, one from the second on the first."""


@dataclass(frozen=True, slots=True)
class World:
    name: str
    items: list[Item]
    actors: Mapping[str, Actor]
    expected: int
    starts: bool = False
    reads: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counter(self) -> CounterField:
        """One that starts from 0, or one that has to be there."""
        return Wide.zero if self.starts else Wide.seeded


QUIET = {"crashes": 0, "lost_responses": 0}

WORLDS = (
    World(
        "two consumers",
        spread("seeded", 4, 1),
        {"one": consumer(Wide.seeded, TWO, (1, 2), (3,)), "other": consumer(Wide.seeded, TWO, (2,), (1, 3))},
        6,
    ),
    World(
        "two consumers, from nothing",
        [],
        {"one": consumer(Wide.zero, TWO[:2], (1, 2)), "other": consumer(Wide.zero, TWO[:2], (2,), (1,))},
        0,
        True,
    ),
    World(
        "from nothing, by programs with and without shards",
        [],
        {"one": consumer(Wide.zero, THREE, (1, 2)), "other": consumer(Narrow.zero, THREE, (2,), (1,))},
        2,
        True,
    ),
    *(
        World(
            f"two consumers, and a reshard from {len(parts)} to {to}",
            spread("seeded", *parts),
            {
                "one": consumer(Wide.seeded, THREE, (1, 2)),
                "other": consumer(Wide.seeded, THREE, (2,), (1,)),
                "reshard": reshards(to),
            },
            sum(parts) + 2,
            settings=QUIET,
        )
        for parts, to in (((5,), 2), ((4, 1), 1), ((4, 1), 3), ((3, 1, 1), 2))
    ),
    World(
        "a consumer and a reshard from 3 to 2, with crashes",
        spread("seeded", 3, 1, 1),
        {"one": consumer(Wide.seeded, THREE, (1, 2)), "again": consumer(Wide.seeded, THREE, (1, 2)), "r": reshards(2)},
        7,
        settings={"crashes": 1, "lost_responses": 0},
    ),
    World(
        "begun from nothing, and brought onto the item",
        [],
        {
            "one": consumer(Wide.zero, THREE, (1,), (2,)),
            "other": consumer(Narrow.zero, THREE, (1, 2)),
            "reshard": reshards(1, Wide.zero),
        },
        2,
        True,
        settings=QUIET,
    ),
    World(
        "a program without shards, beside a reshard from the item into 2",
        spread("zero", 5),
        {"one": consumer(Narrow.zero, THREE, (1,), (2,)), "reshard": reshards(2, Wide.zero)},
        7,
        True,
        settings=QUIET,
    ),
    World(
        "a consumer and a reader",
        spread("seeded", 4, 1),
        {"one": consumer(Wide.seeded, THREE, (1, 2)), "reader": reads(), "reshard": reshards(3)},
        7,
        reads=(5, 7),
        settings=QUIET,
    ),
    World(
        "no item: nothing is made",
        [],
        {"one": consumer(Wide.seeded, THREE, (1, 2)), "other": consumer(Wide.seeded, THREE, (1,))},
        0,
    ),
)


def total(store: Store, counter: CounterField) -> int:
    """What the item and its shards come to. Raises where one is not as its item says."""
    tally, key = counter.tally, key_of("a")
    items = store.items(TABLE, "FILE#a", "COUNT")
    own = next((item for item in items if item["SK"]["S"] == "COUNT"), {})
    shards = {place: item for item in items if (place := number_of(tally, key, item)) is not None}
    found = ParentInShards(layout_of(tally, own), own, shards)
    if found.layout is not None and found.layout.upto == found.layout.shards:
        assert found.whole(tally), f"{found.layout}, and the shards {shards}"
        assert found.layout.shards == 1 or tally.attr_name not in own, f"a number beside the shards: {own}"
    return int(gathered(tally, found).get(tally.attr_name, {"N": "0"})["N"])


def run(world: World, mutate: Callable[[Send], Send] | None = None) -> Report:
    def invariant(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        if world.reads and results.get("reader") not in world.reads:
            return f"the reader was told {results.get('reader')}"
        try:
            found = total(store, world.counter)
        except AssertionError as strange:
            return str(strange)
        return None if found == world.expected else f"{found}, and it should be {world.expected}"

    return explore(
        world.actors,
        Store.of({TABLE: ("PK", "SK")}, {TABLE: world.items}, page_size=6, veils=nothing),
        invariant,
        mutate=mutate,
        **world.settings,
    )


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_each_record_counts_once(world: World) -> None:
    found = run(world)
    assert found.violation is None, str(found.violation)
    assert found.quiescent > 0


MARKED = "SET upto = ? , expires = ?"
NEEDED = (
    ("ADD seeded ?", "attribute_exists(seeded)", "two consumers, and a reshard from 3 to 2"),
    (
        "ADD zero ?",
        "attribute_not_exists(zeroShards)",
        "a program without shards, beside a reshard from the item into 2",
    ),
    ("SET zeroShards = ?", "attribute_not_exists(zeroShards)", "two consumers, from nothing"),
    ("SET zeroShards = ?", "attribute_not_exists(zero)", "from nothing, by programs with and without shards"),
    (MARKED, "attribute_not_exists(upto) OR upto < ?", "two consumers"),
)


@pytest.mark.parametrize(("action", "guard", "name"), NEEDED)
def test_without_any_one_guard_some_order_of_steps_goes_wrong(action: str, guard: str, name: str) -> None:
    (world,) = (world for world in WORLDS if world.name == name)
    assert run(world, take_out(guard, action=action)).violation is not None
