"""Seeding counters that are kept from a stream, of single parents and of a whole table, while people go on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterable, Iterator
from typing import Any, TypeVar

from pynacount.commit import Driver
from pynacount.connections import connection_for
from pynacount.errors import CounterContention, CounterNotSeeded, ParentMissing, PynacountError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.model import CountedModel
from pynacount.protocols.counting import count
from pynacount.streams.consuming import identity_of
from pynacount.streams.fenced import STREAM_DEADLINE
from pynacount.streams.finding import Finder, new_token
from pynacount.streams.keeping import Keeping, Way, keeping, streamed_relations
from pynacount.streams.marked_seeder import MarkedSeeder
from pynacount.streams.metering import metered
from pynacount.streams.reading import Stream, stream_arn, streams_client
from pynacount.streams.records import read_change
from pynacount.streams.snapshots import Snapshot, Window, begin_anew
from pynacount.tallies.results import Seeded
from pynacount.tallies.scanning import Tracking

R = TypeVar("R", bound=CountedModel)

TRIES = 5
"""How often a parent is counted that another seeder counts too."""


def seed(
    counter: CounterField,
    *refs: R,
    anew: bool = False,
    creates: bool | None = None,
    once_by: Way | None = None,
) -> dict[R, int | None]:
    """Count the children of some parents and set the tally of each that has none; their tallies, by ref.

    Exact while people write and the consumer of the stream runs, behind or not. It writes an item into the children's
    partition, a fence, deletes it after the count, and reads the stream in between.

    One that is kept by markers is counted by a scan of its children's tables, and what is counted must stand still for
    the time: stop the consumer, not the writers. Where it went on and met one of the records, nothing is set.

    :param anew: count those too that have a tally, which may have drifted.
    :param creates: as for :class:`~pynacount.streams.StreamTally`, and to be the same; so is ``once_by``.
    :raises DeclarationError: for a counter that is not kept from a stream.
    :raises ParentMissing: for an item that does not exist and is not to be made.
    :raises CounterContention: where its own fence did not come in the stream within a minute; by markers, where the
        consumer went on.
    """
    seeder = _seeder(counter, creates, once_by)
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
    once_by: Way | None = None,
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
    yield from metered(clients, track, _migrate(counters, anew, creates, once_by, limit, track, dry_run=dry_run))


def _migrate(
    counters: Iterable[CounterField],
    anew: bool,
    creates: bool | None,
    once_by: Way | None,
    limit: int | None,
    track: Tracking,
    *,
    dry_run: bool,
) -> Generator[Seeded, None, None]:
    for counter in counters:
        seeder = _seeder(counter, creates, once_by)
        keys = itertools.islice(seeder.unseeded(anew), limit)
        while some := list(itertools.islice(keys, seeder.together)):
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


def _seeder(counter: CounterField, creates: bool | None, once_by: Way | None) -> Seeder | MarkedSeeder:
    """The seeder for the way in which a counter is kept."""
    way: Way | None = "markers" if once_by is None and counter.shards > 1 else once_by  # a watermark is on one item
    kept = keeping(counter, streamed_relations(counter), way, creates)
    return Seeder(counter, kept) if kept.way == "watermark" else MarkedSeeder(counter, kept)


class Seeder(Finder):
    """Seeds the parents of one counter that is kept by a watermark."""

    together: int | None = 50
    """Parents that are seeded between one pair of looks at the stream."""

    def __init__(self, counter: CounterField, kept: Keeping) -> None:
        super().__init__(counter, kept)
        self.meta = self.relations[0].owner.Meta
        self._arn = ""

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
