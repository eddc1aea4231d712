"""What a caller asks of a plain counter, checked and put into the words of its protocols. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from pynamodb.expressions.update import Action

from pynacount.amounts import Amount, amount
from pynacount.contributions import Tally
from pynacount.errors import CounterBoundError, CounterTypeError, NotCounted, ParentMissing, UncountedWrite
from pynacount.protocols.comparing import Comparison
from pynacount.protocols.incrementing import Increment, PlainItem, Style
from pynacount.protocols.marking import Marker
from pynacount.refs import Ref
from pynacount.steps import Item

if TYPE_CHECKING:
    from pynacount.fields import CounterField

ADDS_AGAIN = (
    "To call again may count it a second time. What must be counted once goes with a token of your own: "
    "increment(..., once=...)"
)
ONCE_AGAIN = "To call again with the same once= is safe: it is counted once"
SETS_AGAIN = "Read the number before you call again"


def increment_of(
    counter: CounterField,
    ref: Any,
    by: Any,
    style: Any,
    settings: Mapping[str, Any] | None,
    also: Mapping[str, Any] | None,
    verb: str,
) -> Increment:
    """An increment of one item's counters. ``by`` is negative for a decrement.

    Raises :class:`UncountedWrite` for what an increment must not write, and :class:`CounterTypeError` for amounts that
    move nothing or are none.
    """
    about = f"{counter.label}.{verb}"
    item = _item(counter, ref, about)
    if style not in get_args(Style):
        raise ValueError(f"{about}(style={style!r}) is not known; write one of {', '.join(get_args(Style))}")
    moves: dict[Tally, Amount] = {counter.tally: _by(about, by)}
    for name, number in (also or {}).items():
        other = counter.owner._counting.counters.get(name)
        if other is None:
            known = ", ".join(n for n, c in counter.owner._counting.counters.items() if c is not counter)
            raise ValueError(
                f"{about}(also=...): {counter.owner.__name__} has no counter {name!r} but has {known or 'no other'}"
            )
        if other is counter:
            raise ValueError(f"{about}(also=...): {name} is the counter itself; give its amount as by=")
        _refuse_counted(other, about)
        if other.shards > 1:
            raise ValueError(f"{about}(also=...): {name} is in shards, which are items of their own; move it by itself")
        moves[other.tally] = _by(f"{about}(also=...) of {name}", number)
    if counter.shards > 1 and (also or settings):
        raise ValueError(
            f"{about}: {counter.label} is in shards, which hold nothing but the number, so nothing can be moved or set "
            f"in the same write; do it by a call of its own"
        )
    return Increment(item, moves, style, _settings(counter, about, settings or {}))


def comparison_of(counter: CounterField, ref: Any, expected: Any, new: Any) -> Comparison:
    """A comparison. Raises :class:`CounterBoundError` for a new number past the bound that it moves towards."""
    about = f"{counter.label}.compare_and_set"
    if counter.shards > 1:
        raise UncountedWrite(
            f"{about}: {counter.label} is in {counter.shards} shards, and no write can compare their sum; move it by "
            f"increment(), with once= where it must be counted once"
        )
    item = _item(counter, ref, about)
    old = None if expected is None else amount(expected, f"{about}(expected=...)")
    number = amount(new, f"{about}(new=...)")
    bounds, rises = counter.tally.bounds, number > (old or 0)
    which, limit = ("maximum", bounds.maximum) if rises else ("minimum", bounds.minimum)
    if number != (old or 0) and limit is not None and (number > limit if rises else number < limit):
        raise CounterBoundError(
            f"{about}(new={new!r}) would take {item.key} past its {which}, {limit}; nothing was sent",
            bound=which,
            limit=limit,
        )
    return Comparison(item, counter.tally, old, number)


def marker_of(counter: CounterField, ref: Any, token: str) -> Marker:
    """The marker for a token. Raises :class:`KeyTemplateError` for a token that cannot be part of a key."""
    return counter.markers.marker(token, ref.key_variables())


def follow(counter: CounterField, ref: Any, move: Increment, found: Item) -> None:
    """The numbers in memory follow, and what was set beside them, on an instance; it carries none that is in shards."""
    if isinstance(ref, Ref):
        return
    names = {a.attr_name: (name, a) for name, a in counter.owner.get_attributes().items()}
    for attr_name in move.names:
        name, attribute = names[attr_name]
        moved = counter.owner._counting.counters.get(name)
        if moved is not None and (moved.shards > 1 or moved.is_elsewhere(ref)):
            moved.show_elsewhere(ref)
            continue
        stored = found.get(attr_name)
        if stored is None:
            ref.attribute_values.pop(name, None)
        else:
            setattr(ref, name, attribute.deserialize(attribute.get_value(stored)))
        if ref._stored_item is not None:
            kept = {n: value for n, value in ref._stored_item.items() if n != attr_name}
            ref._stored_item = kept if stored is None else {**kept, attr_name: stored}


def _item(counter: CounterField, ref: Any, about: str) -> PlainItem:
    _refuse_counted(counter, about)
    counting = counter.owner._counting
    key = counting.key_of(ref)
    missing: ParentMissing | NotCounted | None = None
    if counting.is_child:
        missing = NotCounted(
            f"{about}: the item {key} does not exist in table {key.table}, and it is a child: made here, it would not "
            f"be counted. save() it first"
        )
    elif any(other.is_counted for other in counting.counters.values()):
        missing = ParentMissing(
            f"{about}: the item {key} does not exist in table {key.table}, and children are counted in it: made here, "
            f"it would have no tally. save() it first"
        )
    return PlainItem(about, key, missing)


def _refuse_counted(counter: CounterField, about: str) -> None:
    if counter.is_counted:
        raise UncountedWrite(f"{about}: {counter.label} is counted in: {counter.way_out()}")


def _by(about: str, by: Any) -> Amount:
    number = amount(by, about)
    if not number:
        raise CounterTypeError(f"{about}: an amount of 0 moves nothing")
    return number


def _settings(counter: CounterField, about: str, given: Mapping[str, Any]) -> dict[str, Action]:
    counting = counter.owner._counting
    attributes = counter.owner.get_attributes()
    kept = _kept(counter)
    settings: dict[str, Action] = {}
    for name, value in given.items():
        attribute = attributes.get(name)
        if attribute is None:
            raise ValueError(f"{about}(set=...): {counter.owner.__name__} has no attribute {name!r}")
        if name in counting.counters:
            raise UncountedWrite(f"{about}(set=...): {name} is a counter; move it by also={{{name!r}: ...}}")
        if attribute.attr_name in kept:
            raise UncountedWrite(
                f"{about}(set=...): {name} is a key, a version, or what the item counts by; get() the item, assign to "
                f"it and save() it"
            )
        settings[attribute.attr_name] = attribute.remove() if value is None else attribute.set(value)
    return settings


def _kept(counter: CounterField) -> set[str]:
    counting = counter.owner._counting
    version: Iterable[Any] = () if counting.version is None else (counting.version,)
    return {*counting.schema.names, *counting.read_attributes, *(a.attr_name for a in version)}
