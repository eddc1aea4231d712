"""Seeding a counter that is kept by markers, by every interleaving of writers, consumers and the seeder.

The stream is the ``LOG`` of :mod:`.test_streams_seeding`. A consumer that goes on makes the seeder give up; it must
never make it set a wrong number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pynacount.fields import CounterField
from pynacount.protocols.resharding import reshard
from pynacount.steps import Item, Protocol, Send
from pynacount.streams.consuming import identity_of
from pynacount.streams.marked_seeding import Census, begin, finish, pass_over, take_away
from pynacount.streams.moves import Batch, ByRelation
from pynacount.streams.spots import Spot

from .explorer import Report, explore
from .mutations import take_out
from .protocols import TABLE, Actor
from .store import Store, nothing
from .test_streams import Event as Child
from .test_streams import File as Parent
from .test_streams import by_markers, key_of
from .test_streams_seeding import LOG, changes_of, child, writes
from .test_streams_shards import Wide, spread, total

RELATIONS = {"seeded": Child.counted, "zero": Child.from_zero}


def spot_of(counter: CounterField) -> Spot:
    return Spot(counter.tally, key_of("a"), creates=True)


def log() -> Protocol[Item]:
    item: Item = (yield Send("GetItem", {"TableName": TABLE, "Key": LOG}))["Item"]  # type: ignore[index]
    return item


def consume(counter: CounterField, rounds: int, place: int = 0) -> Protocol[int]:
    """Read the stream for some rounds, from the record behind ``place``; the place where it stopped."""
    relation = RELATIONS[counter.attr_name]
    known = {identity_of(counter): counter.tally}
    for _ in range(rounds):
        records = yield from log()
        batch = Batch()
        for change in changes_of(records, place):
            batch.take(change, [ByRelation(relation)], known)
        place = len(records) - 3
        for (_, key), steps in batch.ordered().items():
            yield from by_markers(Spot(counter.tally, key, creates=True), steps)  # type: ignore[arg-type]
    return place


def consumes(counter: CounterField, rounds: int = 2) -> Actor:
    return lambda: consume(counter, rounds)


def seeds(counter: CounterField, token: str, anew: bool = False, marks: bool = True) -> Actor:
    """The seeder's steps; ``marks``: whether it marks what was before the low watermark, as it must."""

    def protocol() -> Protocol[Any]:
        spot, relation = spot_of(counter), RELATIONS[counter.attr_name]
        if anew:
            yield from take_away(spot)
        if (yield from begin(spot, token)) is not None:
            return None
        target = (Parent.zero if counter.attr_name == "zero" else Parent.seeded).tally, spot.key
        census = Census([ByRelation(relation)], frozenset([target]))
        low = yield from log()
        for change in changes_of(low, 0):
            census.pass_by(change)
        marking = _marking()
        upto = {source: mark for (_, source), mark in census.marks.items()}
        if marks and not (yield from pass_over(spot, token, upto, marking)):
            return None
        query: dict[str, Any] = {
            "TableName": TABLE,
            "KeyConditionExpression": "PK = :pk AND begins_with(SK, :sk)",
            "ExpressionAttributeValues": {":pk": {"S": "FILE#a"}, ":sk": {"S": "EVENT#"}},
            "ConsistentRead": True,
        }
        while True:
            page: Any = yield Send("Query", query)
            for item in page["Items"]:
                census.take(TABLE, ("PK", "SK"), item)
            if not page.get("LastEvaluatedKey"):
                break
            query = {**query, "ExclusiveStartKey": page["LastEvaluatedKey"]}
        for change in changes_of((yield from log()), len(low) - 3):
            census.wind_back(change)
        return (yield from finish(spot, token, census.totals()[target]))

    return protocol


def _marking() -> Any:
    from pynacount.streams.marking import Marking

    from .test_streams import marker_key

    return Marking(lambda source: marker_key("FILE#a", source), "expires", 1_800_000_000)


@dataclass(frozen=True, slots=True)
class World:
    name: str
    there: tuple[int, ...]
    actors: Callable[[], Mapping[str, Actor]]
    counter: list[Item] = field(default_factory=list)
    starts: bool = False
    anew: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> CounterField:
        return Wide.zero if self.starts else Wide.seeded


S, Z = Parent.seeded, Parent.zero
QUIET = {"crashes": 0, "lost_responses": 0}

WORLDS = (
    World(
        "children come and go while they are counted, and the consumer is stopped",
        (1, 2),
        lambda: {"writer": writes(-1, 3), "seeder": seeds(S, "t")},
    ),
    World(
        "the consumer goes on",
        (1, 2),
        lambda: {"writer": writes(-1, 3), "consumer": consumes(S), "seeder": seeds(S, "t")},
        settings={"crashes": 1, "lost_responses": 0},
    ),
    World(
        "one child comes, goes and comes again",
        (1,),
        lambda: {"writer": writes(-1, 1), "consumer": consumes(S), "seeder": seeds(S, "t")},
        settings=QUIET,
    ),
    World(
        "two seeders and a consumer",
        (1,),
        lambda: {"writer": writes(2), "consumer": consumes(S, 1), "seeder": seeds(S, "t"), "other": seeds(S, "u")},
        settings=QUIET,
    ),
    World(
        "one that starts from zero",
        (1,),
        lambda: {"writer": writes(-1, 2), "consumer": consumes(Z, 1), "seeder": seeds(Z, "t", anew=True)},
        starts=True,
        settings=QUIET,
    ),
    World(
        "one that drifted, anew",
        (1,),
        lambda: {"writer": writes(2), "consumer": consumes(S, 1), "seeder": seeds(S, "t", anew=True)},
        counter=spread("seeded", 77),
        anew=True,
        settings=QUIET,
    ),
    World(
        "one in shards that drifted, anew",
        (1,),
        lambda: {
            "writer": writes(2),
            "consumer": consumes(Wide.seeded, 1),
            "seeder": seeds(Wide.seeded, "t", anew=True),
        },
        counter=spread("seeded", 70, 7),
        anew=True,
        settings=QUIET,
    ),
    World(
        "one in shards that drifted, anew, while it is resharded",
        (1,),
        lambda: {
            "consumer": consumes(Wide.seeded, 1),
            "reshard": lambda: reshard(Wide.seeded.tally, key_of("a"), 3, plain=False),
            "seeder": seeds(Wide.seeded, "t", anew=True),
        },
        counter=spread("seeded", 70, 7),
        anew=True,
        settings=QUIET,
    ),
)


def run(world: World, mutate: Callable[[Send], Send] | None = None, actors: Any = None, **settings: Any) -> Report:
    counter = world.kept
    first = json.dumps({"event": "INSERT", "keys": child(1), "item": child(1)})  # its record is still to be read
    rows: list[Item] = [{**LOG, "r0": {"S": "begin"}, "r1": {"S": first}}, *(child(n) for n in world.there)]
    seeded = 0

    def invariant(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        nonlocal seeded
        rest = consume(counter, 1)
        answer: Any = None
        try:
            while True:
                store, answer = store.send(rest.send(answer))  # type: ignore[arg-type]
        except StopIteration:
            pass
        done = any(results.get(name) is not None for name in ("seeder", "other"))
        item = store.get(TABLE, "FILE#a", "COUNT") or {}
        if counter.attr_name not in item and f"{counter.attr_name}Shards" not in item:
            return "it was seeded, and has no tally" if done else None
        if not done and (world.anew or world.starts):
            return None  # as wrong as it was
        seeded += done
        true, found = len(store.items(TABLE, "FILE#a", "EVENT#")), total(store, counter)
        return None if found == true else f"tally {found}, count {true}"

    report = explore(
        actors or world.actors(),
        Store.of({TABLE: ("PK", "SK")}, {TABLE: [*rows, *world.counter]}, page_size=6, veils=nothing),
        invariant,
        mutate=mutate,
        **(settings or world.settings),
    )
    assert seeded or report.violation, "never seeded"
    return report


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_a_tally_that_is_set_is_the_count(world: World) -> None:
    found = run(world)
    assert found.violation is None, str(found.violation)


def test_without_the_fence_a_consumer_that_goes_on_makes_it_wrong() -> None:
    assert run(WORLDS[1], take_out("seededFence = ?"), crashes=0, lost_responses=0).violation is not None


def test_without_marks_what_is_in_the_count_is_counted_again() -> None:
    actors = {"writer": writes(-1), "seeder": seeds(S, "t", marks=False)}
    assert run(WORLDS[0], actors=actors, crashes=0, lost_responses=0).violation is not None


def test_a_seeder_that_marks_without_its_fence_makes_another_wrong() -> None:
    def without(send: Send) -> Send:
        items = send.request.get("TransactItems", ())
        if send.operation != "TransactWriteItems" or "ConditionCheck" not in items[-1]:
            return send
        return Send(send.operation, {"TransactItems": items[:-1]})

    assert run(WORLDS[3], without, **QUIET).violation is not None


def test_a_consumer_that_leaves_the_fence_makes_it_wrong() -> None:
    def leave(send: Send) -> Send:
        text = json.dumps(send.request).replace("REMOVE seededFence ", "")
        return Send(send.operation, json.loads(text)) if "ADD seededMoved" in text else send

    assert run(WORLDS[1], leave, crashes=0, lost_responses=0).violation is not None
