"""What a seeder's own requests read and write, as DynamoDB reckons it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from contextvars import ContextVar
from typing import Any, TypeVar

from pynacount.tallies.scanning import Tracking

T = TypeVar("T")

_READS = ("Scan", "Query", "GetItem", "BatchGetItem")
_WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems")

_measured: ContextVar[Tracking | None] = ContextVar("pynacount_measured", default=None)
"""Where the requests of this thread are noted; other users of the same client go on beside."""


def metered(clients: Iterable[Any], track: Tracking, results: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same results; what is sent by these clients to come to each is noted in ``track``."""
    distinct = list({id(client): client for client in clients}.values())
    hooks = [
        (f"{event}.dynamodb.{operation}", handler, f"pynacount-meter-{id(results)}-{event}-{operation}")
        for event, handler in (("before-parameter-build", _ask), ("after-call", _note))
        for operation in (*_READS, *_WRITES)
    ]
    for client in distinct:
        for hook in hooks:
            client.meta.events.register(*hook)
    try:
        with closing(results):
            while True:
                before = _measured.set(track)
                try:
                    one = next(results)
                except StopIteration:
                    return
                finally:
                    _measured.reset(before)
                yield one
    finally:
        for client in distinct:
            for hook in hooks:
                client.meta.events.unregister(*hook)


def _ask(params: dict[str, Any], **_: Any) -> None:
    if _measured.get() is not None:
        params.setdefault("ReturnConsumedCapacity", "TOTAL")


def _note(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    track = _measured.get()
    if track is None:
        return
    consumed = parsed.get("ConsumedCapacity") or []
    several = consumed if isinstance(consumed, list) else [consumed]
    units = sum(float(one.get("CapacityUnits", 0.0)) for one in several)
    if model.name in _WRITES:
        track.note_write(units)
        return
    with track.lock:
        track.read_units += units
        track.pages += model.name in ("Scan", "Query")
        track.items += parsed.get("ScannedCount", 0)
