"""Reading a tally in shards, and the writes that make and unmake its shards together with the parent."""

from __future__ import annotations

from collections.abc import Iterable

from pynacount import marks
from pynacount.amounts import Amount, plus
from pynacount.contributions import Tally
from pynacount.errors import PynacountError
from pynacount.expressions import Absent, Action, Exists, Guard, Names, Raise, Remove, Set
from pynacount.items import number, read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Delete, Plan, Put, Update
from pynacount.shards import MAX_SHARDS, Layout, ParentInShards, layout_of, mark_names, number_of, shard_key, shares
from pynacount.steps import Item, Protocol, Refusal, Send


def read_spread(tally: Tally, key: ItemKey, *, consistent_read: bool = True) -> Protocol[ParentInShards | None]:
    """The parent's marks and its shards, by one Query; None where there is no such parent.

    A Query is not serializable with a transaction that is just being committed (AWS: "Amazon DynamoDB Transactions",
    isolation levels). What it shows is believed where it is one page, and no shard is missing or being retired; else
    all are read again by one TransactGetItems, which is.
    """
    found = ParentInShards(None, {}, {})
    start: Item | None = None
    pages = 0
    while True:
        page = yield _query(tally, key, start, consistent_read)
        assert not isinstance(page, Refusal)
        found = _collected(tally, key, (found.item, *found.shards.values(), *page["Items"]))
        start = page.get("LastEvaluatedKey")
        pages += 1
        if not start:
            break
    if not found.item and not found.shards:
        return None
    if not found.item or not found.whole(tally) or pages > 1:
        found = yield from _read_at_once(tally, key, found)
    return found if found.item else None


def _names(tally: Tally, key: ItemKey) -> tuple[Names, str]:
    names = Names()
    return names, ", ".join(names.name(name) for name in (*key.names, *mark_names(tally)))


def _query(tally: Tally, key: ItemKey, start: Item | None, consistent_read: bool) -> Send:
    names, projection = _names(tally, key)
    (kind, partition), (_, sort) = key.values
    own = names.name(key.names[0]), names.name(key.names[1])
    first = names.value({"S": sort}, "parent")
    last = names.value({"S": f"{sort}#{tally.attr_name}#:"}, "last")  # a colon comes after the digits
    condition = f"{own[0]} = {names.value({kind: partition}, 'partition')} AND {own[1]} BETWEEN {first} AND {last}"
    request = {
        "TableName": key.table,
        "KeyConditionExpression": condition,
        "ProjectionExpression": projection,
        "ConsistentRead": consistent_read,
        **names.request(),
    }
    return Send("Query", {**request, "ExclusiveStartKey": start} if start else request)


def _collected(tally: Tally, key: ItemKey, items: Iterable[Item]) -> ParentInShards:
    parent: Item = {}
    shards: dict[int, Item] = {}
    wire = key.wire()
    for item in items:
        if not item:
            continue
        if all(item[name] == value for name, value in wire.items()):
            parent = item
        elif (place := number_of(tally, key, item)) is not None:
            shards[place] = item
    return ParentInShards(layout_of(tally, parent), parent, shards)


def _read_at_once(tally: Tally, key: ItemKey, seen: ParentInShards) -> Protocol[ParentInShards]:
    names, projection = _names(tally, key)
    upto = max(seen.layout.upto if seen.layout else 0, *(place + 1 for place in seen.shards), 0)
    while True:
        keys = [key, *(shard_key(key, tally.attr_name, place) for place in range(min(upto, MAX_SHARDS)))]
        get = {"TableName": key.table, "ProjectionExpression": projection, **names.request()}
        answer = yield Send("TransactGetItems", {"TransactItems": [{"Get": {**get, "Key": k.wire()}} for k in keys]})
        assert not isinstance(answer, Refusal)
        found = _collected(tally, key, (one.get("Item") or {} for one in answer["Responses"]))
        if found.layout is None or found.layout.upto <= upto:
            return found
        upto = found.layout.upto


def read_whole(tally: Tally, key: ItemKey) -> Protocol[Item | None]:
    """A parent's item as if it carried its number itself, also where that is in shards."""
    return (yield from made_whole(tally, key, (yield from read_item(key))))


def made_whole(tally: Tally, key: ItemKey, item: Item | None) -> Protocol[Item | None]:
    """The same of a parent that was read already, as ``item``."""
    layout = None if item is None else layout_of(tally, item)
    if layout is None or layout.shards == 1:
        return item
    found = yield from read_spread(tally, key)
    return None if found is None else gathered(tally, found)


def gathered(tally: Tally, found: ParentInShards, *, plain: bool = False) -> Item:
    """The parent's item with the sum of its shards in it; ``plain``: what is on the parent beside them counts too."""
    if found.layout is None or found.layout.shards == 1:
        return dict(found.item)
    total = found.total(tally)
    if plain:
        for name in (tally.attr_name, tally.was_name):  # or it is on its way into a shard
            total = plus(total, number(found.item, name) or 0)
    return {**found.item, tally.attr_name: {"N": str(total)}}


# -- making and unmaking the shards


def births(tally: Tally, key: ItemKey, counted: Amount, shards: int) -> tuple[Put, ...]:
    """The shards of a tally that is seeded with this number; what was left there by others is written over."""
    return tuple(birth(tally, key, place, part) for place, part in enumerate(shares(counted, shards)))


def birth(tally: Tally, key: ItemKey, place: int, part: Amount) -> Put:
    """One shard, with its part of the number."""
    own = shard_key(key, tally.attr_name, place)
    return Put(own, {**own.wire(), tally.attr_name: {"N": str(part)}}, ())


def deletions(tally: Tally, key: ItemKey, upto: int) -> tuple[Delete, ...]:
    """All the shards that may be there go."""
    return tuple(Delete(shard_key(key, tally.attr_name, place), ()) for place in range(upto))


def unspreading(tally: Tally, layout: Layout) -> list[Action]:
    """What takes a tally away from a parent that has it in shards, so that it is seeded into as many again."""
    actions: list[Action] = [Remove(tally.shards_name), Set(tally.had_shards_name, {"N": str(layout.shards)})]
    return [*actions, Remove(tally.retiring_name)] if layout.upto > layout.shards else actions


def unspread(tally: Tally, key: ItemKey, *, aside: bool) -> Protocol[bool]:
    """Take away a tally that is in shards, and the shards with it; whether it was in shards.

    ``aside``: whether its number is kept for readers, as a repair does: the sum as it was read just before.
    """
    while True:
        found = yield from read_spread(tally, key)
        if found is None or found.layout is None or found.layout.shards == 1:
            return False
        actions = [*unspreading(tally, found.layout), Raise(tally.pending_name, marks.birth_mark())]
        if aside:
            actions.append(Set(tally.was_name, {"N": str(found.total(tally))}))
        guards = same_layout(tally, key, found.layout)
        parent = Update(key, tuple(actions), (Claim(guards, tally),))
        answer = yield Plan((parent, *deletions(tally, key, found.layout.upto))).send()
        if not isinstance(answer, Refusal):
            return True
        refuse_invalid(tally, key, answer, "be taken out of its shards")


def seed_spread(
    tally: Tally, key: ItemKey, counted: Amount, shards: int, guards: tuple[Guard, ...], item: Item
) -> Plan:
    """Set a tally in shards, under the guards of its seeding."""
    actions: list[Action] = [Set(tally.shards_name, {"N": str(shards)})]
    actions += [Remove(name) for name in (tally.was_name, tally.had_shards_name) if name in item]
    parent = Update(key, tuple(actions), (Claim(guards, tally),))
    return Plan((parent, *births(tally, key, counted, shards)))


def refuse_invalid(tally: Tally, key: ItemKey, answer: Refusal, what: str) -> None:
    """Raise where it was no guard that refused."""
    if not answer.by_guard:
        said = [reason.message for reason in answer.reasons if reason is not None and reason.message]
        raise PynacountError(f"{tally.label} of the parent {key} could not {what}: {'; '.join(said) or answer.message}")


def same_layout(tally: Tally, key: ItemKey, layout: Layout) -> tuple[Guard, ...]:
    """The guards of a write of a parent that is there, with its tally in shards as it was read."""
    return (Exists(key.names[0]), *layout.guards(tally))


def not_spread(tally: Tally) -> Absent:
    """The guard of a write that takes the tally to be on the parent itself, or absent."""
    return Absent(tally.shards_name)
