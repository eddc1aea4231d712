"""A model of DynamoDB's transaction conflicts, which no local engine has."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.client import BaseClient
from typing_extensions import Self

from pynacount.testing.answers import ErrorAnswer, Reason, cancelled
from pynacount.testing.fault_kinds import ITEM_WRITES
from pynacount.testing.wire import operation_of, parsed_body

_SEND = "before-send.dynamodb.*"
_ANSWERED = "response-received.dynamodb.*"

_NOWHERE = "http://answered.invalid/"
"""An address that no engine answers: moto goes by the URL, even if another handler has answered."""


class Conflicts:
    """Lets the requests of botocore clients conflict as they do in DynamoDB, on any engine that is safe under threads.

    While a ``TransactWriteItems`` is under way, from when it is sent until its answer is there, it has its items.
    Another one that meets it on an item is cancelled with ``TransactionConflict`` for that item, and a ``PutItem``, an
    ``UpdateItem`` or a ``DeleteItem`` of such an item gets ``TransactionConflictException``, without being sent (AWS:
    "Amazon DynamoDB Transactions: How it works", Transaction conflict handling)::

        with Conflicts(connection.client) as conflicts:
            ...
        print(conflicts.met, "of", conflicts.sent)

    Conflicts are between all clients that are given, within this process. Reads are left alone, and a transaction does
    not meet a single write, which is over in an instant. With a :class:`FaultInjector` beside it, both do their part.
    """

    def __init__(self, *clients: BaseClient) -> None:
        """Nothing happens before it is entered."""
        self.sent = 0
        """Writes that came by."""
        self.met = 0
        """Those of them that met a conflict."""
        self._clients = clients
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._mine = threading.local()
        self._keys: dict[str, tuple[str, ...]] = {}
        self._handlers: list[tuple[BaseClient, str, Callable[..., Any]]] = []

    def __enter__(self) -> Self:
        for client in self._clients:
            self._register(client, _SEND, self._sends_by(client))
            self._register(client, _ANSWERED, self._answered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._handlers:
            client, event, handler = self._handlers.pop()
            client.meta.events.unregister(event, handler)

    def _register(self, client: BaseClient, event: str, handler: Callable[..., Any]) -> None:
        client.meta.events.register_first(event, handler)
        self._handlers.append((client, event, handler))

    def _sends_by(self, client: BaseClient) -> Callable[..., AWSResponse | None]:
        def send(request: AWSPreparedRequest, event_name: str, **_: Any) -> AWSResponse | None:
            operation = operation_of(event_name)
            if operation != "TransactWriteItems" and operation not in ITEM_WRITES:
                return None
            items = list(self._items(client, operation, parsed_body(request)))
            answer = self._begin(operation, items)
            if answer is None:
                return None
            url, request.url = str(request.url), _NOWHERE
            return answer.response(url)

        return send

    def _begin(self, operation: str, items: list[str]) -> ErrorAnswer | None:
        with self._lock:
            self.sent += 1
            reasons: list[Reason] = ["TransactionConflict" if self._busy[item] else None for item in items]
            if any(reasons):
                self.met += 1
                if operation == "TransactWriteItems":
                    return cancelled(reasons)
                return ErrorAnswer("TransactionConflictException", "Transaction is ongoing for the item")
            if operation == "TransactWriteItems":
                self._busy.update(items)
                self._mine.items = items
        return None

    def _answered(self, **_: Any) -> None:
        items = getattr(self._mine, "items", None)
        if items is not None:
            self._mine.items = None
            with self._lock:
                self._busy.subtract(items)
                for item in items:
                    if not self._busy[item]:
                        del self._busy[item]

    def _items(self, client: BaseClient, operation: str, request: dict[str, Any]) -> Iterator[str]:
        """What the items that a request writes are known by."""
        if operation != "TransactWriteItems":
            yield self._item(client, request)
            return
        for write in request["TransactItems"]:
            yield self._item(client, next(iter(write.values())))

    def _item(self, client: BaseClient, write: dict[str, Any]) -> str:
        table = write["TableName"]
        key = write.get("Key")
        if key is None:
            key = {name: write["Item"].get(name) for name in self._key_names(client, table)}
        return json.dumps([table, key], sort_keys=True)

    def _key_names(self, client: Any, table: str) -> tuple[str, ...]:
        if table not in self._keys:
            schema = client.describe_table(TableName=table)["Table"]["KeySchema"]
            self._keys[table] = tuple(part["AttributeName"] for part in schema)
        return self._keys[table]
