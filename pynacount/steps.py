"""The vocabulary in which a protocol speaks to its driver.

Every operation of this library that needs more than arithmetic is a *protocol*: a generator that yields
steps and is sent the answers. It neither sleeps nor sends. :mod:`pynacount.commit` drives it against
DynamoDB; the tests drive the very same generator through every interleaving of its steps.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

Item: TypeAlias = dict[str, dict[str, Any]]
"""An item as DynamoDB's JSON has it: attribute name to ``{type: value}``."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send one request. ``operation`` is DynamoDB's name for it (``TransactWriteItems``, ``GetItem``...).

    A driver that is handed the *same* ``Send`` object again, with no other transaction between, sends it under the
    same ``ClientRequestToken``: it is the same logical operation.
    """

    operation: str
    request: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass: until committed transactions are visible to queries (*settle*), or for others to finish.

    ``spends``: whether the wait counts against the operation's deadline, as waiting for others must.
    """

    seconds: float
    spends: bool = False


Step: TypeAlias = Send | Wait


CONDITION_FAILED = "ConditionalCheckFailed"
"""DynamoDB's code for a condition that did not hold (AWS: ``CancellationReason`` in the API reference)."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one write of a request was refused; ``item`` is what ``ALL_OLD`` returned (None: no item)."""

    code: str
    item: Item | None = None
    message: str = ""

    @property
    def by_guard(self) -> bool:
        """Whether a guard of the write did not hold."""
        return self.code == CONDITION_FAILED


@dataclass(frozen=True, slots=True)
class Refusal:
    """A definite *no*: nothing of the request was written.

    ``reasons`` runs parallel to the writes of the request; a write without fault has None. There are none where the
    request as a whole was found invalid. ``in_doubt``: it was refused at a later try, and the answer to an earlier one
    was lost, which may have been written: a plain write has no token that would tell.
    """

    code: str
    reasons: tuple[Reason | None, ...]
    message: str = ""
    in_doubt: bool = False

    @property
    def by_guard(self) -> bool:
        """Whether a guard of any write did not hold."""
        return any(reason is not None and reason.by_guard for reason in self.reasons)


Answer: TypeAlias = dict[str, Any] | Refusal
"""What a protocol is sent for a ``Send``: DynamoDB's response, or a refusal. For a ``Wait``: ``{}``."""

T = TypeVar("T")
Protocol: TypeAlias = Generator[Step, Answer, T]
