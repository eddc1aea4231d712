"""The writes of a request, whichever operation carries them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pynacount.steps import Send

SINGLE: Mapping[str, str] = MappingProxyType({"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"})
"""The single-item write operations, and the kind of write that each is."""

TRANSACTION = "TransactWriteItems"
READ_TRANSACTION = "TransactGetItems"


def writes_of(send: Send) -> list[tuple[str, dict[str, Any]]]:
    """Kind and body of every write, in the order sent; a read has none."""
    if send.operation in SINGLE:
        return [(SINGLE[send.operation], send.request)]
    if send.operation == TRANSACTION:
        return [pair for action in send.request["TransactItems"] for pair in action.items()]
    return []


def is_write(send: Send) -> bool:
    """Whether the request can change the table."""
    return send.operation in SINGLE or send.operation == TRANSACTION
