"""The faults of a network and a busy table, and what each does to a request."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)

from pynacount.testing.answers import ErrorAnswer, Reason, cancelled

ITEM_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
TRANSACTIONS = frozenset({"TransactWriteItems", "TransactGetItems"})
_BATCHES = frozenset({"BatchGetItem", "BatchWriteItem", "BatchExecuteStatement"})
DATA_OPERATIONS = ITEM_WRITES | TRANSACTIONS | _BATCHES | {"GetItem", "Query", "Scan"}
"""The operations on items, which is what faults hit. Those on tables are left alone unless named in a script."""


class Fault(enum.Enum):
    """A kind of fault. Only ``LOST_RESPONSE`` lets the request run."""

    CONFLICT = "conflict"
    """Another transaction holds an item: ``TransactionCanceledException`` with ``TransactionConflict`` for one item
    and ``None`` for the others, or ``TransactionConflictException`` for a write of one item."""

    MIXED = "mixed"
    """A cancelled transaction of which one write was throttled and another met a conflict."""

    THROTTLE = "throttle"
    """``ProvisionedThroughputExceededException``; for a transaction that, or a cancellation with the reason
    ``ProvisionedThroughputExceeded`` or ``ThrottlingError``, by chance. All three happen."""

    INTERNAL_ERROR = "internal error"
    """HTTP status 500, ``InternalServerError``, and nothing written."""

    LOST_RESPONSE = "lost response"
    """The request runs, then the connection breaks: ``ReadTimeoutError`` or ``ConnectionClosedError``, by chance."""

    REFUSED_CONNECTION = "refused connection"
    """``EndpointConnectionError``; nothing was sent."""

    def can_hit(self, operation: str, request: dict[str, Any]) -> bool:
        """Whether DynamoDB could meet this request with this fault. A read of one item, say, knows no conflict."""
        if self is Fault.CONFLICT:
            return operation in ITEM_WRITES | TRANSACTIONS
        if self is Fault.MIXED:
            return operation == "TransactWriteItems" and _size(request) > 1
        return True


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise the error; nothing is sent."""

    error: BotoCoreError


@dataclass(frozen=True, slots=True)
class Lose:
    """Let the request run, then raise the error in place of the answer."""

    error: BotoCoreError


Effect: TypeAlias = ErrorAnswer | Refuse | Lose
"""What is done to a request: it is answered with an error and not sent, refused, or its answer is lost."""


def effect_of(fault: Fault, operation: str, request: dict[str, Any], url: str, chance: Random) -> Effect:
    """What ``fault`` does to this request. ``chance`` decides what DynamoDB leaves to chance."""
    in_transaction = operation in TRANSACTIONS
    if fault is Fault.CONFLICT:
        if in_transaction:
            return cancelled(_reasons(request, chance, "TransactionConflict"))
        return ErrorAnswer("TransactionConflictException", "Transaction is ongoing for the item")
    if fault is Fault.MIXED:
        return cancelled(_reasons(request, chance, "ThrottlingError", "TransactionConflict"))
    if fault is Fault.THROTTLE:
        reason = chance.choice([None, "ProvisionedThroughputExceeded", "ThrottlingError"]) if in_transaction else None
        if reason is not None:
            return cancelled(_reasons(request, chance, reason))
        message = "The level of configured provisioned throughput for the table was exceeded"
        return ErrorAnswer("ProvisionedThroughputExceededException", message)
    if fault is Fault.INTERNAL_ERROR:
        return ErrorAnswer("InternalServerError", "The request could not be processed", status=500)
    if fault is Fault.LOST_RESPONSE:
        error = chance.choice([ReadTimeoutError, ConnectionClosedError])
        return Lose(error(endpoint_url=url))
    return Refuse(EndpointConnectionError(endpoint_url=url))


def _size(request: dict[str, Any]) -> int:
    return len(request.get("TransactItems", ()))


def _reasons(request: dict[str, Any], chance: Random, *codes: str) -> list[Reason]:
    """One reason for each write, the codes falling on different writes by chance."""
    reasons: list[Reason] = [None] * _size(request)
    for place, code in zip(chance.sample(range(len(reasons)), len(codes)), codes, strict=True):
        reasons[place] = code
    return reasons
