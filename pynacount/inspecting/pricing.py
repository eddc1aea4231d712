"""What the next child of a parent costs, by the sizes of what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pynacount.errors import PynacountError
from pynacount.inspecting.parts import Price
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.relations import CountedIn
from pynacount.schema import KeySchema
from pynacount.sizes import item_size
from pynacount.steps import Item, Protocol
from pynacount.targets import number_kind

GUESSED = "00000000"
"""A value for a child's key where no child is stored: what an id of eight characters costs."""


def price(relation: CountedIn, variables: Mapping[str, Any], example: Item | None) -> Protocol[Price]:
    """What one more child costs that is like ``example``, or like its bare key where there is none.

    ``variables`` are those of the parent's key.
    """
    model = relation.owner.__name__
    try:
        if example is None:
            child = relation.owner(**_guessed(relation, variables))
        else:
            child = relation.owner.from_raw_data(dict((yield from _whole(relation, example))))
            child._stored_item = None  # as if it were new
        plan = child.plan_save()
    except PynacountError as error:
        return Price(model, None, 0, example is not None, problem=error.msg)
    except Exception as error:  # PynamoDB's, or the application's own ``when`` or ``amount``
        return Price(model, None, 0, example is not None, problem=f"{type(error).__name__}: {error}")
    stored = {}
    for write in plan.writes:
        item = yield from read_item(write.key)
        stored[write.key] = item_size(item) if item else 0
    cost = plan.cost(stored)
    return Price(model, cost.wcu, cost.items, example is not None, plan.operation, relation.by == "stream")


def _whole(relation: CountedIn, item: Item) -> Protocol[Item]:
    """The child as its table has it: an index may hold only a part."""
    return (yield from read_item(raw_key(relation.child_schema, item))) or item


def raw_key(schema: KeySchema, item: Item) -> ItemKey:
    """The key of a raw item."""
    return ItemKey(schema.table, schema.names, tuple(next(iter(item[name].items())) for name in schema.names))


def _guessed(relation: CountedIn, variables: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for part in relation.owner._counting.parts:
        for name in part.variables:
            is_number = number_kind(part, name) is not None
            values[name] = 0 if is_number else GUESSED
    return values | {ours: variables[name] for name, ours in relation.from_child.items()}
