"""DynamoDB's JSON values as hashable ones, and back.

A state of the search is looked up in a set, so everything in it must hash. ``{"N": "3"}`` becomes ``("N", "3")``,
and an item becomes a tuple of its attributes, sorted by name.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

from pynacount.steps import Item

Value: TypeAlias = tuple[str, Any]
"""A type letter and a hashable content."""

Frozen: TypeAlias = tuple[tuple[str, Value], ...]
"""An item: its attributes in the order of their names."""


@cache
def canonical(number: str) -> str:
    """The one spelling of a number: ``1.0``, ``01`` and ``1`` are one value, so they must be one state."""
    value = Decimal(number)
    return format(value.normalize(), "f") if value else "0"


def freeze_value(value: Mapping[str, Any]) -> Value:
    """``{"S": "x"}`` as ``("S", "x")``."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return kind, canonical(content)
        case "L":
            return kind, tuple(freeze_value(each) for each in content)
        case "M":
            return kind, freeze_item(content)
        case "NS":
            return kind, frozenset(canonical(each) for each in content)
        case "SS" | "BS":
            return kind, frozenset(content)
        case _:
            return kind, content


def thaw_value(value: Value) -> dict[str, Any]:
    """The inverse of :func:`freeze_value`."""
    kind, content = value
    match kind:
        case "L":
            return {kind: [thaw_value(each) for each in content]}
        case "M":
            return {kind: thaw_item(content)}
        case "NS" | "SS" | "BS":
            return {kind: sorted(content)}
        case _:
            return {kind: content}


def freeze_item(item: Mapping[str, Mapping[str, Any]]) -> Frozen:
    """An item as a hashable."""
    return tuple((name, freeze_value(item[name])) for name in sorted(item))


def thaw_item(item: Frozen) -> Item:
    """A fresh item that its receiver may change."""
    return {name: thaw_value(value) for name, value in item}


def freeze(thing: Any) -> Hashable:
    """Anything that an answer, a request or a result is made of, as something to tell it apart by."""
    if isinstance(thing, Mapping):
        # Sorted by the name as text: a result may have keys that do not compare with each other.
        return ("map", tuple((key, freeze(thing[key])) for key in sorted(thing, key=repr)))
    if isinstance(thing, list | tuple):
        return (type(thing).__name__, tuple(freeze(each) for each in thing))
    if isinstance(thing, set | frozenset):
        return ("set", frozenset(freeze(each) for each in thing))
    if isinstance(thing, BaseException):
        return ("error", type(thing), str(thing))
    if isinstance(thing, bool | int | float | str | bytes | Decimal) or thing is None:
        return (type(thing).__name__, thing)
    return (type(thing).__name__, repr(thing))
