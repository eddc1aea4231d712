"""Counting each record once by markers, where a counter's records come from several source partitions.

Nothing orders the records of two partitions, so no one number says which of them are counted. But the records of one
*item* come in their order, whatever shard they are in (AWS: "Change data capture for DynamoDB Streams"). So each pair
of a counter and a changed item has a marker, an item of its own that says up to which record that item is counted. The
markers of a batch and the counter are written in one transaction, each marker under the condition that it is before
that item's first record in the batch.

Where the number is in shards, the transaction moves one of them, as a like does: any that is there will do, for it is
their sum that is the number. Which one follows from the batch, so that the consumers of several partitions seldom meet.

A marker has to live for as long as a record can come again: the stream keeps records for 24 hours.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pynacount.amounts import Amount, plus, stored_amount, subtotal
from pynacount.expressions import Absent, Behind, Exists, Guard, Remove, Set
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import MAX_TRANSACTION_ITEMS, Check, Claim, Plan, Update, Write, build
from pynacount.protocols.batches import read_items
from pynacount.protocols.incrementing_shards import MOST_MISSES
from pynacount.protocols.spreading import births, not_spread, refuse_invalid
from pynacount.shards import layout_of, remember_shards, shard_key, taken_shards
from pynacount.steps import Item, Protocol, Reason, Refusal
from pynacount.streams.moves import Fence, Move, Step
from pynacount.streams.spots import Outcome, Spot, State, total_of

MARKER_HOURS = 48
"""How long a marker lives: the 24 hours of the stream (AWS: "Data retention limit for DynamoDB Streams"), and as many
again for clocks that differ and for a batch that was read at the last moment."""

UPTO = "upto"
"""The marker's attribute that says up to which record its item is counted."""

ITEMS_A_TRANSACTION = MAX_TRANSACTION_ITEMS - 1
"""Markers that are written together; the last place is the counter's."""


@dataclass(frozen=True, slots=True)
class Marking:
    """Where the marker of a changed item is, by its ``source``; until when it lives, in epoch seconds."""

    key: Callable[[str], ItemKey]
    expires_name: str
    expires: int


Sources: TypeAlias = dict[str, list[Move]]
"""The records by the item that they changed."""


def count_by_markers(
    spot: Spot, steps: Sequence[Step], marking: Marking, *, skip_cancelled: bool = False
) -> Protocol[Outcome]:
    """Count a batch's records of one counter, each once."""
    moves = [step for step in steps if not isinstance(step, Fence)]
    outcome = Outcome("unchanged")
    for some in _parts(moves):
        part = yield from _count(spot, some, marking, skip_cancelled)
        outcome = Outcome(
            part.status if outcome.status in ("unchanged", "repeated") else outcome.status,
            subtotal(outcome.amount, part.amount),
            outcome.number if part.number is None else part.number,
            outcome.repeated + part.repeated,
        )
    return outcome


def _parts(moves: Sequence[Move]) -> Iterator[Sources]:
    """The records by the item that they changed, as many items as one transaction takes."""
    by_source: Sources = {}
    for move in moves:
        by_source.setdefault(move.source, []).append(move)
    sources = list(by_source)
    for start in range(0, len(sources), ITEMS_A_TRANSACTION):
        yield {source: by_source[source] for source in sources[start : start + ITEMS_A_TRANSACTION]}


def _count(spot: Spot, some: Sources, marking: Marking, skip_cancelled: bool) -> Protocol[Outcome]:
    state: State = "counted"
    shards = taken_shards(spot.tally, spot.key)
    repeated = misses = 0
    past: Amount | None = None
    while True:
        number = total_of(_moves(some))
        if skip_cancelled and not number:
            new = yield from _unmarked(some, marking)
            gone = len(_moves(some)) - len(_moves(new))
            repeated += gone
            if not new or not gone:
                return Outcome("unchanged" if new else "repeated", repeated=repeated)
            some = new  # some were counted already, in a batch that was cut otherwise
            continue
        answer = yield counting(spot, state, some, marking, shards=shards, bounded=past is None).send()
        if not isinstance(answer, Refusal):
            return Outcome("counted" if state == "counted" else "unseeded", number, past, repeated)
        *marked, counter = reasons_of(spot, answer, len(some) + 1)
        before = len(_moves(some))
        met = {source: reason.item for source, reason in zip(some, marked, strict=True) if reason is not None}
        some = _behind(some, met)
        repeated += before - len(_moves(some))
        if not some:
            return Outcome("repeated", repeated=repeated)
        past = None
        if counter is None:
            continue
        in_shards = shards > 1
        item = (yield from read_item(spot.key)) if in_shards else counter.item
        if item is None and not spot.creates and (in_shards or spot.tally.missing == "zero" or state == "summed"):
            return Outcome("missing", number)
        was, state = state, spot.state(item)
        layout = layout_of(spot.tally, item or {})
        if layout is not None and layout.shards > 1:
            state, shards = "counted", layout.shards
        elif layout is None and state == "counted" and spot.tally.shards > 1:
            shards = yield from _make_shards(spot)
        else:
            shards = 1
        remember_shards(spot.tally, spot.key, shards)
        if state == was == "counted" and shards == 1 and not in_shards:  # it is a bound, and past it the number goes
            past = plus(_stored(spot, item), total_of(_moves(some)))
        misses += in_shards
        if misses > MOST_MISSES:
            raise spot.failed(answer, f"it is said to be in {shards} shards, and one of them is not there; repair it")


def _make_shards(spot: Spot) -> Protocol[int]:
    """The shards of a number that begins at 0; in how many it is taken to be then."""
    tally = spot.tally
    there: tuple[Guard, ...] = () if spot.creates else (Exists(tally.hash_name),)
    guards = (*there, Absent(tally.attr_name), Absent(tally.moved_name), not_spread(tally))
    made = Update(spot.key, (Set(tally.shards_name, {"N": str(tally.shards)}),), (Claim(guards, spot),))
    answer = yield Plan((made, *births(tally, spot.key, 0, tally.shards))).send()
    if isinstance(answer, Refusal):
        refuse_invalid(tally, spot.key, answer, "be brought into shards")  # else others made them
    return tally.shards


def _behind(some: Sources, markers: Mapping[str, Item | None]) -> Sources:
    """The records that are behind the markers of their items, those of items without one included."""
    found: Sources = {}
    for source, moves in some.items():
        upto = (markers.get(source) or {}).get(UPTO, {}).get("S", "")
        if new := [move for move in moves if move.mark > upto]:
            found[source] = new
    return found


def _unmarked(some: Sources, marking: Marking) -> Protocol[Sources]:
    """The records that are not counted yet, as their markers tell."""
    keys = {source: marking.key(source) for source in some}
    names = {key.table: (UPTO,) for key in keys.values()}
    items = yield from read_items(list(keys.values()), names, consistent_read=True)
    return _behind(some, {source: items.get(key) for source, key in keys.items()})


def reasons_of(spot: Spot, refusal: Refusal, writes: int) -> tuple[Reason | None, ...]:
    """One for each write. Raises where it was refused for another reason than a condition."""
    strange = [r.message or r.code for r in refusal.reasons if r is not None and not r.by_guard]
    if len(refusal.reasons) != writes or strange:
        raise spot.failed(refusal, "; ".join(strange))
    return refusal.reasons


def _moves(some: Sources) -> list[Move]:
    return [move for of_one in some.values() for move in of_one]


def _stored(spot: Spot, item: Item | None) -> Amount:
    return stored_amount((item or {}).get(spot.tally.attr_name, {}).get("N", "0"))


def counting(
    spot: Spot, state: State, some: Sources, marking: Marking, *, shards: int = 1, bounded: bool = True
) -> Plan:
    """The transaction: a marker for each changed item, and the counter, or one of so many ``shards``.

    ``bounded``: whether it is refused where the number would go past a bound, so that it can be told. No write knows
    the sum of all shards, so there none is.
    """
    number = total_of(_moves(some))
    writes: list[Write] = []
    for source, of_one in some.items():
        actions = (Set(UPTO, {"S": of_one[-1].mark}), Set(marking.expires_name, {"N": str(marking.expires)}))
        writes.append(Update(marking.key(source), actions, (Claim((Behind(UPTO, of_one[0].mark),), spot),)))
    key, adds = spot.key, spot.add(state, number)
    if state == "summed":
        adds = (*adds, Remove(spot.tally.fence_name))  # a seeder's: it has to know that something was counted
    guards: tuple[Guard, ...] = spot.guards(state)
    if shards > 1:
        key = shard_key(key, spot.tally.attr_name, place_of(some, shards))
        guards = (Exists(spot.tally.attr_name),)
    elif bounded and state == "counted":
        from_zero = spot.tally.missing == "zero"
        guards = (*guards, *spot.bounds.guards(spot.tally.attr_name, number, from_zero=from_zero))
    claims = (Claim(guards, spot),)
    writes.append(Update(key, adds, claims) if adds else Check(key, claims))
    return build(writes, needs_token=True)


def place_of(some: Sources, shards: int) -> int:
    """The shard that a batch moves: the same one whenever the batch comes again."""
    return zlib.crc32(next(iter(some)).encode()) % shards
