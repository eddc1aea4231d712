"""Seeding a counter that is kept from a stream, by every interleaving of writers, the consumer and the seeder.

The stream is an item of the model's own, ``LOG``, with one attribute for each record: whatever writes a child or a
fence writes its record in the same transaction, as DynamoDB does. A consumer goes a number of rounds and stops
anywhere; what it left is counted when all is quiet, as a stream waits for its consumer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pynacount.expressions import Set
from pynacount.fields import CounterField
from pynacount.plan import Claim, Plan, Update
from pynacount.steps import Item, Protocol, Refusal, Send
from pynacount.streams.consuming import identity_of
from pynacount.streams.moves import Batch, ByRelation
from pynacount.streams.records import Change, mark_of
from pynacount.streams.snapshots import Snapshot, Window, begin_anew
from pynacount.streams.spots import Spot
from pynacount.streams.watermarks import count_by_watermark

from .explorer import Report, explore
from .mutations import take_out
from .protocols import TABLE, Actor
from .store import Store, nothing
from .test_streams import Event, File, key_of

LOG = {"PK": {"S": "LOG"}, "SK": {"S": "LOG"}}
RELATIONS = {"seeded": Event.counted, "zero": Event.from_zero}


def counter_of(starts: bool) -> CounterField:
    return File.zero if starts else File.seeded


def spot_of(counter: CounterField) -> Spot:
    return Spot(counter.tally, key_of("a"), creates=True)


def child(number: int | str) -> Item:
    return {"PK": {"S": "FILE#a"}, "SK": {"S": f"EVENT#{number}"}}


# -- the stream


def logged(event: str, key: Item, item: Item | None) -> Protocol[bool]:
    """Write or delete an item together with its record; False where there is nothing to do, and so no record."""
    names = {"TableName": TABLE}
    while True:
        log = (yield Send("GetItem", {**names, "Key": LOG}))["Item"]  # type: ignore[index]
        number = len(log) - 2  # two are its key
        record = json.dumps({"event": event, "keys": key, "item": item})
        own: dict[str, Any]
        if item is not None:
            own = {"Put": {**names, "Item": item, "ConditionExpression": "attribute_not_exists(SK)"}}
        else:
            own = {"Delete": {**names, "Key": key, "ConditionExpression": "attribute_exists(SK)"}}
        write = {
            **names,
            "Key": LOG,
            "UpdateExpression": f"SET r{number} = :record",
            "ConditionExpression": f"attribute_not_exists(r{number})",
            "ExpressionAttributeValues": {":record": {"S": record}},
        }
        answer = yield Send("TransactWriteItems", {"TransactItems": [own, {"Update": write}]})
        if not isinstance(answer, Refusal):
            return True
        if answer.reasons[0] is not None:
            return False


def changes_of(log: Item, after: int) -> list[Change]:
    """The records behind one, as a consumer reads them."""
    found = []
    for number in range(after + 1, len(log) - 2):
        record = json.loads(log[f"r{number}"]["S"])
        sequence = str(number)
        found.append(
            Change(
                TABLE,
                record["event"],
                record["keys"],
                None if record["event"] == "INSERT" else record["keys"],
                record["item"],
                sequence,
                mark_of("", sequence),
                "NEW_AND_OLD_IMAGES",
            )
        )
    return found


def into_the_log(protocol: Protocol[Any]) -> Protocol[Any]:
    """What a protocol writes among the children goes with its record."""
    answer: Any = None
    step: Any = next(protocol, None)
    while step is not None:
        request = step.request
        if step.operation == "PutItem":
            yield from logged("INSERT", {n: request["Item"][n] for n in ("PK", "SK")}, request["Item"])
            answer = {}
        elif step.operation == "DeleteItem":
            yield from logged("REMOVE", request["Key"], None)
            answer = {}
        else:
            answer = yield step
        try:
            step = protocol.send(answer)
        except StopIteration as end:
            return end.value
    return None


# -- the actors


def writes(*steps: int) -> Actor:
    """Adds the children of these numbers, and removes those whose number is negative."""

    def protocol() -> Protocol[Any]:
        for number in steps:
            key = child(abs(number))
            yield from logged("INSERT" if number > 0 else "REMOVE", key, key if number > 0 else None)

    return protocol


def consume(counter: CounterField, rounds: int, place: int = 0) -> Protocol[int]:
    """Read the stream for some rounds, from the record behind ``place``; the place where it stopped."""
    for _ in range(rounds):
        log = (yield Send("GetItem", {"TableName": TABLE, "Key": LOG}))["Item"]  # type: ignore[index]
        batch = Batch()
        counted = [ByRelation(RELATIONS[counter.attr_name])]
        for change in changes_of(log, place):
            batch.take(change, counted, {identity_of(counter): counter.tally})
        place = len(log) - 3
        for (tally, key), steps in batch.ordered().items():
            yield from count_by_watermark(Spot(tally, key, creates=True), steps)
    return place


def consumes(counter: CounterField, rounds: int = 2) -> Actor:
    return lambda: consume(counter, rounds)


def seeds(counter: CounterField, token: str, anew: bool = False, tries: int = 2) -> Actor:
    def protocol() -> Protocol[Any]:
        if anew:
            yield from begin_anew(spot_of(counter))
        for attempt in range(tries):
            one = Snapshot(spot_of(counter), [RELATIONS[counter.attr_name]], identity_of(counter), f"{token}{attempt}")
            yield from into_the_log(one.begin())
            yield from one.count()
            yield from into_the_log(one.end())
            window = Window(one)
            log = (yield Send("GetItem", {"TableName": TABLE, "Key": LOG}))["Item"]  # type: ignore[index]
            window.take(changes_of(log, 0))
            assert window.closed
            number = yield from one.set(window)
            if number is not None:
                return number
        return None

    return protocol


def fences(counter: CounterField, token: str) -> Actor:
    """A seeder that raises its fence, and is never heard of again."""
    one = Snapshot(spot_of(counter), [RELATIONS[counter.attr_name]], identity_of(counter), token)
    return lambda: into_the_log(one.begin())


def unfenced(counter: CounterField) -> Actor:
    """Counts, and sets the number with the last record's mark: no way at all."""

    def protocol() -> Protocol[Any]:
        one = Snapshot(spot_of(counter), [RELATIONS[counter.attr_name]], identity_of(counter), "t")
        yield from one.count()
        log = (yield Send("GetItem", {"TableName": TABLE, "Key": LOG}))["Item"]  # type: ignore[index]
        mark = mark_of("", str(len(log) - 3))
        sets = (
            Set(counter.attr_name, {"N": str(sum(one.children.values()))}),
            Set(counter.tally.upto_name, {"S": mark}),
        )
        yield Plan((Update(key_of("a"), sets, (Claim((), one),)),)).send()

    return protocol


@dataclass(frozen=True, slots=True)
class World:
    name: str
    there: tuple[int, ...]
    actors: Callable[[CounterField], Mapping[str, Actor]]
    starts: bool = False
    counter: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> CounterField:
        return counter_of(self.starts)


WORLDS = (
    World(
        "children come and go while they are counted",
        (1, 2),
        lambda c: {"writer": writes(-1, 3), "consumer": consumes(c), "seeder": seeds(c, "t")},
    ),
    World(
        "one child comes, goes and comes again",
        (1,),
        lambda c: {"writer": writes(-1, 1), "consumer": consumes(c), "seeder": seeds(c, "t")},
    ),
    World(
        "two seeders",
        (1,),
        lambda c: {
            "consumer": consumes(c, 1),
            "seeder": seeds(c, "t", tries=1),
            "other": seeds(c, "u", tries=1),
        },
    ),
    World(
        "two consumers",
        (1,),
        lambda c: {
            "writer": writes(-1),
            "consumer": consumes(c),
            "consumer 2": consumes(c, 1),
            "seeder": seeds(c, "t"),
        },
    ),
    World(
        "a counter that drifted is counted anew",
        (1, 2),
        lambda c: {"writer": writes(-1, 3), "consumer": consumes(c), "seeder": seeds(c, "t", anew=True)},
        counter={"seeded": {"N": "77"}, "seededUpto": {"S": mark_of("", "0")}},
    ),
    World(
        "one that starts from zero, anew",
        (1,),
        lambda c: {"writer": writes(2), "consumer": consumes(c), "seeder": seeds(c, "t", anew=True)},
        starts=True,
        counter={"zero": {"N": "77"}, "zeroUpto": {"S": mark_of("", "0")}},
    ),
)


def run(world: World, mutate: Callable[[Send], Send] | None = None, actors: Any = None, faults: bool = True) -> Report:
    counter = world.kept
    # The first child's own record is still to be read.
    first = json.dumps({"event": "INSERT", "keys": child(1), "item": child(1)})
    log = {**LOG, "r0": {"S": "begin"}, **({} if world.counter else {"r1": {"S": first}})}
    rows: list[Item] = [log, *(child(number) for number in world.there)]
    if world.counter:
        rows.append({**key_of("a").wire(), **world.counter})

    def invariant(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        # Where the consumers stopped, the next goes on; where one crashed, it begins anew.
        places = [place for name, place in results.items() if name.startswith("consumer")]
        rest = consume(counter, 1, max(places, default=0))
        answer: Any = None
        try:
            while True:
                store, answer = store.send(rest.send(answer))  # type: ignore[arg-type]
        except StopIteration:
            pass
        true = len(store.items(TABLE, "FILE#a", "EVENT#"))
        tally = store.number(counter.attr_name, TABLE, "FILE#a", "COUNT")
        if world.counter and "seeder" in crashed:
            return None  # as wrong as it was, or still without
        if tally is None and any(name in crashed for name in world.actors(counter)):
            return None
        if tally is None and all(results[name] is None for name in results if name.startswith(("seeder", "other"))):
            return None  # each gave way to the other, and says so
        return None if tally == true else f"tally {tally}, count {true}"

    return explore(
        actors or world.actors(counter),
        Store.of({TABLE: ("PK", "SK")}, {TABLE: rows}, veils=nothing),
        invariant,
        mutate=mutate,
        lost_responses=int(faults and world is WORLDS[0]),
        crashes=int(faults and len(world.actors(counter)) < 4),
    )


REPORTS: dict[str, Report] = {}


def report(world: World) -> Report:
    if world.name not in REPORTS:
        REPORTS[world.name] = run(world)
    return REPORTS[world.name]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_every_order_the_tally_is_the_count(world: World) -> None:
    found = report(world)
    assert found.violation is None, str(found.violation)
    assert found.quiescent > 0


def test_a_count_without_fences_goes_wrong() -> None:
    world = WORLDS[0]
    actors = {**world.actors(world.kept), "seeder": unfenced(world.kept)}
    assert run(world, actors=actors).violation is not None


SMALL = (
    World(
        "a child that goes",
        (1, 2),
        lambda c: {"writer": writes(-1), "consumer": consumes(c), "seeder": seeds(c, "t", tries=1)},
    ),
    World(
        "a child that goes, and two consumers",
        (1, 2),
        lambda c: {
            "writer": writes(-1),
            "consumer": consumes(c),
            "consumer 2": consumes(c, 1),
            "seeder": seeds(c, "t", tries=1),
        },
    ),
    World(
        "a child that goes, and another seeder's fence",
        (1, 2),
        lambda c: {
            "writer": writes(-1),
            "consumer": consumes(c),
            "seeder": seeds(c, "t", tries=1),
            "other": fences(c, "u"),
        },
    ),
)


WATERMARK = "attribute_not_exists(seededUpto) OR seededUpto < ?"
REST = "REMOVE seededMoved , seededFence , seededWas"
NEEDED = (
    (f"SET seeded = ? , seededUpto = ? {REST}", WATERMARK, 0),
    (f"SET seeded = seededMoved + ? {REST}", "seededFence = ?", 2),
    ("SET seededMoved = ? , seededUpto = ? , seededFence = ?", WATERMARK, 1),
    ("SET seededUpto = ? ADD seeded ?", "attribute_exists(seeded)", 0),
    ("SET seededUpto = ? ADD seeded ?", WATERMARK, 0),
    ("SET seededUpto = ? ADD seededMoved ?", "attribute_not_exists(seeded)", 0),
    ("SET seededUpto = ? ADD seededMoved ?", WATERMARK, 1),
)
"""The guards, by what they guard, and the world that shows what each is for.

Not among them are those that leave a tally alone which somebody else has set: to set it again would be exact as well.
"""


@pytest.mark.parametrize(("action", "text", "world"), NEEDED)
def test_without_any_one_guard_some_order_of_steps_goes_wrong(action: str, text: str, world: int) -> None:
    assert run(SMALL[world], take_out(text, action=action), faults=False).violation is not None
