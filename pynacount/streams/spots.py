"""One counter of one item, as a consumer of a stream moves it, and what became of a batch's records of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pynacount.amounts import Amount, subtotal
from pynacount.bounds import NO_BOUNDS, Bounds
from pynacount.contributions import Tally
from pynacount.errors import CounterTypeError, DeclarationError, PynacountError
from pynacount.expressions import Absent, Action, Add, Exists, Guard
from pynacount.keys import ItemKey
from pynacount.protocols.seeding import wrong_type
from pynacount.protocols.spreading import not_spread
from pynacount.steps import Item, Refusal
from pynacount.streams.moves import Move

State: TypeAlias = Literal["counted", "summed"]
"""``counted``: the records go into the tally; ``summed``: there is none yet, and they are summed up beside it."""
Status: TypeAlias = Literal["counted", "repeated", "unseeded", "missing", "unchanged"]
"""What became of a counter's records:

``counted``; ``repeated``: all of them were counted before; ``unseeded``: summed up for the seeder, as the counter has
no tally yet; ``missing``: the item that they count in does not exist, so that there is nothing to keep; ``unchanged``:
they cancel each other out.
"""


@dataclass(frozen=True, slots=True)
class Spot:
    """A counter of one item.

    ``creates``: whether an item that is not there is made. ``bounds``: a number past one is applied all the same, and
    told as drift.
    """

    tally: Tally
    key: ItemKey
    creates: bool
    bounds: Bounds = NO_BOUNDS

    def guards(self, state: State) -> tuple[Guard, ...]:
        """What a write asks of the item, so that it finds it as it takes it to be: with no shards beside it."""
        tally = self.tally
        there: tuple[Guard, ...] = () if self.creates else (Exists(tally.hash_name),)
        if state == "counted":
            if tally.missing != "zero":
                return (Exists(tally.attr_name),)
            return (*there, Absent(tally.moved_name), not_spread(tally))
        if tally.missing != "zero":
            return (*there, Absent(tally.attr_name), not_spread(tally))
        return (Absent(tally.attr_name), Exists(tally.moved_name))

    def add(self, state: State, number: Amount) -> tuple[Action, ...]:
        """The write of the number itself."""
        name = self.tally.attr_name if state == "counted" else self.tally.moved_name
        return (Add(name, number),) if number or state == "summed" else ()

    def state(self, item: Item | None) -> State:
        """How the counter stands on the item that a refusal returned."""
        found = item or {}
        if self.tally.attr_name in found:
            if "N" not in found[self.tally.attr_name]:
                raise CounterTypeError(wrong_type(self.tally, self.key, found[self.tally.attr_name]))
            return "counted"
        return "counted" if self.tally.missing == "zero" and self.tally.moved_name not in found else "summed"

    def refuse_shards(self, item: Item | None) -> None:
        """Raise :class:`DeclarationError` where the number is in shards, and a watermark keeps it."""
        if self.tally.shards_name in (item or {}):
            raise DeclarationError(
                f"{self.tally.label} of the item {self.key} is in shards, and is kept by a watermark, which is on one "
                f'item. Keep it by markers: StreamTally(..., once_by="markers"); or bring it back onto its item by '
                f"pynacount reshard {self.tally.target} --to 1"
            )

    def is_past(self, number: Amount, by: Amount) -> bool:
        """Whether a number is past the bound towards which it was moved."""
        limit = self.bounds.minimum if by < 0 else self.bounds.maximum
        return limit is not None and (number < limit if by < 0 else number > limit)

    def failed(self, refusal: Refusal, message: str = "") -> PynacountError:
        """The error for a request that DynamoDB refused as a whole."""
        return PynacountError(f"{self.tally.label}: DynamoDB refused to write {self.key}: {message or refusal.message}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one counter's records.

    ``amount`` is what they came to; ``number`` what the counter is then, where the answer says so.
    """

    status: Status
    amount: Amount = 0
    number: Amount | None = None
    repeated: int = 0


def total_of(moves: Sequence[Move]) -> Amount:
    """What some records come to."""
    total: Amount = 0
    for move in moves:
        total = subtotal(total, move.amount)
    return total
