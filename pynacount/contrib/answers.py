"""What a view answers where counting raises an error: a status, and words that are fit for a user's eyes.

An error's own message names tables and keys. It is for the log.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any

from pynacount.errors import (
    AlreadyCounted,
    CheckFailed,
    CounterBoundError,
    CounterContention,
    CounterNotSeeded,
    IdempotencyKeyError,
    KeyTemplateError,
    KeyTypeError,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    ParentNotEmpty,
    PynacountError,
    TokenReused,
)
from pynacount.idempotency import MOST_CHARACTERS

RETRY_AFTER = 2
"""Seconds after which a client is asked to try again, where nothing else is set."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: ``status``; ``name`` for programs, ``text`` for people; ``again``: whether to try once more.

    ``ours``: whether it is for whoever runs the application to see to, and not a matter of course.
    """

    status: int
    name: str
    text: str
    again: bool = False
    ours: bool = False

    @property
    def level(self) -> int:
        """At which level it is logged: what a user did is no news; what did not come through is."""
        return logging.ERROR if self.ours else logging.WARNING if self.again else logging.INFO

    def problem(self) -> dict[str, Any]:
        """As JSON has it, by RFC 9457 (``application/problem+json``)."""
        return {"type": "about:blank", "title": self.text, "status": self.status, "code": self.name}

    def headers(self, retry_after: float) -> dict[str, str]:
        """The headers that it asks for: ``Retry-After`` in whole seconds."""
        return {"Retry-After": str(max(1, math.ceil(retry_after)))} if self.again else {}


_ANSWERS: dict[type[PynacountError], Answer] = {
    AlreadyCounted: Answer(409, "already-counted", "That is there already."),
    NotCounted: Answer(404, "not-counted", "That is not there."),
    ParentMissing: Answer(404, "parent-missing", "That does not exist, or is being deleted."),
    ParentNotEmpty: Answer(409, "not-empty", "That is not empty, so it is not deleted."),
    CounterBoundError: Answer(409, "bound", "There is no room, or nothing left."),
    CheckFailed: Answer(409, "changed", "That has changed meanwhile. Look at it again."),
    KeyTemplateError: Answer(400, "bad-id", "That cannot be a name here."),
    IdempotencyKeyError: Answer(
        400, "bad-idempotency-key", f"An idempotency key has 1 to {MOST_CHARACTERS} printable ASCII characters."
    ),
    TokenReused: Answer(422, "key-reused", "This idempotency key was used for another request."),
    CounterContention: Answer(503, "busy", "Too much is going on here. Try again in a moment.", again=True),
    OutcomeUnknown: Answer(
        503, "unknown", "It is not known whether that was done. Try again: it is counted once.", again=True
    ),
    CounterNotSeeded: Answer(503, "not-seeded", "This is not counted yet. Try again later.", again=True, ours=True),
}

ANSWERED: tuple[type[PynacountError], ...] = tuple(_ANSWERS)
"""The errors that have an answer. The others are mistakes in the program or in the data, and are not answered; so is
:class:`KeyTypeError`, though it is one of these by its base."""


def answer_to(error: PynacountError) -> Answer | None:
    """The answer to an error; None for one that is a mistake in the program or in the data."""
    if isinstance(error, KeyTypeError):
        return None
    return next((_ANSWERS[kind] for kind in type(error).__mro__ if kind in _ANSWERS), None)
