"""Reading a table by a parallel scan, page by page, at a price that can be bounded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.client import BaseClient

from pynacount.expressions import Names
from pynacount.steps import Item, Protocol, Refusal, Send

_HANDLER = "pynacount-raw-items"


class Pace:
    """At most so many capacity units a second, over all threads; without a rate, none is held up."""

    def __init__(self, per_second: float | None) -> None:
        self._per_second = per_second
        self._free_at = 0.0
        self._lock = threading.Lock()
        self.spent = 0.0

    def spend(self, units: float, stopping: threading.Event) -> None:
        """Account for units that were consumed, and wait until they were due, or until it is to stop."""
        with self._lock:
            self.spent += units
            if self._per_second is None:
                return
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + units / self._per_second
            wait = self._free_at - now
        stopping.wait(wait)


def scan_page(
    table: str, attributes: tuple[str, ...], segment: int, segments: int, start: Item | None
) -> Protocol[dict[str, Any]]:
    """One page of one segment, of the attributes that are asked for, by a consistent read."""
    names = Names()
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
        "ProjectionExpression": ", ".join(names.name(name) for name in attributes),
        "Segment": segment,
        "TotalSegments": segments,
        **names.request(),
    }
    if start is not None:
        request["ExclusiveStartKey"] = start
    answer = yield Send("Scan", request)
    assert not isinstance(answer, Refusal)
    return answer


def consumed(answer: dict[str, Any]) -> float:
    """The capacity units of a response; 0 where the engine does not say."""
    return float((answer.get("ConsumedCapacity") or {}).get("CapacityUnits", 0.0))


_raw = threading.local()


def _keep_items_raw(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    if not getattr(_raw, "wanted", False) or response_dict["status_code"] != 200:
        return
    body = json.loads(response_dict["body"])
    customized_response_dict["Items"] = body.pop("Items", [])
    response_dict["body"] = json.dumps(body).encode()


def offer_raw_items(client: BaseClient) -> None:
    """Make :func:`raw_items` work on this client; once is enough."""
    client.meta.events.register_first("before-parse.dynamodb.Scan", _keep_items_raw, _HANDLER)


@contextmanager
def raw_items() -> Iterator[None]:
    """Within the block this thread's scans give their items as JSON has them, which botocore passes on unparsed.

    Parsing each item by the service's model is what a scan costs the client. Only binary values differ: they stay in
    base64.
    """
    _raw.wanted = True
    try:
        yield
    finally:
        _raw.wanted = False
