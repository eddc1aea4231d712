"""The key that a client gives to a request, so that what it asks for is done once however often it is sent.

A web framework's integration puts the request's ``Idempotency-Key`` here; what is written while it is in force is
marked with it. :mod:`pynacount.writing.requested` has the markers of children; an ``increment()`` takes the key as its
``once=``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import uuid4

from pynacount.errors import IdempotencyKeyError

MOST_CHARACTERS = 255
"""Characters of a key: a UUID has 36."""


class Request:
    """The request that is being answered, as far as counting goes.

    One request may do the same thing twice, such as two increments of one counter. So the second of a kind has a token
    of its own, and the order in which a view does things tells which is which when the request comes again. One that
    ended without an answer has its token still: doing it again is the same operation.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._done: Counter[Hashable] = Counter()

    def token(self, what: Hashable) -> str:
        """The token of the next operation of this kind."""
        done = self._done[what]
        return self._token if not done else f"{self._token}.{done + 1}"

    def new_id(self, owner: str) -> str:
        """An id that follows from the request's token."""
        self.finish(new_id)
        return _digest(owner, self.token(new_id))

    def finish(self, what: Hashable) -> None:
        """An operation of this kind was answered."""
        self._done[what] += 1


current: ContextVar[Request | None] = ContextVar("pynacount_request", default=None)
"""The request that is being answered in this thread, or task; None outside of one, or where it has no key."""


@contextmanager
def idempotency_key(key: str | None, scope: str = "") -> Iterator[None]:
    """While the block runs, each counted create and delete, and each ``increment()``, is done once for this key.

    A block that comes again with the same key and does the same things is told what the first was told, and writes
    nothing. Two scopes (two users, two paths) may use the same key. None is no key: nothing is marked.

    It costs one more item in each transaction, 2 WCU, whose time to live is a day (``expires``, in epoch seconds). A
    table whose keys are numbers cannot keep it: its children are counted once all the same, as ever.

    Raises :class:`IdempotencyKeyError` for a key that is empty, too long or has characters that cannot be printed.
    """
    if key is not None and not (0 < len(key) <= MOST_CHARACTERS and key.isprintable() and key.isascii()):
        raise IdempotencyKeyError(
            f"the idempotency key {key[:40]!r} must be 1 to {MOST_CHARACTERS} printable ASCII characters, such as "
            f"a UUID's"
        )
    reset = current.set(None if key is None else Request(_digest(scope, key)))
    try:
        yield
    finally:
        current.reset(reset)


def new_id(owner: str = "") -> str:
    """An id, of 32 hexadecimal digits, for what a request creates: the same one when the request comes again.

    So a comment that is sent again is the comment that is there. ``owner``: whose it is, such as the user; two users
    may have chosen the same key. Where the request has no key, the id is random.
    """
    request = current.get()
    return uuid4().hex if request is None else request.new_id(owner)


def _digest(scope: str, key: str) -> str:
    return hashlib.sha256(f"{len(scope)}:{scope}{key}".encode()).hexdigest()[:32]
