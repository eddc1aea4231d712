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
from pynacount.protocols.spreading import gathered, read_spread
from pynacount.shards import Spread, layout_of, number_of, shard_key
from pynacount.steps import Item, Protocol, Refusal, Send, Wait

BATCH_GET_LIMIT = 100
"""Most keys of one ``BatchGetItem`` (AWS: its API reference)."""
UNPROCESSED_PAUSE = 0.05
"""Seconds before the keys that a throttled table left unprocessed are asked for again."""


def read_tally(tally: Tally, key: ItemKey, consistent_read: bool, *, plain: bool = False) -> Protocol[Amount | None]:
    """The tally of one parent, or None while it is not seeded; ``plain``: no children are counted in it.

    One GetItem, or one Query where it is declared to be in shards; both, where it is not where it was looked for.
    """
    if tally.shards > 1:
        return (yield from _read_shards(tally, key, consistent_read, plain))
    request = {"TableName": key.table, "Key": key.wire(), **_projection(tally, key)}
    answer = yield Send("GetItem", {**request, "ConsistentRead": consistent_read})
    assert not isinstance(answer, Refusal)
    if not answer.get("Item"):
        raise ParentMissing(missing(tally.label, key))
    if tally.shards_name in answer["Item"]:
        return (yield from _read_shards(tally, key, consistent_read, plain))
    return shown(tally, key, answer["Item"])


def _read_shards(tally: Tally, key: ItemKey, consistent_read: bool, plain: bool) -> Protocol[Amount | None]:
    found = yield from read_spread(tally, key, consistent_read=consistent_read)
    if found is None:
        if plain:
            return None
        raise ParentMissing(missing(tally.label, key))
    return shown(tally, key, gathered(tally, found, plain=plain))


def read_attributes(key: ItemKey, names: Sequence[str], *, consistent_read: bool) -> Protocol[Item | None]:
    """These attributes of an item, and its key; None where there is no such item."""
    wanted = Names()
    text = ", ".join(wanted.name(name) for name in dict.fromkeys((*key.names, *names)))
    request = {"TableName": key.table, "Key": key.wire(), "ProjectionExpression": text, **wanted.request()}
    answer = yield Send("GetItem", {**request, "ConsistentRead": consistent_read})
    assert not isinstance(answer, Refusal)
    return answer.get("Item") or None


def read_tallies(
    tally: Tally, keys: Sequence[ItemKey], consistent_read: bool, *, plain: bool = False
) -> Protocol[dict[ItemKey, Amount | None]]:
    """The tallies of many parents; those that do not exist are left out.

    By as few requests as can be: the shards of one that is declared to be in shards are asked for with it. Only where
    one is not where it was looked for, its shards are asked for by themselves.
    """
    todo = list(dict.fromkeys(keys))
    places = range(tally.shards if tally.shards > 1 else 0)
    asked = {key: key for key in todo}
    asked |= {shard_key(key, tally.attr_name, place): key for key in todo for place in places}
    items: dict[ItemKey, list[Item]] = {}
    for own, item in (yield from read_many(list(asked), _projection(tally, todo[0]), consistent_read)) if todo else ():
        items.setdefault(asked[own], []).append(item)
    found: dict[ItemKey, Amount | None] = {}
    for key in todo:
        spread = _spread(tally, key, items.get(key, []))
        if not spread.whole(tally):
            again = yield from read_spread(tally, key, consistent_read=consistent_read)
            spread = again if again is not None else Spread(None, {}, {})
        if spread.item:
            found[key] = shown(tally, key, gathered(tally, spread, plain=plain))
    return found


def _spread(tally: Tally, key: ItemKey, items: Sequence[Item]) -> Spread:
    wire = key.wire()
    parent = next((item for item in items if all(item[name] == wire[name] for name in wire)), {})
    shards = {number_of(tally, key, item): item for item in items if item is not parent}
    return Spread(
        layout_of(tally, parent), parent, {place: shard for place, shard in shards.items() if place is not None}
    )


def read_many(
    keys: Sequence[ItemKey], projection: dict[str, object], consistent_read: bool
) -> Protocol[list[tuple[ItemKey, Item]]]:
    """The items of one table that are there, 100 keys a request; what a throttled table left out is asked for again."""
    by_wire = {_identity(key.wire()): key for key in keys}
    waiting = [key.wire() for key in keys]
    found: list[tuple[ItemKey, Item]] = []
    while waiting:
        asked, waiting = waiting[:BATCH_GET_LIMIT], waiting[BATCH_GET_LIMIT:]
        table = keys[0].table
        block = {"Keys": asked, "ConsistentRead": consistent_read, **projection}
        answer = yield Send("BatchGetItem", {"RequestItems": {table: block}})
        assert not isinstance(answer, Refusal)
        for item in answer.get("Responses", {}).get(table, []):
            found.append((by_wire[_identity({name: item[name] for name in keys[0].names})], item))
        unprocessed = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        if unprocessed:
            yield Wait(UNPROCESSED_PAUSE)  # the table is throttled
            waiting += unprocessed
    return found


def shown(tally: Tally, key: ItemKey, item: Item) -> Amount | None:
    """The number that readers are shown of a parent: during a repair the one that is kept aside."""
    value = stored(tally, key, item)
    if value is None:
        value = number(item, tally.was_name)
    return 0 if value is None and tally.missing == "zero" else value


def _marks(tally: Tally) -> tuple[str, ...]:
    return tally.attr_name, tally.was_name, tally.shards_name, tally.retiring_name


def _projection(tally: Tally, key: ItemKey) -> dict[str, object]:
    names = Names()
    text = ", ".join(names.name(name) for name in (*key.names, *_marks(tally)))
    return {"ProjectionExpression": text, **names.request()}


def _identity(wire: Item) -> tuple[tuple[str, str, object], ...]:
    return tuple(sorted((name, kind, value) for name, typed in wire.items() for kind, value in typed.items()))
