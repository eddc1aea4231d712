"""The marker of a request: written in the transaction that creates or deletes a child, under the request's key.

A like is counted once by its own key. The marker adds two things. A request that comes again is given the answer that
the first was given, and not "there already". And one that comes late, when its like has been taken back, does not bring
it back.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

from pynacount import idempotency
from pynacount.contributions import NOTHING
from pynacount.errors import TokenReused
from pynacount.expressions import Guard, Lapsed
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Put, Write
from pynacount.steps import Item, Protocol
from pynacount.writing.discarding import Discard
from pynacount.writing.intents import Intent
from pynacount.writing.saving import Save

KEPT_SECONDS = 86_400
"""Seconds for which a request's marker lives."""
EXPIRES = "expires"
"""The marker's attribute that says until when, in epoch seconds; the one of ``once=`` markers where nothing is said."""
REQUEST = "onceRequest"
"""The marker's attribute that says what was done."""
MOST_INTENTS = 25
"""A larger transaction of the application's own has no marker: there must be room for it among 100 items."""


class Replayed(Exception):
    """The request was done before, by this key."""


class Marking(Intent):
    """The marker, as one more item of the transaction."""

    def __init__(self, request: idempotency.Request, key: ItemKey, child: ItemKey, text: str, look: bool) -> None:
        self.key = key
        self._look = look
        self._request, self._child, self._text = request, child, text
        self._now = int(time.time())

    def read(self) -> Protocol[None]:
        """Look for the marker, where a child is read before it is deleted: it is gone when the request comes again."""
        item = (yield from read_item(self.key)) if self._look else None
        free = self._free()
        if not free.holds(item):
            self.refused(free, item)

    def finish(self) -> None:
        """It was answered: the same in this request once more is another operation."""
        self._request.finish(self._child)

    def item(self) -> Item:
        """The marker, as it is stored."""
        return {
            **self.key.wire(),
            REQUEST: {"S": self._text},
            EXPIRES: {"N": str(self._now + KEPT_SECONDS)},
        }

    def write(self) -> Write:
        """A Put that is refused while there is a marker that lives."""
        return Put(self.key, self.item(), (Claim((self._free(),), self),))

    def _free(self) -> Lapsed:
        return Lapsed(self.key.names[0], EXPIRES, self._now)

    def refused(self, guard: Guard | None, item: Item | None) -> None:
        """The request came before: by the same operation it is replayed."""
        was = (item or {}).get(REQUEST, {}).get("S")
        if was == self._text:
            raise Replayed
        raise TokenReused(
            f"this idempotency key was used before, to {was}, and comes now to {self._text}; nothing was written. One "
            f"key is for one request: give this one another"
        )


def marking_of(intents: Sequence[Intent]) -> Marking | None:
    """The marker for these intents; None outside of a request with a key, and where no child comes or goes."""
    request = idempotency.current.get()
    if request is None or len(intents) > MOST_INTENTS:
        return None
    child: Any = next((intent for intent in intents if _is_counted(intent)), None)
    if child is None or any(kind != "S" for kind, _ in child.key.values):
        return None
    if {REQUEST, EXPIRES} & set(child.key.names):
        return None
    verb = "create" if isinstance(child, Save) else "delete"
    name = hashlib.sha256(json.dumps(child.key.wire(), sort_keys=True).encode()).hexdigest()[:32]
    token = request.token(child.key)
    texts = (f"ONCE#{token}", name) if len(child.key.names) == 2 else (f"ONCE#{token}#{name}",)
    key = ItemKey(child.key.table, child.key.names, tuple(("S", text) for text in texts))
    return Marking(request, key, child.key, f"{verb} {child.about}", any(map(_reads_first, intents)))


def _reads_first(intent: Intent) -> bool:
    return isinstance(intent, Discard) and intent.reads_first


def replayed(intents: Sequence[Intent]) -> None:
    """What the intents were to do was done before: their instances follow, and no number in memory does."""
    for intent in intents:
        intent.landed(Plan(()))
        intent.before = intent.after = NOTHING


def _is_counted(intent: Intent) -> bool:
    if isinstance(intent, Save):
        return bool(intent.counting.is_child and intent.stored is None)
    return isinstance(intent, Discard) and intent.counting.is_child and not intent.closing and not intent.excluded
