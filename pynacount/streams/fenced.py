"""Reading a table's stream up to now, where its records come in many shards.

Nothing says of a shard that it was read to its end: one that shows no record may have some still to come. So *fences*
are written into the table, items with random partition keys, until each shard that is open has shown one. What was
written before it, in a shard's partition, came before it (AWS: "Change data capture for DynamoDB Streams": a shard's
records are in the order in which they were published to it).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pynacount.commit import Driver
from pynacount.errors import CounterContention, DeclarationError
from pynacount.keys import ItemKey
from pynacount.schema import KeySchema
from pynacount.steps import Protocol, Send
from pynacount.streams.moves import FENCE, FENCE_PREFIX
from pynacount.streams.reading import Stream
from pynacount.streams.records import Change, read_change

STREAM_DEADLINE = 60.0
"""Seconds without a record in which the seeder's own fences are waited for."""
RAISE_EVERY = 1.0
"""Seconds after which more fences are written, for shards that have shown none."""
MOST_FENCES = 10_000
PAUSE = 0.05
"""Seconds between two looks at a stream that shows nothing new."""


@dataclass(slots=True)
class FencedStream:
    """The stream of one table, with the fences that were written into it. ``label`` is how messages speak of it."""

    label: str
    schema: KeySchema
    stream: Stream
    driver: Driver
    token: str
    written: list[ItemKey] = field(default_factory=list)

    def check(self) -> None:
        """Raise :class:`DeclarationError` where no fence can be written into the table."""
        kinds = [part.attribute.attr_type for part in (self.schema.hash, self.schema.range) if part is not None]
        if kinds[0] != "S" or kinds[-1] not in ("S", "N"):
            raise DeclarationError(
                f"{self.label}: no fence can be written into table {self.schema.table}, as its partition key is not "
                f"text, or its sort key is binary; it can be seeded only while nobody writes"
            )

    def up_to_now(self) -> Iterator[Change]:
        """The records from where it was read to, up to those of all writes that were answered before this call.

        Raises :class:`CounterContention` where a shard did not show a fence in time.
        """
        crossed: set[str] = set()
        fresh: set[str] = set()
        again, until = 0.0, time.monotonic() + STREAM_DEADLINE
        while True:
            self.stream.look()
            lacking = [s.shard_id for s in self.stream.shards.values() if not s.ended and s.shard_id not in crossed]
            if not lacking:
                return
            if time.monotonic() >= again:
                again = time.monotonic() + RAISE_EVERY
                fresh.update(self._raise() for _ in range(len(lacking) + 1))
            met = False
            for shard in self.stream.readable():
                for record in self.stream.read(shard):
                    change = read_change(record)
                    met = True
                    if change.keys[self.schema.names[0]].get("S") in fresh:
                        crossed.add(shard.shard_id)
                    yield change
            if met:
                until = time.monotonic() + STREAM_DEADLINE
            elif time.monotonic() > until or len(self.written) > MOST_FENCES:
                raise CounterContention(
                    f"{self.label}: {len(lacking)} shards of the stream of table {self.schema.table} showed no fence "
                    f"in time; nothing was set. Run it again"
                )
            else:
                time.sleep(PAUSE)

    def clear(self) -> None:
        """Delete the fences."""
        while self.written:
            key = self.written[-1]
            self.driver.run(_send("DeleteItem", {"TableName": key.table, "Key": key.wire()}))
            self.written.pop()

    def _raise(self) -> str:
        text = f"{FENCE_PREFIX}{self.token}-{len(self.written)}"
        values: list[tuple[str, Any]] = [("S", text)]
        if self.schema.range is not None:
            values.append(("S", text) if self.schema.range.attribute.attr_type == "S" else ("N", "0"))
        key = ItemKey(self.schema.table, self.schema.names, tuple(values))
        about = json.dumps({"counter": "", "table": "", "names": [], "values": [], "token": self.token})
        self.written.append(key)
        self.driver.run(_send("PutItem", {"TableName": key.table, "Item": {**key.wire(), FENCE: {"S": about}}}))
        return text


def _send(operation: str, request: dict[str, Any]) -> Protocol[None]:
    yield Send(operation, request)
