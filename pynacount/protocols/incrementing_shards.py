"""Moving a plain counter that is in shards: one write of one of them, whichever.

The shards are made, all together, by the first writer that finds none. A number that was counted on the item itself,
before it had shards or by code that knows of none, stays there, and counts beside them.
"""

from __future__ import annotations

import random
import zlib

from pynacount.contributions import Tally
from pynacount.errors import OutcomeUnknown, PynacountError
from pynacount.expressions import Add, Exists, Increase, Set
from pynacount.items import read_item
from pynacount.plan import Claim, Plan, Update, build
from pynacount.protocols.incrementing import Increment, PlainItem
from pynacount.protocols.marking import Marker
from pynacount.protocols.spreading import births, not_spread, refuse_invalid
from pynacount.shards import layout_of, remember_shards, shard_key, taken_shards
from pynacount.steps import Protocol, Refusal

MOST_MISSES = 10
"""Times that a shard is looked for where the item says it is: they may come and go while their number is changed."""


def plan_in_shard(move: Increment, tally: Tally, marker: Marker | None, shards: int) -> Plan:
    """The write of one shard; with a marker, always the same one for its token."""
    place = random.randrange(shards) if marker is None else zlib.crc32(marker.token.encode()) % shards
    kind = Add if move.style == "add" else Increase
    own = shard_key(move.item.key, tally.attr_name, place)
    write = Update(own, (kind(tally.attr_name, move.moves[tally]),), (Claim((Exists(tally.attr_name),), move),))
    writes = (write,) if marker is None else (marker.put(move), write)
    return build(writes, reads=(0,))  # the sum, read afterwards


def increment_in_shard(move: Increment, tally: Tally, marker: Marker | None) -> Protocol[bool]:
    """Move one shard; whether it was moved now, and not under this token before."""
    about, key = move.item.about, move.item.key
    taken = taken_shards(tally, key)
    shards = taken if taken > 1 else tally.shards  # where it was met without shards, they are made
    for _ in range(MOST_MISSES):
        answer = yield plan_in_shard(move, tally, marker, shards).send()
        if not isinstance(answer, Refusal):
            return True
        if answer.in_doubt:
            raise OutcomeUnknown(
                f"{about}: the answer to a write of a shard of {key} was lost, and the write was refused when it was "
                f"sent again; it may have been counted once, or not. Read the number before you call again, or give "
                f"once=... to be told"
            )
        marked = answer.reasons[0] if marker is not None and answer.reasons else None
        if marker is not None and marked is not None and marked.by_guard:
            marker.check(move, marked.item)
            return False
        refuse_invalid(tally, key, answer, "be moved")
        shards = yield from _make_shards(move.item, tally)
    raise PynacountError(
        f"{about}: the item {key} is said to be in {shards} shards, and one of them is not there: somebody deleted it. "
        f"Remove {tally.shards_name} from the item, and the shards are made anew, from 0"
    )


def _make_shards(item: PlainItem, tally: Tally) -> Protocol[int]:
    """See to it that there are shards; how many."""
    while True:
        found = yield from read_item(item.key)
        if found is None and item.missing is not None:
            raise item.missing
        layout = layout_of(tally, found or {})
        if layout is not None and layout.shards > 1:
            remember_shards(tally, item.key, layout.shards)
            return layout.shards
        guards = (*item.guards(), not_spread(tally))
        made = Update(item.key, (Set(tally.shards_name, {"N": str(tally.shards)}),), (Claim(guards, tally),))
        answer = yield Plan((made, *births(tally, item.key, 0, tally.shards))).send()
        if not isinstance(answer, Refusal):
            remember_shards(tally, item.key, tally.shards)
            return tally.shards
        refuse_invalid(tally, item.key, answer, "be brought into shards")
