"""A tally beside its count, looked at again where they differ: a like may be under way."""

from __future__ import annotations

from dataclasses import replace

from pynacount.contributions import Tally
from pynacount.errors import CounterNotSeeded, CounterTypeError
from pynacount.inspecting.parts import Standing, State
from pynacount.items import number, read_item
from pynacount.keys import ItemKey
from pynacount.protocols.counting import count
from pynacount.steps import Item, Protocol, Wait

MOST_LOOKS = 5
"""How often tally and count are read before it is said that they do not stand still."""


def standing(tally: Tally, key: ItemKey) -> Protocol[Standing]:
    """The tally of one parent beside the count of its children. A difference is looked at again after ``settle``.

    It is drift where two looks in a row show the same, and the tally did not move during either.
    """
    before: Standing | None = None
    for looks in range(1, MOST_LOOKS + 1):
        item = yield from read_item(key)
        found = read_standing(tally, item)
        try:
            found = replace(found, count=(yield from count(tally, key)))
        except CounterNotSeeded as unknown:
            return replace(found, problem=unknown.msg)
        except CounterTypeError as unreadable:
            return replace(found, problem=unreadable.msg, failed=True)
        except Exception as broken:  # the application's own ``when`` or ``amount``
            said = f"{tally.label}: a child cannot be counted: {type(broken).__name__}: {broken}"
            return replace(found, problem=said, failed=True)
        found = replace(found, looks=looks)
        if not found.drift:
            return found
        after = read_standing(tally, (yield from read_item(key)))
        stood_still = (after.state, after.tally) == (found.state, found.tally)
        if stood_still and before is not None and before.drift == found.drift:
            return found
        before = found if stood_still else None
        if looks < MOST_LOOKS:
            yield Wait(tally.settle)
    return replace(found, moving=True, failed=True)


def read_standing(tally: Tally, item: Item | None) -> Standing:
    """What the parent's item says of one tally; no count yet."""
    return Standing(
        counter=tally.label,
        attr_name=tally.attr_name,
        state=_state(tally, item),
        tally=0 if _state(tally, item) == "zero" else number(item, tally.attr_name),
        was=number(item, tally.was_name),
        pending=number(item, tally.pending_name),
        count=None,
    )


def _state(tally: Tally, item: Item | None) -> State:
    if item is None:
        return "missing"
    stored = item.get(tally.attr_name)
    if stored is not None:
        return "present" if "N" in stored else "unreadable"
    if tally.closed_name in item:
        return "closed"
    if tally.was_name in item:
        return "repairing"
    return "zero" if tally.missing == "zero" else "unseeded"
