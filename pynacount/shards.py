"""A tally in shards: one number kept on several items, so that writers seldom meet.

The shards are siblings of their parent, ``<SK>#<attr>#0`` and on, each with a part of the number in the tally's own
attribute. What is exact is their sum; a part alone says nothing. How many there are is kept on the parent, as
``<tally>Shards``, and *that* attribute is present if and only if the sum is exact. So the shards come, go and change
their number together with the parent's, in one transaction, and a counted write touches its shard alone.

While the number of shards is being lowered, ``<tally>Retiring`` says how many there were: those from the new number on
may still hold a part.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from pynacount.amounts import Amount, plus, stored_amount
from pynacount.contributions import Tally
from pynacount.errors import CounterTypeError, KeyTemplateError
from pynacount.expressions import Guard, Same
from pynacount.keys import MAX_RANGE_BYTES, ItemKey
from pynacount.steps import Item

MOST_HINTS = 10_000
"""Parents whose number of shards is remembered, for each counter, where it is not the declared one."""
HINT_SECONDS = 60.0
"""For how long it is: a writer whose shard is there is never told that there are more by now."""
MAX_SHARDS = 99
"""Most shards of one tally: with the parent they are the 100 items of a transaction, in which they are born."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tally is: in so many shards, or (1) on the parent itself; shards below ``upto`` may be there."""

    shards: int
    upto: int

    def guards(self, tally: Tally) -> tuple[Guard, ...]:
        """What a write asks that is right for this layout alone, where the tally is in shards."""
        retiring = {"N": str(self.upto)} if self.upto > self.shards else None
        return (Same(tally.shards_name, {"N": str(self.shards)}), Same(tally.retiring_name, retiring))


ON_THE_PARENT = Layout(1, 1)


def layout_of(tally: Tally, item: Mapping[str, Mapping[str, object]]) -> Layout | None:
    """The layout that a parent's item tells; None where its tally is absent."""
    shards = item.get(tally.shards_name)
    if shards is None:
        return ON_THE_PARENT if tally.attr_name in item else None
    number = _whole(shards)
    upto = _whole(item[tally.retiring_name]) if tally.retiring_name in item else number
    if not 2 <= number <= MAX_SHARDS or not number <= upto <= MAX_SHARDS:
        raise CounterTypeError(
            f"{tally.label}: a parent stores {tally.shards_name} as {shards!r}, which is no number of shards from 2 to "
            f"{MAX_SHARDS}; only this library may write it. Remove it, with the shards, and the tally is seeded anew"
        )
    return Layout(number, upto)


def mark_names(tally: Tally) -> tuple[str, ...]:
    """The attributes of a parent that say how its tally stands: the number, and the marks beside it."""
    layout = (tally.shards_name, tally.retiring_name, tally.had_shards_name)
    return (tally.attr_name, tally.pending_name, tally.closed_name, tally.was_name, *layout)


def wanted_shards(tally: Tally, item: Mapping[str, Mapping[str, object]]) -> int:
    """In how many shards a parent without a tally is seeded: as many as it had before its repair, or as declared."""
    kept = item.get(tally.had_shards_name)
    return tally.shards if kept is None else max(1, min(_whole(kept), MAX_SHARDS))


def _whole(value: Mapping[str, object]) -> int:
    try:
        return int(str(value.get("N")))
    except ValueError:
        return 0


def taken_shards(tally: Tally, parent: ItemKey) -> int:
    """In how many shards a parent's tally is taken to be: as it was met within the last minute, or as declared."""
    if not tally.layouts or (hint := tally.layouts.get(parent)) is None:
        return tally.shards
    shards, met = hint
    if time.monotonic() - met < HINT_SECONDS:
        return shards
    tally.layouts.pop(parent, None)
    return tally.shards


def remember_shards(tally: Tally, parent: ItemKey, shards: int) -> None:
    """A parent was met with its tally in so many shards, by a writer or by a reader."""
    if shards == tally.shards:
        tally.layouts.pop(parent, None)
        return
    if len(tally.layouts) >= MOST_HINTS:
        tally.layouts.clear()
    if MOST_HINTS:
        tally.layouts[parent] = shards, time.monotonic()


def shard_of(child: ItemKey, shards: int) -> int:
    """The shard that a child counts in: always the same for one key, on every machine."""
    text = "\0".join(f"{kind}{value}" for kind, value in child.values)
    return zlib.crc32(text.encode()) % shards


def shard_key(parent: ItemKey, attr_name: str, number: int) -> ItemKey:
    """The key of one shard: the parent's, with the tally and a number behind its sort key."""
    partition, (kind, sort) = parent.values
    own = f"{sort}#{attr_name}#{number}"
    if len(own) > MAX_RANGE_BYTES // 4 and len(own.encode()) > MAX_RANGE_BYTES:
        raise KeyTemplateError(
            f"the shards of the parent {parent} would have sort keys of {len(own.encode())} bytes; DynamoDB takes "
            f"{MAX_RANGE_BYTES}. Give it a shorter id"
        )
    return ItemKey(parent.table, parent.names, (partition, (kind, own)))


def number_of(tally: Tally, parent: ItemKey, item: Item) -> int | None:
    """Which shard of the parent an item is; None where it is none."""
    sort = item[parent.names[1]].get("S", "")
    head = f"{parent.values[1][1]}#{tally.attr_name}#"
    rest = sort[len(head) :] if sort.startswith(head) else ""
    return int(rest) if rest.isascii() and rest.isdigit() and len(rest) <= 2 else None


def part_of(tally: Tally, shard: Item) -> Amount:
    """The part of the number that a shard holds, also where it is being retired."""
    value = shard.get(tally.attr_name) or shard.get(tally.was_name)
    if value is None:
        return 0
    if "N" not in value:
        raise CounterTypeError(
            f"{tally.label}: one of its shards stores {tally.attr_name} as {value!r}, which is no number; only this "
            f"library may write it. Repair the parent"
        )
    return stored_amount(value["N"])


@dataclass(frozen=True, slots=True)
class ParentInShards:
    """A parent and its shards, read at one moment. ``shards`` holds those that are there, by their number."""

    layout: Layout | None
    item: Item
    shards: Mapping[int, Item]

    def whole(self, tally: Tally) -> bool:
        """Whether all that may hold a part are there, and none is frozen: what was read one by one is no mixture then.

        While their number is being lowered, that is those from the new number on too.
        """
        if self.layout is None or self.layout.shards == 1:
            return not self.shards
        return (
            tally.was_name not in self.item
            and all(
                number in self.shards and tally.attr_name in self.shards[number] for number in range(self.layout.upto)
            )
            and all(tally.was_name not in shard for shard in self.shards.values())
        )

    def total(self, tally: Tally) -> Amount:
        """The sum of the parts."""
        total: Amount = 0
        for shard in self.shards.values():
            total = plus(total, part_of(tally, shard))
        return total


def shares(total: Amount, shards: int) -> list[Amount]:
    """The number in as many parts, as equal as can be."""
    if not isinstance(total, int):
        return [total, *([0] * (shards - 1))]
    each, rest = divmod(total, shards)
    return [each + (number < rest) for number in range(shards)]
