"""Error answers, as DynamoDB puts them on the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

Reason: TypeAlias = str | Mapping[str, Any] | None
"""Why one write of a transaction was refused: a code, a whole reason (``Code``, ``Message``, ``Item``), or None."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An HTTP answer that reports an error.

    ``code`` is the exception's name (``TransactionCanceledException``), ``status`` the HTTP status, ``reasons`` the
    cancellation reasons, one for each write of the transaction, in order.
    """

    code: str
    message: str = ""
    status: int = 400
    reasons: Sequence[Reason] | None = None

    def body(self) -> bytes:
        """The JSON that goes over the wire."""
        answer: dict[str, Any] = {
            "__type": f"com.amazonaws.dynamodb.v20120810#{self.code}",
            "message": self.message,
        }
        if self.reasons is not None:
            answer["CancellationReasons"] = [_reason(reason) for reason in self.reasons]
        return json.dumps(answer).encode()

    def response(self, url: str) -> AWSResponse:
        """The answer as botocore's HTTP session would return it."""
        headers = HTTPHeaders()
        headers["Content-Type"] = "application/x-amz-json-1.0"
        return AWSResponse(url, self.status, headers, _Raw(self.body()))


def cancelled(reasons: Sequence[Reason]) -> ErrorAnswer:
    """A cancelled transaction, worded as DynamoDB words it."""
    codes = ", ".join(_reason(reason)["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return ErrorAnswer("TransactionCanceledException", message, reasons=tuple(reasons))


_MESSAGES = {
    "ConditionalCheckFailed": "The conditional request failed",
    "ProvisionedThroughputExceeded": "The level of configured provisioned throughput for the table was exceeded",
    "ThrottlingError": "Throughput exceeds the current capacity of your table or index",
    "TransactionConflict": "Transaction is ongoing for the item",
}


def _reason(reason: Reason) -> dict[str, Any]:
    if reason is None:
        return {"Code": "None"}
    if isinstance(reason, str):
        return {"Code": reason, "Message": _MESSAGES.get(reason, reason)}
    return dict(reason)


class _Raw:
    """The body of a response, in the one way in which botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body
