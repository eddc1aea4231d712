"""Feeding a handler from a stream, as an event source mapping of Lambda does: for development, tests, and small
deployments.

It keeps no position. Begun again it reads what the stream still has, up to 24 hours, and what was counted before is
recognised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pynacount.streams.consuming import StreamTally
from pynacount.streams.reading import Shard, Start, Stream, in_batches, stream_arn, streams_client
from pynacount.streams.reports import log

Handler: TypeAlias = Callable[[dict[str, Any]], Any]
"""A Lambda's handler, given the event alone."""

FIRST_WAIT = 0.05
MOST_WAIT = 5.0
"""Seconds between two deliveries of a record that fails: doubled each time."""
LOOK_EVERY = 5.0
"""Seconds after which the shards are looked up anew, if none has ended."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Records that failed too often, and are not delivered any more; ``error`` is None where the answer named them."""

    records: tuple[Mapping[str, Any], ...]
    error: Exception | None


@dataclass(slots=True)
class Delivered:
    """What was delivered: ``batches`` with ``records`` among them, those that were delivered again included.

    ``failures``: deliveries that were raised from, or answered with failures.
    """

    batches: int = 0
    records: int = 0
    failures: int = 0
    discarded: int = 0


def run(
    tally: StreamTally,
    *,
    handler: Handler | None = None,
    start: Start = "TRIM_HORIZON",
    batch_size: int = 100,
    max_attempts: int | None = None,
    bisect: bool = True,
    on_discarded: Callable[[GivenUp], object] | None = None,
    idle: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    poll: float = 0.2,
) -> Delivered:
    """Read the streams of all tables that a consumer's counters are counted from, and hand it their records.

    Batches of one shard come in order, one at a time, and a shard's after all of its parent's. A batch that fails comes
    again: cut in two, where it was raised from; from the first record on that failed, where the answer says which.

    :param handler: is handed the events, in place of ``tally.lambda_handler``.
    :param batch_size: most records of a batch.
    :param max_attempts: how often a record may fail before it is passed over; never, where it is left out.
    :param bisect: whether a batch is cut in two, as ``BisectBatchOnFunctionError`` has it.
    :param on_discarded: told of records that were passed over.
    :param idle: end after so many seconds without a record; where it is left out it goes on until ``stop`` is true.
    :param poll: seconds between two looks at a shard that had nothing new.
    """
    feed = _Feed(handler or tally.lambda_handler, bisect, max_attempts, on_discarded, stop)
    streams = [_stream(tally, table, start) for table in tally.tables]
    quiet_since = looked = time.monotonic()
    while not stop():
        met = False
        for stream in streams:
            for shard in stream.readable():
                met = _read(stream, shard, feed, batch_size) or met
        now = time.monotonic()
        if met:
            quiet_since = now
        elif idle is not None and now - quiet_since >= idle:
            break
        else:
            time.sleep(poll)
        if now - looked > LOOK_EVERY:
            looked = now
            for stream in streams:
                stream.look()
    return feed.delivered


def _stream(tally: StreamTally, table: str, start: Start) -> Stream:
    meta = tally.model_of(table).Meta
    stream = Stream(streams_client(meta), stream_arn(meta, table), start)
    stream.look()
    return stream


def _read(stream: Stream, shard: Shard, feed: _Feed, batch_size: int) -> bool:
    records = stream.read(shard)
    for batch in in_batches(records, batch_size):
        feed.deliver(batch)
    if shard.ended:
        stream.look()
    return bool(records) or shard.ended


@dataclass(slots=True)
class _Feed:
    """Delivers batches until they are dealt with."""

    handler: Handler
    bisect: bool
    max_attempts: int | None
    on_discarded: Callable[[GivenUp], object] | None
    stop: Callable[[], bool]
    delivered: Delivered = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.delivered = Delivered()

    def deliver(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Deliver one batch, again and in parts where it fails."""
        waiting = [batch]
        attempts = 0
        while waiting and not self.stop():
            part = waiting.pop(0)
            self.delivered.batches += 1
            self.delivered.records += len(part)
            error: Exception | None = None
            try:
                rest = part[_first_failed(self.handler({"Records": list(part)}), part) :]
            except Exception as raised:  # whatever the handler raises, as Lambda has it
                error, rest = raised, part
            if not rest:
                attempts = 0
                continue
            self.delivered.failures += 1
            attempts = attempts + 1 if len(rest) == len(part) else 1
            if error is not None and self.bisect and len(rest) > 1:
                half, attempts = len(rest) // 2, 0
                waiting[:0] = [rest[:half], rest[half:]]
                continue
            if self.max_attempts is not None and attempts >= self.max_attempts:
                attempts = 0
                self._discard(rest if error is not None else rest[:1], error)
                if error is None and rest[1:]:
                    waiting.insert(0, rest[1:])
                continue
            log.warning(
                "delivering %d records again from %s on: %s", len(rest), _number(rest[0]), error or "they failed"
            )
            waiting.insert(0, rest)
            time.sleep(min(MOST_WAIT, FIRST_WAIT * 2.0 ** min(attempts - 1, 16)))

    def _discard(self, records: Sequence[Mapping[str, Any]], error: Exception | None) -> None:
        self.delivered.discarded += len(records)
        log.error("passed over %d records from %s on: %s", len(records), _number(records[0]), error or "they failed")
        if self.on_discarded is not None:
            self.on_discarded(GivenUp(tuple(records), error))


def _first_failed(answer: Any, batch: Sequence[Mapping[str, Any]]) -> int:
    """The place of the first record that an answer says failed; behind the last where none did.

    An answer that cannot be read says that all did (AWS: "Configuring partial batch response with DynamoDB and
    Lambda").
    """
    if not answer:
        return len(batch)
    try:
        named = [one["itemIdentifier"] for one in answer.get("batchItemFailures") or ()]
    except (AttributeError, KeyError, TypeError):
        return 0
    numbers = [_number(record) for record in batch]
    return min((numbers.index(name) if name in numbers else 0 for name in named), default=len(batch))


def _number(record: Mapping[str, Any]) -> str:
    return str(record["dynamodb"]["SequenceNumber"])
