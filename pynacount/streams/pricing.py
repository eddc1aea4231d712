"""The write by which a record moves a counter, to be shown and priced; nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.amounts import Amount
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.plan import Plan
from pynacount.streams import marking, watermarks
from pynacount.streams.consuming import marking_of
from pynacount.streams.keeping import Keeping, Way, keeping, streamed_relations
from pynacount.streams.moves import Move
from pynacount.streams.records import mark_of
from pynacount.streams.spots import Spot

EXAMPLE = "2026-01-01T00:00:00.000", "100000000000000000001"
"""A stream's label and a record's number, for a mark to be shown."""


@dataclass(frozen=True, slots=True)
class StreamWrite:
    """What one record costs beside the write of its item: ``plan``, for each counter and batch.

    By a watermark, a batch's records of one counter share one such write. By markers, each changed item adds an item
    of 2 write units to the transaction.
    """

    kept: Keeping
    plan: Plan


def plan_of_record(counter: CounterField, key: ItemKey, by: Amount = 1) -> StreamWrite:
    """The write for a batch that has one record of this counter."""
    way: Way | None = "markers" if counter.shards > 1 else None  # a watermark is on one item
    kept = keeping(counter, streamed_relations(counter), way, None)
    spot = Spot(counter.tally, key, kept.creates, kept.bounds)
    move = Move(mark_of(*EXAMPLE), EXAMPLE[1], by, "0" * 40)
    if kept.way == "watermark":
        return StreamWrite(kept, watermarks.counting(spot, "counted", [move]))
    where = marking_of(counter, (counter.tally, key))
    plan = marking.counting(spot, "counted", {move.source: [move]}, where, shards=counter.shards)
    return StreamWrite(kept, plan)
