"""Seeing the requests that were really sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.client import BaseClient

from pynacount.testing.wire import operation_of, parsed_body

# After the injector has decided (it listens at "before-send.dynamodb.*") and before it acts ("before-send"):
# botocore calls the handlers of the more specific event first.
_EVENT = "before-send.dynamodb"


@contextmanager
def record_requests(*clients: BaseClient) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """Collect ``(operation, parameters)`` of each request that the clients send while the block runs.

    The parameters are read back from the request's body, so that what is asserted on is what DynamoDB would have
    seen. Each attempt of botocore's own retries is a request. A request whose connection an injector refused was
    not sent and is not there; one whose answer it made up or lost is.
    """
    sent: list[tuple[str, dict[str, Any]]] = []

    def record(request: AWSPreparedRequest, event_name: str, **_: Any) -> None:
        sent.append((operation_of(event_name), parsed_body(request)))

    unique_id = f"pynacount-recorder-{id(sent)}"
    for client in clients:
        client.meta.events.register_first(_EVENT, record, unique_id)
    try:
        yield sent
    finally:
        for client in clients:
            client.meta.events.unregister(_EVENT, record, unique_id)
