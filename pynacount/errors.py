"""What can go wrong, one class for each answer a caller may want to tell apart.

Every message names the model, the key and what to do. All derive from PynamoDB's own
``PynamoDBException``, so code that already catches PynamoDB's errors catches these.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pynamodb.exceptions import PynamoDBException


class PynacountError(PynamoDBException):
    """Base of all errors of this library."""

    msg = "counting failed"


class AlreadyCounted(PynacountError):
    """A new child was saved, but an item with its key is there already; nothing was written."""


class NotCounted(PynacountError):
    """A child was deleted or edited, but there is no item with its key; nothing was written."""


class ParentMissing(PynacountError):
    """The parent does not exist, or is being deleted; nothing was written, no parent was created."""


class ParentNotEmpty(PynacountError):
    """``Post.delete()`` under ``on_delete="restrict"`` while children are still counted in it."""


class CounterNotSeeded(PynacountError):
    """The parent's tally was never seeded and is too costly to count on a writer's way."""


class CounterBoundError(PynacountError):
    """The write would move a counter past its ``minimum`` or ``maximum``; nothing was written.

    ``value`` is what the counter was when the write was refused (0 where it was absent; None where it was not looked
    at, as the value to be set is itself past a bound), ``bound`` is ``"minimum"`` or ``"maximum"``, and ``limit`` what
    that is.
    """

    def __init__(
        self,
        msg: str | None = None,
        cause: Exception | None = None,
        *,
        value: int | Decimal | None = None,
        bound: str = "",
        limit: int | Decimal | None = None,
    ) -> None:
        super().__init__(msg, cause)
        self.value: Any = value  # an int, but for fractional amounts
        self.bound = bound
        self.limit: Any = limit


class CounterContention(PynacountError):
    """The deadline passed in conflicts, throttles or refused connections; nothing was written."""


class OutcomeUnknown(PynacountError):
    """A write was sent, its answer was lost, and the deadline passed before it could be learnt.

    Adding, discarding, saving or deleting the same item again is safe: it is counted once. So is an ``increment()``
    with the same ``once=``. An ``update()`` that adds would add twice, and so would an ``increment()`` without.
    """


class CheckFailed(PynacountError):
    """The condition that ``tx.check()`` put on a transaction did not hold; nothing was written."""


class TokenReused(PynacountError, ValueError):
    """A ``once=`` token came before with another amount, or for another counter; nothing was written."""


class UncountedWrite(PynacountError):
    """A write that would change a tally, or what is counted in it, behind the counting's back."""


class KeyTemplateError(PynacountError, ValueError):
    """An id that cannot become a key, a key that does not follow its template, or a bad template."""


class KeyTypeError(KeyTemplateError, TypeError):
    """Ids that do not fit the key by their names or types: one is missing, is unknown, or is an int for a str.

    A mistake in the program; a bad id in a text that came from a user is a :class:`KeyTemplateError` alone.
    """


class IdempotencyKeyError(KeyTemplateError):
    """An idempotency key that cannot be one: empty, over 255 characters, or not of printable ASCII."""


class CounterTypeError(PynacountError, TypeError):
    """An amount that is no number DynamoDB can hold, or a tally stored as something else than a number."""


class DeclarationError(PynacountError, TypeError):
    """A model is declared in a way that cannot be counted; the message says what to write instead."""


class StreamRecordError(PynacountError, ValueError):
    """A record of a stream that cannot be counted: unreadable, of another table, or without the image it takes.

    ``sequence`` is its sequence number, empty where it has none. What comes before it in its batch was counted.
    """

    def __init__(self, msg: str | None = None, sequence: str = "", cause: Exception | None = None) -> None:
        super().__init__(msg, cause)
        self.sequence = sequence


class StateError(PynacountError, ValueError):
    """A state file that belongs to another pass over a table, or is none; a saved audit that cannot be read."""


class PlanError(PynacountError, ValueError):
    """Writes that one DynamoDB transaction cannot take: over 100 items, or two that cannot be merged."""


class TargetError(PynacountError):
    """A command was told to work on what is not there: a module, a model, a counter, or the key of an item.

    A repair was given a row of a counter that it was not told of.
    """
