"""DynamoDB's JSON as plain Python values, for functions that an application gives."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pynacount.amounts import stored_amount


def plain_item(item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """An item: text, numbers (``int``, else ``Decimal``), bytes, lists, dicts and sets."""
    return {name: plain_value(value) for name, value in item.items()}


def plain_value(value: Mapping[str, Any]) -> Any:
    """One attribute's value. Raises ``ValueError`` for a type that DynamoDB has not."""
    ((kind, content),) = value.items()
    match kind:
        case "N":
            return stored_amount(content)
        case "B":
            return _bytes(content)
        case "NULL":
            return None
        case "L":
            return [plain_value(one) for one in content]
        case "M":
            return plain_item(content)
        case "SS":
            return set(content)
        case "NS":
            return {stored_amount(one) for one in content}
        case "BS":
            return {_bytes(one) for one in content}
        case "S" | "BOOL":
            return content
    raise ValueError(f"{kind!r} is no type of DynamoDB's")


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else base64.b64decode(content)
