"""Counting once for good: a marker item, written in the transaction that counts.

The marker's key is made from the caller's token. It stores what was counted, so that the token is known when it comes
again: from the same call, whose answer was lost, or from another one, a day later. It lives until the time in its TTL
attribute. DynamoDB deletes an expired item only some time after that (AWS: "Using time to live (TTL) in DynamoDB",
within a few days), so a marker whose time is up is written over, as if it were gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.errors import TokenReused
from pynacount.expressions import Lapsed, same_value
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Put, build
from pynacount.protocols.incrementing import Increment, refused
from pynacount.steps import Item, Protocol, Refusal

COUNTER = "counter"
"""The marker's attribute that says which item was counted in."""
AMOUNTS = "amounts"
"""The marker's attribute that says by how much each counter was moved."""


@dataclass(frozen=True, slots=True)
class Marker:
    """Where one token's marker is; ``now`` and ``expires`` in epoch seconds, by this machine's clock."""

    token: str
    key: ItemKey
    expires_name: str
    now: int
    expires: int

    def item(self, move: Increment) -> Item:
        """The marker, as it is stored."""
        amounts = {tally.attr_name: {"N": str(by)} for tally, by in move.moves.items()}
        return {
            **self.key.wire(),
            COUNTER: {"S": str(move.item.key)},
            AMOUNTS: {"M": amounts},
            self.expires_name: {"N": str(self.expires)},
        }

    def put(self, move: Increment) -> Put:
        """The write of the marker: refused while there is one that lives."""
        free = Lapsed(self.key.names[0], self.expires_name, self.now)
        return Put(self.key, self.item(move), (Claim((free,), self),))

    def check(self, move: Increment, found: Item | None) -> None:
        """Raise :class:`TokenReused` where the marker that was met is not of the same move."""
        ours = self.item(move)
        found = found or {}
        if all(same_value(found.get(name), ours[name]) for name in (COUNTER, AMOUNTS)):
            return
        raise TokenReused(
            f"{move.item.about}: once={self.token!r} was used before, {_told(found)}, and comes now "
            f"{_told(ours)}; nothing was written. One token is for one move: give this one another"
        )


def plan_once(move: Increment, marker: Marker) -> Plan:
    """The marker and the counter in one transaction; ``reads``: the number, afterwards."""
    return build((marker.put(move), move.write()), reads=(0,))


def increment_once(move: Increment, marker: Marker) -> Protocol[bool]:
    """Count the move, unless it was counted under this token before; whether it was counted now."""
    answer = yield plan_once(move, marker).send()
    if not isinstance(answer, Refusal):
        return True
    marked, counted = answer.reasons if len(answer.reasons) == 2 else (None, None)
    if marked is not None and marked.by_guard:
        marker.check(move, marked.item)  # also where a bound refuses as well: it was counted while there was room
        return False
    raise (yield from refused(move, counted, marked.message if marked is not None else answer.message))


def _told(item: Item) -> str:
    """What a marker says, in words."""
    counter = item.get(COUNTER, {}).get("S", "an item that is no marker")
    moved = {name: value.get("N") for name, value in item.get(AMOUNTS, {}).get("M", {}).items()}
    return f"for {counter} by {', '.join(f'{name} {by}' for name, by in moved.items()) or 'nothing'}"
