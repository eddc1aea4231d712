"""Counting each record of a stream once, by every interleaving of the library's own steps.

A consumer here is given its deliveries: batches of records of one shard, in order, some of them twice or cut otherwise.
A crash is one anywhere, between two counters too; the other consumer then stands for the one that takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.expressions import Add, Set
from pynacount.keys import ItemKey
from pynacount.plan import Plan, Update
from pynacount.steps import Protocol, Refusal, Send
from pynacount.streams.marking import Marking, count_by_markers
from pynacount.streams.moves import Move
from pynacount.streams.spots import Spot
from pynacount.streams.watermarks import count_by_watermark

from .explorer import Report, explore
from .mutations import Guard, all_guards, take_out, without
from .protocols import TABLE, Actor
from .store import Store


class File(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("COUNT", range_key=True, attr_name="SK")
    seeded = CounterField(attr_name="seeded")
    zero = CounterField(attr_name="zero", missing="zero")


class Event(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("EVENT#{event_id}", range_key=True, attr_name="SK")
    counted = CountedIn(File.seeded, by="stream")
    from_zero = CountedIn(File.zero, by="stream")


@dataclass(frozen=True, slots=True)
class Record:
    """What one record adds to each file; ``source`` is the item that it changed."""

    number: int
    adds: Mapping[str, int]
    source: str = ""


Delivery = Sequence[int]
Count = Callable[[Spot, list[Move]], Protocol[Any]]


def key_of(name: str) -> ItemKey:
    return ItemKey(TABLE, ("PK", "SK"), (("S", f"FILE#{name}"), ("S", "COUNT")))


def marker_key(name: str, source: str) -> ItemKey:
    return ItemKey(TABLE, ("PK", "SK"), (("S", f"MARK#{source}"), ("S", name)))


def by_watermark(spot: Spot, moves: list[Move]) -> Protocol[Any]:
    return count_by_watermark(spot, moves)


def skipping(spot: Spot, moves: list[Move]) -> Protocol[Any]:
    return count_by_watermark(spot, moves, skip_cancelled=True)


def by_markers(spot: Spot, moves: list[Move]) -> Protocol[Any]:
    name = str(spot.key.values[0][1])
    return count_by_markers(spot, moves, Marking(lambda source: marker_key(name, source), "expires", 1_800_000_000))


def apart(spot: Spot, moves: list[Move]) -> Protocol[Any]:
    """The number first and the watermark afterwards, as two writes: no way at all."""
    item = (yield Send("GetItem", {"TableName": TABLE, "Key": spot.key.wire()})).get("Item", {})  # type: ignore[union-attr]
    new = [m for m in moves if m.mark > item.get(spot.tally.upto_name, {}).get("S", "")]
    if new:
        yield Plan((Update(spot.key, (Add(spot.tally.attr_name, sum(m.amount for m in new)),), ()),)).send()
        yield Plan((Update(spot.key, (Set(spot.tally.upto_name, {"S": new[-1].mark}),), ()),)).send()


def unguarded(spot: Spot, moves: list[Move]) -> Protocol[Any]:
    """The article's way: one ``ADD`` for each record."""
    for move in moves:
        answer = yield Plan((Update(spot.key, (Add(spot.tally.attr_name, move.amount),), ()),)).send()
        assert not isinstance(answer, Refusal)


def consumes(log: Sequence[Record], deliveries: Sequence[Delivery], count: Count, counter: CounterField) -> Actor:
    """A consumer of one shard, given its batches by the records' numbers."""
    by_number = {record.number: record for record in log}

    def protocol() -> Protocol[Any]:
        for delivery in deliveries:
            moves: dict[str, list[Move]] = {}
            for number in delivery:
                record = by_number[number]
                for name, amount in record.adds.items():
                    moves.setdefault(name, []).append(Move(f"{number:03}", str(number), amount, record.source))
            for name, some in moves.items():
                yield from count(Spot(counter.tally, key_of(name), creates=counter is File.zero), some)

    return protocol


@dataclass(frozen=True, slots=True)
class World:
    """One log, and two consumers of it."""

    name: str
    log: tuple[Record, ...]
    one: tuple[Delivery, ...]
    other: tuple[Delivery, ...]
    count: Count = by_watermark
    starts: bool = True
    store: Mapping[str, int] = field(default_factory=dict)

    @property
    def counter(self) -> CounterField:
        """One that starts from 0, or one that has to be there."""
        return File.zero if self.starts else File.seeded


def of(*amounts: int, name: str = "a") -> tuple[Record, ...]:
    return tuple(Record(number, {name: amount}) for number, amount in enumerate(amounts, 1))


TWO = (Record(1, {"a": 1, "b": 1}, "x"), Record(2, {"a": -1, "b": 1}, "y"), Record(3, {"a": 1}, "x"))

WORLDS = (
    World("a batch delivered again", of(1, 1), ((1, 2), (1, 2)), ((1, 2),)),
    World("batches that overlap", of(1, 1, 1, 1), ((1, 2), (3, 4)), ((1, 2, 3), (2, 3, 4))),
    World("a batch cut in two", of(1, 1, 1), ((1, 2, 3),), ((1,), (2, 3))),
    World("records that cancel each other out", of(1, -1, 1), ((1, 2), (3,)), ((1,), (2,), (3,))),
    World("a counter below zero and back", of(-1, 1, 1), ((1,), (2, 3)), ((1, 2), (3,))),
    World("two counters, and a crash between them", TWO, ((1, 2), (3,)), ((1,), (2, 3))),
    World(
        "two counters that are there already",
        TWO,
        ((1, 2), (3,)),
        ((1,), (2, 3)),
        starts=False,
        store={"a": 5, "b": 7},
    ),
    World("two partitions, by markers", TWO, ((1, 2), (3,)), ((2,), (1,), (3,)), count=by_markers),
    World("cancelled, by markers", TWO, ((1, 2), (1,), (3,)), ((1,), (2, 3)), count=by_markers),
    World(
        "two partitions of a counter that is there, by markers",
        TWO[:2],
        ((1, 2), (2,)),
        ((2,), (1,)),
        count=by_markers,
        starts=False,
        store={"a": 5, "b": 7},
    ),
)


def run(
    world: World, mutate: Callable[[Send], Send] | None = None, count: Count | None = None, **settings: int
) -> Report:
    name = world.counter.attr_name
    rows = [{**key_of(file).wire(), name: {"N": str(number)}} for file, number in world.store.items()]
    expected = dict(world.store)
    for record in world.log:
        for file, amount in record.adds.items():
            expected[file] = expected.get(file, 0) + amount

    def invariant(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        found = {file: store.number(name, TABLE, f"FILE#{file}", "COUNT") or 0 for file in expected}
        return None if found == expected else f"{found}, and it should be {expected}"

    return explore(
        {
            "one": consumes(world.log, world.one, count or world.count, world.counter),
            "other": consumes(world.log, world.other, count or world.count, world.counter),
        },
        Store.of({TABLE: ("PK", "SK")}, {TABLE: rows}),
        invariant,
        mutate=mutate,
        **settings,
    )


REPORTS = {world.name: run(world) for world in WORLDS}


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_each_record_counts_once(world: World) -> None:
    report = REPORTS[world.name]
    assert report.violation is None, str(report.violation)
    assert report.quiescent > 0


def guards() -> dict[str, list[tuple[Guard, World]]]:
    found: dict[str, list[tuple[Guard, World]]] = {}
    for world in WORLDS:
        for guard in all_guards(REPORTS[world.name].sends):
            if "<" in guard.text:
                found.setdefault(guard.text, []).append((guard, world))
    return found


GUARDS = guards()


def test_the_guards_are_those_that_are_meant() -> None:
    assert sorted(GUARDS) == [
        "attribute_not_exists(seededUpto) OR seededUpto < ?",
        "attribute_not_exists(upto) OR upto < ?",
        "attribute_not_exists(zeroUpto) OR zeroUpto < ?",
    ]


@pytest.mark.parametrize("text", GUARDS)
def test_without_any_one_of_them_some_order_of_steps_goes_wrong(text: str) -> None:
    assert any(run(world, take_out(text)).violation is not None for _, world in GUARDS[text])
    assert any(run(world, without(guard)).violation is not None for guard, world in GUARDS[text])


@pytest.mark.parametrize("count", [apart, unguarded], ids=["number and watermark apart", "the article's"])
def test_other_ways_go_wrong(count: Count) -> None:
    assert run(WORLDS[0], count=count).violation is not None


def test_to_skip_what_cancels_out_goes_wrong_where_two_consumers_cut_otherwise() -> None:
    violation = run(WORLDS[3], count=skipping).violation
    assert violation is not None and "it should be {'a': 1}" in violation.message


CUTS = (((1,), (1, 2), (3,)), ((1, 2), (1,), (2, 3)), ((1,), (2,), (1, 2), (2, 3)), ((1, 2), (1, 2, 3)))


@pytest.mark.parametrize("cut", CUTS)
def test_to_skip_what_cancels_out_is_exact_where_one_consumer_cuts_otherwise(cut: tuple[Delivery, ...]) -> None:
    """It begins again wherever it was, and leaves no record out."""
    assert run(World("", WORLDS[3].log, cut, ()), count=skipping, crashes=0).violation is None


def test_to_skip_without_a_look_goes_wrong_even_for_one_consumer() -> None:
    def blindly(spot: Spot, moves: list[Move]) -> Protocol[Any]:
        if sum(move.amount for move in moves):
            yield from count_by_watermark(spot, moves)

    assert run(World("", WORLDS[3].log, CUTS[0], ()), count=blindly, crashes=0).violation is not None


def test_markers_for_partitions_and_not_a_watermark() -> None:
    """Where the records come in another order than their numbers, a watermark leaves some out."""
    assert run(WORLDS[7], count=by_watermark).violation is not None
