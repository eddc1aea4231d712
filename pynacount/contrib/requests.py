"""What a request's ``Idempotency-Key`` header means here."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pynacount.idempotency import idempotency_key

HEADER = "Idempotency-Key"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def of_request(key: str | None, method: str, path: str) -> AbstractContextManager[None]:
    """What the request does is done once for its key; a safe method's key says nothing.

    The same key to another path or by another method is another request. The quotes that a client may put around it
    (the header's draft makes it a string of RFC 8941) are not part of it. Raises :class:`IdempotencyKeyError` for a
    key that cannot be one, with nothing done.
    """
    if key is None or method in _SAFE:
        return idempotency_key(None)
    key = key.strip()
    if len(key) > 1 and key.startswith('"') and key.endswith('"'):
        key = key[1:-1]
    return idempotency_key(key, f"{method} {path}")
