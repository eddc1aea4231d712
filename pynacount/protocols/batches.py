"""Reading many items in as few requests as possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pynacount.expressions import Names
from pynacount.keys import ItemKey
from pynacount.steps import Item, Protocol, Refusal, Send, Wait

BATCH_GET_LIMIT = 100
"""Most keys of one ``BatchGetItem`` (AWS: its API reference)."""
FIRST_PAUSE = 0.05
"""Seconds before the keys that a throttled table left unprocessed are asked for again; doubled each time."""
LONGEST_PAUSE = 1.0
"""Seconds: the most that is waited before they are asked for again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What was read: the items that are there, and for every key the number of the request that answered for it."""

    items: dict[ItemKey, Item] = field(default_factory=dict)
    by: dict[ItemKey, int] = field(default_factory=dict)

    def at_once(self, keys: Iterable[ItemKey]) -> bool:
        """Whether these keys were answered for by one request."""
        return len({self.by[key] for key in keys}) < 2


def read_items(
    keys: Iterable[ItemKey], names: Mapping[str, Sequence[str]], *, consistent_read: bool
) -> Protocol[dict[ItemKey, Item]]:
    """The items with these keys; see :func:`read_groups`."""
    return (yield from read_groups(((key,) for key in keys), names, consistent_read=consistent_read)).items


def read_groups(
    groups: Iterable[Sequence[ItemKey]], names: Mapping[str, Sequence[str]], *, consistent_read: bool
) -> Protocol[Batch]:
    """The items with these keys, of one table or of several; those of a group by one request where that can be.

    ``names``: for a table, the attributes that are wanted beside the key; the whole item where it is not named. Keys
    that were left unprocessed are asked for again together with those that follow; the waits in between count against
    the deadline.
    """
    waiting = list(packed(groups))
    found = Batch()
    pause = FIRST_PAUSE
    asks = 0
    while waiting:
        asked, asks = waiting.pop(0), asks + 1
        request = request_of(asked, names, consistent_read=consistent_read)
        answer = yield Send("BatchGetItem", request)
        assert not isinstance(answer, Refusal)
        of = {_identity(key.table, key.wire()): key for key in asked}
        schemas = {key.table: key.names for key in asked}
        for table, items in answer.get("Responses", {}).items():
            for item in items:
                found.items[of[_identity(table, {name: item[name] for name in schemas[table]})]] = item
        unprocessed = [
            of[_identity(table, wire)]
            for table, block in answer.get("UnprocessedKeys", {}).items()
            for wire in block["Keys"]
        ]
        found.by.update(dict.fromkeys(asked, asks))
        if unprocessed:
            last = waiting.pop() if waiting else []
            waiting += packed([last, *((key,) for key in unprocessed)])
            yield Wait(pause, spends=True)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = FIRST_PAUSE
    return found


def packed(groups: Iterable[Sequence[ItemKey]]) -> Iterator[list[ItemKey]]:
    """The keys of each request, each key once; a group of up to 100 is not parted."""
    seen: set[ItemKey] = set()
    request: list[ItemKey] = []
    for group in groups:
        fresh = [key for key in group if key not in seen]
        seen.update(fresh)
        if len(request) + len(fresh) > BATCH_GET_LIMIT:
            yield request
            request = []
        request += fresh
    if request:
        yield request


def request_of(keys: Iterable[ItemKey], names: Mapping[str, Sequence[str]], *, consistent_read: bool) -> dict[str, Any]:
    """The argument of boto3's ``batch_get_item`` for these keys."""
    blocks: dict[str, dict[str, Any]] = {}
    for key in keys:
        block = blocks.get(key.table)
        if block is None:
            block = blocks[key.table] = {"Keys": [], "ConsistentRead": consistent_read}
            if key.table in names:
                wanted = Names()
                text = ", ".join(wanted.name(name) for name in dict.fromkeys((*key.names, *names[key.table])))
                block |= {"ProjectionExpression": text, **wanted.request()}
        block["Keys"].append(key.wire())
    return {"RequestItems": blocks}


def _identity(table: str, wire: Item) -> tuple[Any, ...]:
    return (table, *sorted((name, kind, value) for name, typed in wire.items() for kind, value in typed.items()))
