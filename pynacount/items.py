"""Reading one item as it is now."""

from __future__ import annotations

from pynacount.keys import ItemKey
from pynacount.steps import Item, Protocol, Refusal, Send


def read_item(key: ItemKey) -> Protocol[Item | None]:
    """The item, by a consistent read; None where there is none."""
    answer = yield Send("GetItem", {"TableName": key.table, "Key": key.wire(), "ConsistentRead": True})
    assert not isinstance(answer, Refusal)
    return answer.get("Item") or None
