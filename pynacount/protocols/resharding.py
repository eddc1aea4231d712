"""Changing the number of shards of one parent, while people go on counting in it.

Nothing is counted anew, and nobody is held up. More shards are added, empty, together with the new number on the
parent. To have fewer, the parent's number is lowered first, so that writers turn to the shards that stay; then the
others are retired: frozen, their part moved to one that stays, and deleted. At every moment the parts of all shards
come to the number. It can be interrupted anywhere, and run by several at once: who comes next goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.amounts import Amount, plus
from pynacount.contributions import Tally
from pynacount.errors import CounterContention, ParentMissing
from pynacount.expressions import ZERO, Absent, Action, Add, Copy, Exists, Guard, Remove, Same, Set
from pynacount.items import number, read_item
from pynacount.keys import ItemKey
from pynacount.plan import Check, Claim, Delete, Plan, Update
from pynacount.protocols.seeding import missing, refuse_closed, stored
from pynacount.protocols.spreading import birth, births, not_spread, read_spread, refuse_invalid, same_layout
from pynacount.shards import Layout, layout_of, part_of, shard_key
from pynacount.steps import Item, Protocol, Refusal, Wait

MOVE_TRIES = 200
"""Tries to move a number that others go on changing, before it is given up."""
PAUSE = 0.02
"""Seconds before another of those tries."""


@dataclass(frozen=True, slots=True)
class Resharded:
    """What became of one parent: in how many shards its tally was (None: it has no tally), and is."""

    was: int | None
    now: int | None


def reshard(tally: Tally, key: ItemKey, to: int, *, plain: bool) -> Protocol[Resharded]:
    """Bring one parent's tally into ``to`` shards (1: onto the parent itself). One without a tally is left as it is.

    ``plain``: no children are counted in it, so a number on the parent counts beside the shards.
    Raises :class:`ParentMissing`, and :class:`CounterContention` where a number never stood still long enough.
    """
    was: int | None = None
    tries = 0
    while True:
        item = yield from read_item(key)
        if not item:
            raise ParentMissing(missing(tally.label, key))
        refuse_closed(tally, key, item)
        layout = layout_of(tally, item)
        if layout is None:
            return Resharded(None, None)
        if was is None:
            was = layout.shards
        if is_so(tally, item, layout, to, plain=plain):
            return Resharded(was, to)
        if layout.upto > layout.shards:
            yield from _retire(tally, key, layout)
            continue
        if plain and _is_beside(tally, item, layout, to):
            done = yield from _bring_in(tally, key, item, layout)
        else:
            done = yield from _step(tally, key, item, layout, to, plain)
            if done and to > layout.shards:
                return Resharded(was, to)  # others may want another number: not to be seen again is no failure
            if done and to == 1 and layout.shards == 2:
                yield Wait(tally.settle)  # a reader may not see the shards as they were, and others in their place
                return Resharded(was, to)
        if not done:
            tries += 1
            if tries > MOVE_TRIES:
                raise CounterContention(
                    f"{tally.label} of the parent {key} was not brought into {to} shards: others changed it at each of "
                    f"{MOVE_TRIES} tries; nothing is lost. Run it again when it is quieter"
                )
            yield Wait(PAUSE)


def is_so(tally: Tally, item: Item, layout: Layout, to: int, *, plain: bool) -> bool:
    """Whether a parent is as it is wanted: in ``to`` shards, none of them being retired, and no number beside them."""
    return layout == Layout(to, to) and not (plain and _is_beside(tally, item, layout, to))


def _is_beside(tally: Tally, item: Item, layout: Layout, to: int) -> bool:
    """Whether a plain counter has a number beside its shards, to be moved in; or one that is on its way already."""
    return layout.shards > 1 and (tally.was_name in item or (to > 1 and tally.attr_name in item))


def _bring_in(tally: Tally, key: ItemKey, item: Item, layout: Layout) -> Protocol[bool]:
    """One write towards bringing the number on the parent, which code of old counts in, into a shard; whether it was.

    As a shard is retired, for the readers' sake: it is set aside, moved, and removed, each ``settle`` seconds apart.
    """
    guards = same_layout(tally, key, layout)
    aside = item.get(tally.was_name)
    moved: tuple[Update, ...] = ()
    if aside is None and stored(tally, key, item):
        actions: tuple[Action, ...] = (Copy(tally.was_name, tally.attr_name), Remove(tally.attr_name))
        own: tuple[Guard, ...] = (Exists(tally.attr_name), Absent(tally.was_name))
    elif aside is None:
        actions, own = (Remove(tally.attr_name),), (Same(tally.attr_name, item[tally.attr_name]),)
    else:
        yield Wait(tally.settle)
        own = (Same(tally.was_name, aside),)
        part = number(item, tally.was_name) or 0
        actions = (Set(tally.was_name, ZERO),) if part else (Remove(tally.was_name),)
        moved = (_move(tally, key, 0, part),) if part else ()
    answer = yield Plan((Update(key, actions, (Claim((*guards, *own), tally),)), *moved)).send()
    if isinstance(answer, Refusal):
        refuse_invalid(tally, key, answer, "be moved into a shard")
        return False
    return True


def _step(tally: Tally, key: ItemKey, item: Item, layout: Layout, to: int, plain: bool) -> Protocol[bool]:
    """One transaction towards ``to`` shards; whether it was written."""
    if layout.shards == 1:
        plan = _from_parent(tally, key, item, to)
    elif to > layout.shards:
        grown = Update(key, (Set(tally.shards_name, _n(to)),), (Claim(same_layout(tally, key, layout), tally),))
        plan = Plan((grown, *(birth(tally, key, place, 0) for place in range(layout.shards, to))))
    elif to > 1 or layout.shards > 2:
        lower = max(to, 2)
        actions: tuple[Action, ...] = (Set(tally.shards_name, _n(lower)), Set(tally.retiring_name, _n(layout.shards)))
        plan = Plan((Update(key, actions, (Claim(same_layout(tally, key, layout), tally),)),), needs_token=True)
    else:
        plan = yield from _onto_parent(tally, key, layout, plain)
    answer = yield plan.send()
    if isinstance(answer, Refusal):
        refuse_invalid(tally, key, answer, f"be brought into {to} shards")
        return False
    return True


def _from_parent(tally: Tally, key: ItemKey, item: Item, to: int) -> Plan:
    """The number leaves the parent for the shards."""
    found = stored(tally, key, item)
    assert found is not None
    actions = (Remove(tally.attr_name), Set(tally.shards_name, _n(to)))
    guards = (Exists(key.names[0]), not_spread(tally), Same(tally.attr_name, item[tally.attr_name]))
    parent = Update(key, actions, (Claim(guards, tally),))
    return Plan((parent, *births(tally, key, found, to)))


def _onto_parent(tally: Tally, key: ItemKey, layout: Layout, plain: bool) -> Protocol[Plan]:
    """The last two shards go, and their sum comes onto the parent."""
    found = yield from read_spread(tally, key)
    shards = {} if found is None else found.shards
    total: Amount = 0
    goes: list[Delete] = []
    for place in range(layout.shards):
        shard = shards.get(place, {})
        total = plus(total, part_of(tally, shard))
        guard = Same(tally.attr_name, shard.get(tally.attr_name))
        goes.append(Delete(shard_key(key, tally.attr_name, place), (Claim((guard,), tally),)))
    guards: tuple[Guard, ...] = same_layout(tally, key, layout)
    guards = (*guards, Absent(tally.was_name)) if plain else guards
    own: tuple[Action, ...] = (Set(tally.attr_name, _n(total)),)
    if plain and found is not None and tally.attr_name in found.item:
        own = (Add(tally.attr_name, total),) if total else ()
    elif plain:
        guards = (*guards, Absent(tally.attr_name))
    return Plan((Update(key, (*own, Remove(tally.shards_name)), (Claim(guards, tally),)), *goes))


def _retire(tally: Tally, key: ItemKey, layout: Layout) -> Protocol[None]:
    """Move the parts of the shards that are to go, and delete them; returns where somebody else changed the layout.

    A reader that sees a shard being retired reads all of them at once. So each is seen to be retired before its part is
    moved, and until the move is seen.
    """
    guards = same_layout(tally, key, layout)
    places = range(layout.shards, layout.upto)
    for step in (_freeze, _empty):
        waits = False
        for place in places:
            done = yield from step(tally, key, place, layout)
            if done is None:
                return
            waits = waits or done
        if waits:
            yield Wait(tally.settle)
    emptied = (Absent(tally.attr_name), Same(tally.was_name, ZERO, or_absent=True))
    goes = [Delete(shard_key(key, tally.attr_name, place), (Claim(emptied, tally),)) for place in places]
    answer = yield Plan((Update(key, (Remove(tally.retiring_name),), (Claim(guards, tally),)), *goes)).send()
    if isinstance(answer, Refusal):
        refuse_invalid(tally, key, answer, "be rid of its retired shards")


def _freeze(tally: Tally, key: ItemKey, place: int, layout: Layout) -> Protocol[bool | None]:
    """No writer finds the shard any more; whether it holds a part. None: the layout is another one by now."""
    own = shard_key(key, tally.attr_name, place)
    actions = (Copy(tally.was_name, tally.attr_name), Remove(tally.attr_name))
    frozen = Update(own, actions, (Claim((Exists(tally.attr_name),), tally),))
    while True:
        shard = yield from read_item(own)
        if shard is None or tally.attr_name not in shard:
            return bool(number(shard, tally.was_name))
        answer = yield Plan((_still(tally, key, layout), frozen)).send()
        if isinstance(answer, Refusal) and (yield from _is_over(tally, key, layout, answer)):
            return None


def _empty(tally: Tally, key: ItemKey, place: int, layout: Layout) -> Protocol[bool | None]:
    """Move the part of a frozen shard to one that stays; whether there was one. None: the layout is another by now."""
    own = shard_key(key, tally.attr_name, place)
    moved = False
    while True:
        shard = yield from read_item(own)
        part = number(shard, tally.was_name) or 0
        if shard is None or not part:
            return moved
        frozen = (Absent(tally.attr_name), Same(tally.was_name, shard[tally.was_name]))
        emptied = Update(own, (Set(tally.was_name, ZERO),), (Claim(frozen, tally),))
        move = _move(tally, key, place % layout.shards, part)
        answer = yield Plan((_still(tally, key, layout), emptied, move)).send()
        moved = True
        if isinstance(answer, Refusal) and (yield from _is_over(tally, key, layout, answer)):
            return None


def _still(tally: Tally, key: ItemKey, layout: Layout) -> Check:
    return Check(key, (Claim(same_layout(tally, key, layout), tally),))


def _is_over(tally: Tally, key: ItemKey, layout: Layout, answer: Refusal) -> Protocol[bool]:
    """Whether somebody else changed the layout, and so finished this one."""
    refuse_invalid(tally, key, answer, "be moved out of a shard")
    item = yield from read_item(key)
    return item is None or layout_of(tally, item) != layout


def _move(tally: Tally, key: ItemKey, place: int, part: Amount) -> Update:
    there = (Claim((Exists(tally.attr_name),), tally),)
    return Update(shard_key(key, tally.attr_name, place), (Add(tally.attr_name, part),), there)


def _n(value: Amount) -> dict[str, str]:
    return {"N": str(value)}
