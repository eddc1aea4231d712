"""Seeding one parent: count, then set the tally if it is still absent (rules 2 and 3 of docs/design.md)."""

from __future__ import annotations

from pynacount.amounts import Amount, stored_amount
from pynacount.contributions import Tally
from pynacount.errors import CounterNotSeeded, CounterTypeError, ParentMissing
from pynacount.expressions import Absent, Action, Exists, Guard, Remove, Same, Set
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.counting import count, only_a_scan_finds
from pynacount.protocols.spreading import not_spread, read_whole, refuse_invalid, seed_spread
from pynacount.shards import wanted_shards
from pynacount.steps import Item, Protocol, Refusal, Wait

AWAIT_REPAIR = 0.1
"""Seconds between two looks at a parent that somebody else repairs."""


def seed(tally: Tally, key: ItemKey, limit: int | None = None) -> Protocol[Amount]:
    """Make the tally present, and so exact; return it. A tally that is present already is left as it is.

    While it is absent no writer adds or removes a child, so the count is exact however long it takes; the
    only other change is an uncounted write or a fence, which raise the mark ``<tally>Pending``. The mark only ever
    grows: were it taken away, a seeder that slept through a whole round of backfill and seeding could not tell. Seeders
    that race write the same number; one that dies leaves the parent as it was.
    """
    too_many = False
    while True:
        item = yield from read_with_number(tally, key)
        if (present := stored(tally, key, item)) is not None:
            return present
        refuse_closed(tally, key, item)
        if too_many:  # somebody repairs it, and has no limit
            yield Wait(AWAIT_REPAIR, spends=True)
            too_many = tally.was_name in item
            continue
        if tally.pending_name in item:
            # A transaction could have committed a moment ago; its child may not be visible to a query yet.
            yield Wait(tally.settle)
        try:
            counted = yield from count(tally, key, limit)
        except CounterNotSeeded:
            if limit is None or tally.was_name not in item or only_a_scan_finds(tally, key):
                raise
            too_many = True
            continue
        answer = yield plan_recorded(tally, key, counted, item).send()
        if not isinstance(answer, Refusal):
            return counted
        refuse_invalid(tally, key, answer, "be seeded")
        # Seeded, closed, deleted, or written to uncounted meanwhile: look again.


def seed_counted(tally: Tally, key: ItemKey, counted: Amount) -> Protocol[Amount]:
    """Set a tally that a pass over the table counted, of a parent that never had one; else seed it as ever."""
    answer = yield plan_recorded(tally, key, counted, {}).send()
    if not isinstance(answer, Refusal):
        return counted
    return (yield from seed(tally, key))


def write_counted(tally: Tally, key: ItemKey, counted: Amount) -> Update:
    """Set the tally of a parent that never had one, if that is still so; not for one that is kept in shards."""
    return _write_recorded(tally, key, counted, {})


def seed_recorded(tally: Tally, key: ItemKey, counted: Amount, recorded: Item) -> Protocol[Amount]:
    """Set a tally that was counted after the parent was read as ``recorded``: without a tally, perhaps with marks.

    The parent may have been seeded meanwhile: then that number is returned. Raises :class:`CounterNotSeeded` where its
    children were written uncounted meanwhile, so that what was counted proves nothing.
    """
    answer = yield plan_recorded(tally, key, counted, recorded).send()
    if not isinstance(answer, Refusal):
        return counted
    refuse_invalid(tally, key, answer, "be seeded")
    item = yield from read_with_number(tally, key)
    if (present := stored(tally, key, item)) is not None:
        return present
    refuse_closed(tally, key, item)
    raise CounterNotSeeded(
        f"{tally.label} of the parent {key} is left without a tally: children were written uncounted during the scan; "
        f"run it again"
    )


def plan_recorded(tally: Tally, key: ItemKey, counted: Amount, item: Item) -> Plan:
    """Set the tally, if it is still absent and the mark is what it was when the parent was read as ``item``."""
    shards = wanted_shards(tally, item)
    if shards > 1:
        return seed_spread(tally, key, counted, shards, _seed_guards(tally, item), item)
    return Plan((_write_recorded(tally, key, counted, item),))


def _write_recorded(tally: Tally, key: ItemKey, counted: Amount, item: Item) -> Update:
    actions: list[Action] = [Set(tally.attr_name, {"N": str(counted)})]
    if tally.was_name in item:
        actions.append(Remove(tally.was_name))
    return Update(key, tuple(actions), (Claim(_seed_guards(tally, item), tally),))


def _seed_guards(tally: Tally, item: Item) -> tuple[Guard, ...]:
    pending = item.get(tally.pending_name)
    absent = (Absent(tally.attr_name), not_spread(tally), Absent(tally.closed_name))
    guards = (*absent, Same(tally.pending_name, pending))
    return guards if pending is not None else (Exists(tally.hash_name), *guards)  # one that is gone has not that mark


def read_with_number(tally: Tally, key: ItemKey) -> Protocol[Item]:
    """The parent's item, as if it carried its number itself. Raises :class:`ParentMissing` where there is none."""
    item = yield from read_whole(tally, key)
    if not item:
        raise ParentMissing(missing(tally.label, key))
    return item


def read(key: ItemKey, *, about: str) -> Protocol[Item]:
    """The item, by a consistent read. Raises :class:`ParentMissing` where there is none."""
    item = yield from read_item(key)
    if not item:
        raise ParentMissing(missing(about, key))
    return item


def missing(about: str, key: ItemKey) -> str:
    """The message for a parent that is not there."""
    return f"{about}: the parent {key} does not exist in table {key.table}; save it before anything is counted in it"


def refuse_closed(tally: Tally, key: ItemKey, item: Item) -> None:
    """Raise :class:`ParentMissing` for a parent whose deletion has begun."""
    if tally.closed_name in item:
        raise ParentMissing(
            f"{tally.label}: the parent {key} is being deleted with its children and takes no writes; if the deletion "
            f"was interrupted, finish it by calling delete() again"
        )


def stored(tally: Tally, key: ItemKey, item: Item) -> Amount | None:
    """The tally of a parent item, or None where it is absent. Raises :class:`CounterTypeError` for no number."""
    value = item.get(tally.attr_name)
    if value is None:
        return None
    if "N" not in value:
        raise CounterTypeError(wrong_type(tally, key, value))
    return stored_amount(value["N"])


def wrong_type(tally: Tally, key: ItemKey, value: dict[str, object]) -> str:
    """The message for a tally that is stored as something else than a number."""
    return (
        f"{tally.label}: the item {key} of table {key.table} stores {tally.attr_name} as {value!r}, which is no "
        f"number; remove the attribute, and it is seeded from the children that are really there"
    )
