"""The connection on which counted writes are sent.

It is PynamoDB's own ``Connection``, made from the model's ``Meta``, with botocore's retries off: the retries
are this library's, under one deadline and one token. Models with the same settings share one client and its
pool of sockets.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakKeyDictionary

from pynamodb.connection import Connection
from pynamodb.settings import get_settings_value

from pynacount.errors import DeclarationError

DEFAULT_DEADLINE = 10.0
"""Seconds that a counted operation may take, retries included, where ``Meta.counted_deadline`` is not set."""

_SETTINGS = (
    "region",
    "host",
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "max_pool_connections",
)

_connections: dict[tuple[Any, ...], Connection] = {}
_by_meta: WeakKeyDictionary[Any, Connection] = WeakKeyDictionary()
_lock = threading.Lock()


def deadline_of(meta: Any) -> float:
    """The model's ``Meta.counted_deadline`` in seconds."""
    return float(getattr(meta, "counted_deadline", DEFAULT_DEADLINE))


def check_deadline(meta: Any, model: str) -> None:
    """Raise :class:`DeclarationError` for a ``counted_deadline`` that is no positive number of seconds."""
    deadline = getattr(meta, "counted_deadline", DEFAULT_DEADLINE)
    if isinstance(deadline, bool) or not isinstance(deadline, (int, float)) or not 0 < deadline < float("inf"):
        raise DeclarationError(
            f"{model}.Meta.counted_deadline={deadline!r} must be a number of seconds above 0; {DEFAULT_DEADLINE:g} is "
            f"what it is when left out"
        )


def connection_for(meta: Any) -> Connection:
    """The connection for a model's ``Meta``; made at its first use, then shared."""
    known = _by_meta.get(meta)
    if known is not None:
        return known
    deadline = deadline_of(meta)
    headers = getattr(meta, "extra_headers", None)
    settings = {name: getattr(meta, name, None) for name in _SETTINGS}
    # An answer that is late for the deadline is as good as lost: do not wait for it longer.
    settings |= {
        name: min(getattr(meta, name, None) or get_settings_value(name), deadline)
        for name in ("connect_timeout_seconds", "read_timeout_seconds")
    }
    identity = (*settings.values(), tuple(sorted((headers or {}).items())))
    connection = _connections.get(identity)
    if connection is None:
        with _lock:
            connection = _connections.get(identity)
            if connection is None:
                connection = Connection(
                    **settings,
                    extra_headers=headers,
                    retry_configuration={"total_max_attempts": 1, "mode": "standard"},
                )
                try:
                    _ = connection.client  # under the lock: two threads must not make two of them
                except ValueError as error:  # botocore's, which names the endpoint
                    raise DeclarationError(
                        f"{error}; write it as a URL, such as http://localhost:8000, in AWS_ENDPOINT_URL_DYNAMODB "
                        f"or in Meta.host",
                        error,
                    ) from error
                _connections[identity] = connection
    _by_meta[meta] = connection
    return connection


def forget_connections() -> None:
    """Drop every connection; the next use makes a new one. Runs by itself in the child of a fork."""
    global _lock
    _lock = threading.Lock()
    _connections.clear()
    _by_meta.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # Sockets that two processes share would mix up their answers.
    os.register_at_fork(after_in_child=forget_connections)
