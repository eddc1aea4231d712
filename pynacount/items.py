"""Reading one item as it is now."""

from __future__ import annotations

from pynacount.amounts import Amount, stored_amount
from pynacount.keys import ItemKey
from pynacount.steps import Item, Protocol, Refusal, Send


def read_item(key: ItemKey) -> Protocol[Item | None]:
    """The item, by a consistent read; None where there is none."""
    answer = yield Send("GetItem", {"TableName": key.table, "Key": key.wire(), "ConsistentRead": True})
    assert not isinstance(answer, Refusal)
    return answer.get("Item") or None


def number(item: Item | None, name: str) -> Amount | None:
    """The number that an item stores under a name; None where it stores nothing there, or something else."""
    value = (item or {}).get(name, {}).get("N")
    return None if value is None else stored_amount(value)
