"""Watching what a call sends, and what comes of each request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.client import BaseClient

from pynacount.demo.condensing import condense
from pynacount.demo.parts import Request
from pynacount.testing import record_requests


@contextmanager
def watched(*clients: BaseClient) -> Iterator[list[Request]]:
    """Collect the requests that the clients send in the block; the list is filled when the block ends."""
    came: list[str] = []
    requests: list[Request] = []

    def answered(parsed: dict[str, Any], **_: Any) -> None:
        came.append(_answer(parsed))

    def lost(exception: Exception, **_: Any) -> None:
        came.append(f"no answer: {type(exception).__name__}")

    for client in clients:
        client.meta.events.register("after-call.dynamodb", answered)
        client.meta.events.register("after-call-error.dynamodb", lost)
    try:
        with record_requests(*clients) as sent:
            yield requests
    finally:
        for client in clients:
            client.meta.events.unregister("after-call.dynamodb", answered)
            client.meta.events.unregister("after-call-error.dynamodb", lost)
    for (operation, request), what in zip(sent, came, strict=True):
        requests.append(Request(operation, request.get("ClientRequestToken"), condense(operation, request), what))


def _answer(parsed: dict[str, Any]) -> str:
    error = parsed.get("Error")
    if error is None:
        if "Count" not in parsed:
            return "done"
        return f"{'read' if parsed.get('Items') else 'counted'} {parsed['Count']}"
    reasons = [reason.get("Code", "None") for reason in parsed.get("CancellationReasons", ())]
    return f"cancelled: {', '.join(reasons)}" if reasons else str(error["Code"])
