"""Reading many items in as few requests as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def read_items(
    keys: Iterable[ItemKey], names: Mapping[str, Sequence[str]], *, consistent_read: bool
) -> Protocol[dict[ItemKey, Item]]:
    """The items with these keys, of one table or of several; those that are not there are left out.

    ``names``: for a table, the attributes that are wanted beside the key; the whole item where it is not named. Keys
    that were left unprocessed are asked for again together with those that follow; the waits in between count against
    the deadline.
    """
    waiting = list(dict.fromkeys(keys))
    found: dict[ItemKey, Item] = {}
    pause = FIRST_PAUSE
    while waiting:
        asked, waiting = waiting[:BATCH_GET_LIMIT], waiting[BATCH_GET_LIMIT:]
        request = request_of(asked, names, consistent_read=consistent_read)
        answer = yield Send("BatchGetItem", request)
        assert not isinstance(answer, Refusal)
        of = {_identity(key.table, key.wire()): key for key in asked}
        schemas = {key.table: key.names for key in asked}
        for table, items in answer.get("Responses", {}).items():
            for item in items:
                found[of[_identity(table, {name: item[name] for name in schemas[table]})]] = item
        unprocessed = [
            of[_identity(table, wire)]
            for table, block in answer.get("UnprocessedKeys", {}).items()
            for wire in block["Keys"]
        ]
        if unprocessed:
            waiting += unprocessed
            yield Wait(pause, spends=True)
            pause = min(2 * pause, LONGEST_PAUSE)
        else:
            pause = FIRST_PAUSE
    return found


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
