"""Counting each record once by a watermark, where all records of a counter come from one source partition.

Records of one source partition come in the order of their sequence numbers. So one number in the counter's own item,
``<tally>Upto``, says of every record whether it is in the tally: those up to it are, those behind it are not. Tally and
watermark are written in one UpdateItem, under the condition that the watermark is before the batch's first record.
Whatever a consumer forgets in a crash, the item knows; what it tells when it refuses says which records are new.

A batch that sums up to nothing is written too: its watermark alone. Without that, a second consumer whose batch ends
between the two could count the first record, and the watermark be past the second before it comes to it.
``skip_cancelled`` reads the watermark instead: it is written where it stands between the batch's first record and its
last. That is as good while one consumer at a time reads a shard, however its batches are cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from pynacount.amounts import stored_amount
from pynacount.expressions import Absent, Action, Behind, Exists, Guard, Set
from pynacount.items import read_item
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.spreading import not_spread
from pynacount.steps import Item, Protocol, Refusal
from pynacount.streams.moves import Fence, Move, Step
from pynacount.streams.spots import Outcome, Spot, State, total_of


def count_by_watermark(spot: Spot, steps: Sequence[Step], *, skip_cancelled: bool = False) -> Protocol[Outcome]:
    """Count a batch's records of one counter, in their order, each once; obey the fences among them."""
    outcome = Outcome("unchanged")
    moves: list[Move] = []
    for step in steps:
        if isinstance(step, Move):
            moves.append(step)
            continue
        if moves:
            yield from _count(spot, moves, skip_cancelled)
            moves = []
        outcome = yield from _begin(spot, step)
    return (yield from _count(spot, moves, skip_cancelled)) if moves else outcome


def _count(spot: Spot, moves: Sequence[Move], skip_cancelled: bool) -> Protocol[Outcome]:
    state: State = "counted"
    repeated = 0
    while True:
        number = total_of(moves)
        if skip_cancelled and not number:
            new = behind(spot, moves, (yield from read_item(spot.key)))
            repeated += len(moves) - len(new)
            if not new or len(new) == len(moves):
                return Outcome("unchanged" if new else "repeated", repeated=repeated)
            moves = new  # the first of them were counted already, in a batch that was cut otherwise
            continue
        answer = yield counting(spot, state, moves).send()
        if not isinstance(answer, Refusal):
            stored = answer.get("Attributes", {}).get(spot.tally.attr_name, {}).get("N")
            status = "counted" if state == "counted" else "unseeded"
            now = None if stored is None else stored_amount(stored)
            return Outcome(status, number, now, repeated)  # type: ignore[arg-type]
        item = refused_item(spot, answer)
        spot.refuse_shards(item)
        if item is None and not spot.creates and (spot.tally.missing == "zero" or state == "summed"):
            return Outcome("missing", number)
        new = behind(spot, moves, item)
        repeated += len(moves) - len(new)
        if not new:
            return Outcome("repeated", repeated=repeated)
        moves = new
        state = spot.state(item)


def counting(spot: Spot, state: State, moves: Sequence[Move]) -> Plan:
    """The one write: the number and the watermark."""
    guards: tuple[Guard, ...] = (*spot.guards(state), Behind(spot.tally.upto_name, moves[0].mark))
    actions: tuple[Action, ...] = (
        *spot.add(state, total_of(moves)),
        Set(spot.tally.upto_name, {"S": moves[-1].mark}),
    )
    return Plan((Update(spot.key, actions, (Claim(guards, spot),)),), returns="UPDATED_NEW")


def behind(spot: Spot, moves: Sequence[Move], item: Item | None) -> list[Move]:
    """The records that are behind the watermark, and so not counted yet."""
    upto = (item or {}).get(spot.tally.upto_name, {}).get("S", "")
    return [move for move in moves if move.mark > upto]


def refused_item(spot: Spot, refusal: Refusal) -> Item | None:
    """The item that a refusal of a single write returned. Raises where it was refused for another reason."""
    reason = refusal.reasons[0] if refusal.reasons else None
    if reason is None or not reason.by_guard:
        raise spot.failed(refusal)
    return reason.item


def _begin(spot: Spot, fence: Fence) -> Protocol[Outcome]:
    """From a seeder's fence on, sum up the records apart, if the counter has no tally yet."""
    there: tuple[Guard, ...] = () if spot.creates else (Exists(spot.tally.hash_name),)
    own = (Absent(spot.tally.attr_name), not_spread(spot.tally))
    guards = (*there, *own, Behind(spot.tally.upto_name, fence.mark))
    actions = (
        Set(spot.tally.moved_name, {"N": "0"}),
        Set(spot.tally.upto_name, {"S": fence.mark}),
        Set(spot.tally.fence_name, {"S": fence.token}),
    )
    answer = yield Plan((Update(spot.key, actions, (Claim(guards, spot),)),)).send()
    if isinstance(answer, Refusal):
        refused_item(spot, answer)  # seeded already, or read before, or the item is gone
    return Outcome("unchanged")
