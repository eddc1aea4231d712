"""Reading tallies: one item, or many in as few requests as possible."""

from __future__ import annotations

from collections.abc import Sequence

from pynacount.amounts import Amount
from pynacount.contributions import Tally
from pynacount.errors import ParentMissing
from pynacount.expressions import Names
from pynacount.items import number
from pynacount.keys import ItemKey
from pynacount.protocols.seeding import missing, stored
from pynacount.steps import Item, Protocol, Refusal, Send, Wait

BATCH_GET_LIMIT = 100
"""Most keys of one ``BatchGetItem`` (AWS: its API reference)."""
UNPROCESSED_PAUSE = 0.05
"""Seconds before the keys that a throttled table left unprocessed are asked for again."""


def read_tally(tally: Tally, key: ItemKey, consistent_read: bool) -> Protocol[Amount | None]:
    """The tally of one parent, or None while it is not seeded."""
    request = {"TableName": key.table, "Key": key.wire(), **_projection(tally, key)}
    answer = yield Send("GetItem", {**request, "ConsistentRead": consistent_read})
    assert not isinstance(answer, Refusal)
    if not answer.get("Item"):
        raise ParentMissing(missing(tally.label, key))
    return shown(tally, key, answer["Item"])


def read_attributes(key: ItemKey, names: Sequence[str], *, consistent_read: bool) -> Protocol[Item | None]:
    """These attributes of an item, and its key; None where there is no such item."""
    wanted = Names()
    text = ", ".join(wanted.name(name) for name in dict.fromkeys((*key.names, *names)))
    request = {"TableName": key.table, "Key": key.wire(), "ProjectionExpression": text, **wanted.request()}
    answer = yield Send("GetItem", {**request, "ConsistentRead": consistent_read})
    assert not isinstance(answer, Refusal)
    return answer.get("Item") or None


def read_tallies(
    tally: Tally, keys: Sequence[ItemKey], consistent_read: bool
) -> Protocol[dict[ItemKey, Amount | None]]:
    """The tallies of many parents; those that do not exist are left out."""
    found: dict[ItemKey, Amount | None] = {}
    todo = list(dict.fromkeys(keys))
    by_wire = {_identity(key.wire()): key for key in todo}
    waiting = [key.wire() for key in todo]
    while waiting:
        asked, waiting = waiting[:BATCH_GET_LIMIT], waiting[BATCH_GET_LIMIT:]
        table = todo[0].table
        block = {"Keys": asked, "ConsistentRead": consistent_read, **_projection(tally, todo[0])}
        answer = yield Send("BatchGetItem", {"RequestItems": {table: block}})
        assert not isinstance(answer, Refusal)
        for item in answer.get("Responses", {}).get(table, []):
            key = by_wire[_identity({name: item[name] for name in todo[0].names})]
            found[key] = shown(tally, key, item)
        unprocessed = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        if unprocessed:
            yield Wait(UNPROCESSED_PAUSE)  # the table is throttled
            waiting += unprocessed
    return found


def shown_names(tally: Tally) -> tuple[str, ...]:
    """The attributes of a parent that :func:`shown` looks at."""
    return tally.attr_name, tally.was_name


def shown(tally: Tally, key: ItemKey, item: Item) -> Amount | None:
    """The tally of a parent item as readers are shown it: None while it is not seeded; kept aside during a repair."""
    value = stored(tally, key, item)
    if value is None:
        value = number(item, tally.was_name)
    return 0 if value is None and tally.missing == "zero" else value


def _projection(tally: Tally, key: ItemKey) -> dict[str, object]:
    names = Names()
    text = ", ".join(names.name(name) for name in (*key.names, *shown_names(tally)))
    return {"ProjectionExpression": text, **names.request()}


def _identity(wire: Item) -> tuple[tuple[str, str, object], ...]:
    return tuple(sorted((name, kind, value) for name, typed in wire.items() for kind, value in typed.items()))
