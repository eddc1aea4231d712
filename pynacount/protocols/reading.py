"""Reading tallies: one item, or many in as few requests as possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pynacount.amounts import Amount
from pynacount.contributions import Tally
from pynacount.errors import ParentMissing
from pynacount.expressions import Names
from pynacount.items import number
from pynacount.keys import ItemKey
from pynacount.protocols.batches import Batch, read_groups
from pynacount.protocols.seeding import missing, stored
from pynacount.protocols.spreading import gathered, read_spread
from pynacount.shards import ParentInShards, layout_of, remember_shards, shard_key, taken_shards
from pynacount.steps import Item, Protocol, Refusal, Send


def read_tally(tally: Tally, key: ItemKey, consistent_read: bool, *, plain: bool = False) -> Protocol[Amount | None]:
    """The tally of one parent, or None while it is not seeded; ``plain``: no children are counted in it.

    One GetItem, or one Query where it is taken to be in shards; both, where it turns out to be.
    """
    if taken_shards(tally, key) > 1:
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
    _remember(tally, key, found)
    return shown(tally, key, gathered(tally, found, plain=plain))


def _remember(tally: Tally, key: ItemKey, found: ParentInShards) -> None:
    if found.layout is not None:
        remember_shards(tally, key, found.layout.shards)


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
    """The tallies of many parents; those that do not exist are left out. By as few requests as can be."""
    todo = list(dict.fromkeys(keys))
    names = {key.table: shown_names(tally) for key in todo[:1]}
    homes = homes_of(tally, todo)
    batch = yield from read_groups(homes.values(), names, consistent_read=consistent_read)
    found: dict[ItemKey, Amount | None] = {}
    for key in todo:
        item = yield from gathered_from(tally, key, homes[key], batch, consistent_read, plain=plain)
        if item is not None:
            found[key] = shown(tally, key, item)
    return found


def homes_of(tally: Tally, parents: Iterable[ItemKey]) -> dict[ItemKey, Sequence[ItemKey]]:
    """The items in which the tally of each of these parents is taken to be: the parent first, then its shards."""
    homes: dict[ItemKey, Sequence[ItemKey]] = {}
    for key in parents:
        taken = taken_shards(tally, key)
        homes[key] = (key, *(shard_key(key, tally.attr_name, place) for place in range(taken if taken > 1 else 0)))
    return homes


def gathered_from(
    tally: Tally,
    key: ItemKey,
    home: Sequence[ItemKey],
    batch: Batch,
    consistent_read: bool,
    *,
    plain: bool = False,
) -> Protocol[Item | None]:
    """A parent's item as if it carried its number itself, out of what was read; None where there is no such parent.

    ``home``: the items that were asked for. Where they are not all that may hold a part, or were not read by one
    request, they are read by themselves.
    """
    items = batch.items
    parent = items.get(key, {})
    shards = {place: items[shard] for place, shard in enumerate(home[1:]) if shard in items}
    spread: ParentInShards | None = ParentInShards(layout_of(tally, parent), parent, shards)
    if spread is not None and not (spread.whole(tally) and batch.at_once(home)):
        spread = yield from read_spread(tally, key, consistent_read=consistent_read)
    if spread is not None:
        _remember(tally, key, spread)
    return gathered(tally, spread, plain=plain) if spread is not None and spread.item else None


def shown_names(tally: Tally) -> tuple[str, ...]:
    """The attributes of a parent, and of its shards, that :func:`shown` looks at."""
    return tally.attr_name, tally.was_name, tally.shards_name, tally.retiring_name


def shown(tally: Tally, key: ItemKey, item: Item) -> Amount | None:
    """The tally of a parent item as readers are shown it: None while it is not seeded; kept aside during a repair.

    A number in shards was put in the item.
    """
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
