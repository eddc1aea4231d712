"""Seeding counters that are kept from a stream, of single parents and of a whole table, while people go on."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pynacount.commit import Driver
from pynacount.connections import connection_for
from pynacount.contributions import Tally
from pynacount.errors import CounterContention, CounterNotSeeded, DeclarationError, ParentMissing, PynacountError
from pynacount.expressions import Names
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.markers import clock
from pynacount.model import CountedModel
from pynacount.protocols.counting import count
from pynacount.relations import CountedIn
from pynacount.schema import KeySchema
from pynacount.steps import Item, Protocol, Refusal, Send
from pynacount.streams.consuming import identity_of
from pynacount.streams.keeping import Keeping, keeping, streamed_relations
from pynacount.streams.metering import metered
from pynacount.streams.moves import FENCE_PREFIX, is_fence
from pynacount.streams.reading import Stream, stream_arn, streams_client
from pynacount.streams.records import read_change
from pynacount.streams.snapshots import Snapshot, Window, begin_anew
from pynacount.streams.spots import Spot
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import Tracking

R = TypeVar("R", bound=CountedModel)

TOGETHER = 50
"""Parents that are seeded between one pair of looks at the stream."""
TRIES = 5
"""How often a parent is counted that another seeder counts too."""
LEFT_BEHIND = 3600.0
"""Seconds after which a fence is taken to have been left behind."""
STREAM_DEADLINE = 60.0
"""Seconds for which the seeder waits for its own fences to come in the stream."""


def seed(counter: CounterField, *refs: R, anew: bool = False, creates: bool | None = None) -> dict[R, int | None]:
    """Count the children of some parents and set the tally of each that has none; their tallies, by ref.

    Exact while people write and the consumer of the stream runs, behind or not. It writes an item into the children's
    partition, a fence, deletes it after the count, and reads the stream in between.

    :param anew: count those too that have a tally, which may have drifted.
    :param creates: as for :class:`~pynacount.streams.StreamTally`, and to be the same.
    :raises DeclarationError: for a counter that is kept by markers, or not from a stream.
    :raises ParentMissing: for an item that does not exist and is not to be made.
    :raises CounterContention: where its own fence did not come in the stream within a minute.
    """
    seeder = Seeder(counter, creates)
    keys = {ref: counter.owner._counting.key_of(ref) for ref in refs}
    found = {one.key: one for one in seeder.seed(list(dict.fromkeys(keys.values())), anew)}
    for one in found.values():
        if one.status == "gone":
            raise ParentMissing(one.message)
        if one.status == "failed":
            raise CounterContention(one.message)
    tallies: dict[ItemKey, Any] = {key: one.tally for key, one in found.items()}  # ints, but for fractional amounts
    return {ref: tallies[key] for ref, key in keys.items()}


def migrate(
    counters: Iterable[CounterField],
    *,
    anew: bool = False,
    creates: bool | None = None,
    limit: int | None = None,
    tracking: Tracking | None = None,
    dry_run: bool = False,
) -> Generator[Seeded, None, None]:
    """Seed every parent that has no tally, of counters that are kept from a stream; gives what became of each.

    Parents are found by a scan of their own table, and of their children's. Safe to run by several at once, and again.

    :param limit: most parents to be seeded; ``dry_run``: write nothing, and count what is there now; else as in
        :func:`seed`.
    :param tracking: is filled in while it runs; what is read of the stream is not in it.
    """
    track = Tracking() if tracking is None else tracking
    counters = list(counters)
    models = [counter.owner for counter in counters]
    models += [relation.owner for counter in counters for relation in streamed_relations(counter)]
    clients = [connection_for(model.Meta).client for model in models]
    yield from metered(clients, track, _migrate(counters, anew, creates, limit, track, dry_run=dry_run))


def _migrate(
    counters: Iterable[CounterField],
    anew: bool,
    creates: bool | None,
    limit: int | None,
    track: Tracking,
    *,
    dry_run: bool,
) -> Generator[Seeded, None, None]:
    for counter in counters:
        seeder = Seeder(counter, creates)
        keys = itertools.islice(seeder.unseeded(anew), limit)
        while some := list(itertools.islice(keys, TOGETHER)):
            if dry_run:
                yield from (_planned(counter, key) for key in some)
            else:
                yield from seeder.seed(some, anew)
        track.present += seeder.present


def _planned(counter: CounterField, key: ItemKey) -> Seeded:
    """What seeding a parent would come to, by a count of its children; None for its tally where only a scan counts."""
    driver = counter.owner._counting.driver(f"counting {counter.label} of the item {key}", renew=True)
    try:
        number: Any = driver.run(count(counter.tally, key))
    except CounterNotSeeded:
        number = None
    except PynacountError as error:
        return Seeded(counter.label, key, "failed", message=error.msg)
    return Seeded(counter.label, key, "planned", number)


class Seeder:
    """Seeds the parents of one counter."""

    def __init__(self, counter: CounterField, creates: bool | None = None) -> None:
        self.counter = counter
        self.relations = streamed_relations(counter)
        self.kept: Keeping = keeping(counter, self.relations, None, creates)
        if self.kept.way != "watermark":
            raise DeclarationError(
                f"{counter.label} is kept by markers ({self.kept.why}), and no place in one partition's stream says "
                f"what is counted; seed it while nobody writes, or key the children's table by what is counted"
            )
        self.tally: Tally = counter.tally
        self.meta = self.relations[0].owner.Meta
        self._arn = ""
        self.present = 0  # parents that were found to have their tally

    # -- seeding

    def seed(self, keys: list[ItemKey], anew: bool = False) -> Iterator[Seeded]:
        """Seed some parents together."""
        if anew:
            for key in keys:
                self._driver(key).run(begin_anew(self._spot(key)))
        waiting = keys
        for _ in range(TRIES):
            again: list[ItemKey] = []
            for one in self._pass(waiting):
                if one is not None and isinstance(one, Seeded):
                    yield one
                else:
                    again.append(one)
            waiting = again
            if not waiting:
                return
        for key in waiting:
            message = f"{self.tally.label} of {key}: others were seeding it each time it was counted; run it again"
            yield Seeded(self.tally.label, key, "failed", message=message)

    def _pass(self, keys: list[ItemKey]) -> Iterator[Seeded | ItemKey]:
        """One count of some parents; a key where another seeder came between."""
        relation = self.relations[0]
        children: Driver = relation.owner._counting.driver(f"seeding {self.tally.label}", renew=True)
        stream = self._tail()
        identity = identity_of(self.counter)
        snapshots = [Snapshot(self._spot(key), self.relations, identity, new_token()) for key in keys]
        for snapshot in snapshots:
            children.run(snapshot.begin())
        failed: dict[ItemKey, PynacountError] = {}
        for snapshot in snapshots:
            try:
                children.run(snapshot.count())
            except PynacountError as error:
                failed[snapshot.spot.key] = error
        for snapshot in snapshots:
            children.run(snapshot.end())
        windows = [Window(snapshot) for snapshot in snapshots]
        self._read(stream, windows)
        for window in windows:
            key = window.snapshot.spot.key
            if key in failed:
                yield Seeded(self.tally.label, key, "failed", message=failed[key].msg)
                continue
            try:
                number: Any = self._driver(key).run(window.snapshot.set(window))
            except ParentMissing as gone:
                yield Seeded(self.tally.label, key, "gone", message=gone.msg)
                continue
            yield key if number is None else Seeded(self.tally.label, key, "seeded", number)

    def _tail(self) -> Stream:
        """The stream of the children's table, from now on."""
        table = self.relations[0].child_schema.table
        self._arn = self._arn or stream_arn(self.meta, table)
        stream = Stream(streams_client(self.meta), self._arn, "LATEST")
        stream.look()
        return stream

    def _read(self, stream: Stream, windows: list[Window]) -> None:
        """Read until all fences are deleted."""
        until = time.monotonic() + STREAM_DEADLINE
        while not all(window.closed for window in windows):
            met = False
            for shard in stream.readable():
                changes = [read_change(record) for record in stream.read(shard)]
                met = met or bool(changes)
                for window in windows:
                    window.take(changes)
            if any(shard.ended for shard in stream.shards.values()):
                stream.look()
            if time.monotonic() > until:
                raise CounterContention(
                    f"{self.tally.label}: the fences that were written into table {windows[0].snapshot.fence.table} "
                    f"did not come in its stream within {STREAM_DEADLINE:g} s; nothing was set. Run it again"
                )
            if not met:
                time.sleep(0.05)

    def _spot(self, key: ItemKey) -> Spot:
        return Spot(self.tally, key, self.kept.creates, self.kept.bounds)

    def _driver(self, key: ItemKey) -> Driver:
        driver: Driver = self.counter.owner._counting.driver(f"{self.tally.label} of the item {key}", renew=True)
        return driver

    # -- finding parents

    def unseeded(self, anew: bool = False) -> Iterator[ItemKey]:
        """The keys of the parents that have no tally (``anew``: of all), each once."""
        schema = self.counter.owner._counting.schema
        names = (*schema.names, self.tally.attr_name)
        known: set[ItemKey] = set()
        for item in self._scan(self.counter.owner._counting.driver(self.tally.label), schema.table, names):
            key = _key_of(self.counter, item)
            if key is not None and key not in known:
                known.add(key)
                if anew or self.tally.attr_name not in item:
                    yield key
                else:
                    self.present += 1
        for relation in self.relations:
            wanted = tuple(dict.fromkeys((*relation.child_schema.names, *relation.read_attributes)))
            driver = relation.owner._counting.driver(relation.label)
            for item in self._scan(driver, relation.child_schema.table, wanted):
                if is_fence(item):
                    self._clear(driver, relation.child_schema, item)
                    continue
                key = _parent_of(relation, item)
                if key is not None and key not in known:
                    known.add(key)
                    yield key

    def _clear(self, driver: Driver, schema: KeySchema, item: Item) -> None:
        """Delete a fence that a seeder left behind, which was killed long ago."""
        text = str(item[schema.names[-1]].get("S", "")).removeprefix(FENCE_PREFIX)
        raised = text.partition("-")[0]
        if raised.isdecimal() and clock() - int(raised) > LEFT_BEHIND:
            key = {name: item[name] for name in schema.names}
            driver.run(_delete(schema.table, key))

    def _scan(self, driver: Driver, table: str, attributes: tuple[str, ...]) -> Iterator[Item]:
        start: Item | None = None
        while True:
            page = driver.run(_page(table, attributes, start))
            yield from page["Items"]
            start = page.get("LastEvaluatedKey")
            if not start:
                return


def new_token() -> str:
    """A seeder's name for its fence, which says when it was raised."""
    return f"{int(clock())}-{secrets.token_hex(8)}"


def _delete(table: str, key: Item) -> Protocol[None]:
    yield Send("DeleteItem", {"TableName": table, "Key": key})


def _page(table: str, attributes: tuple[str, ...], start: Item | None) -> Protocol[Mapping[str, Any]]:
    names = Names()
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "ProjectionExpression": ", ".join(names.name(name) for name in attributes),
        **names.request(),
        **({"ExclusiveStartKey": start} if start else {}),
    }
    answer = yield Send("Scan", request)
    assert not isinstance(answer, Refusal)
    return answer


def _key_of(counter: CounterField, item: Item) -> ItemKey | None:
    """The key of an item of the counter's model; None for another's."""
    schema = counter.owner._counting.schema
    values = tuple(next(iter(item[name].items())) for name in schema.names)
    key = ItemKey(schema.table, schema.names, values)
    try:
        schema.read_key(key)
    except PynacountError:
        return None
    return key


def _parent_of(relation: CountedIn, item: Item) -> ItemKey | None:
    """The key of a child's parent; None for what is no child."""
    child = relation.read(item)
    return None if child is None else relation.parent_key(child)
