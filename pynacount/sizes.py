"""Item sizes and capacity units, by AWS's published rules.

Sources: "DynamoDB item sizes and formats" and "DynamoDB read and write operations" in the DynamoDB
Developer Guide. The size of a number is given there as approximate; everything else is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WRITE_UNIT_BYTES = 1024
"""A write unit covers one started KB."""
TRANSACTION_FACTOR = 2
"""Every item of a transaction is written twice: prepare and commit."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What an operation consumes when it succeeds at its first try.

    ``wcu`` and ``rcu`` in capacity units, ``items`` in items written or checked.
    """

    wcu: float
    rcu: float
    items: int


def value_size(value: Mapping[str, Any]) -> int:
    """Bytes of one attribute value in DynamoDB's JSON, its name not included."""
    kind: str
    content: Any
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(content) if content.isascii() else len(content.encode())
        case "N":
            digits = content.upper().partition("E")[0].replace(".", "").strip("-+0")
            return (len(digits) + 1) // 2 + 1 + int(content.startswith("-"))
        case "B":
            return len(bytes(content))
        case "BOOL" | "NULL":
            return 1
        case "SS" | "NS" | "BS":
            return sum(value_size({kind[0]: member}) for member in content)
        case "L":
            return 3 + sum(1 + value_size(member) for member in content)
        case "M":
            return 3 + sum(1 + len(name.encode()) + value_size(member) for name, member in content.items())
    raise ValueError(f"no such DynamoDB type: {kind!r}")


def item_size(item: Mapping[str, Mapping[str, Any]]) -> int:
    """Bytes of an item: its names and its values."""
    return sum(len(name.encode()) + value_size(value) for name, value in item.items())


def write_units(size: int, *, in_transaction: bool) -> int:
    """Write units for an item of ``size`` bytes: one for each started KB, twice that in a transaction."""
    started = max(1, -(-size // WRITE_UNIT_BYTES))
    return started * TRANSACTION_FACTOR if in_transaction else started
