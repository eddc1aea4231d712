"""Moving plain counters, in which no children are counted: one write of one item.

Sent plain, a move is counted at least once: a try whose answer was lost is sent again, and may be counted again. What
is counted once for good goes with a marker; see :mod:`pynacount.protocols.marking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pynamodb.expressions.update import Action as PynamodbAction

from pynacount.amounts import Amount, stored_amount
from pynacount.contributions import Tally
from pynacount.errors import CounterTypeError, OutcomeUnknown, PynacountError
from pynacount.expressions import Action, Add, Exists, GivenAction, Guard, Increase
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.reading import read_attributes
from pynacount.steps import Item, Protocol, Reason, Refusal

Style: TypeAlias = Literal["add", "set"]


@dataclass(frozen=True, slots=True, eq=False)
class PlainItem:
    """An item with plain counters; ``about`` opens an error message.

    ``missing`` is the error where there is no such item; None where a write makes one, with the number alone.
    """

    about: str
    key: ItemKey
    missing: PynacountError | None = None

    def guards(self) -> tuple[Guard, ...]:
        """What a write asks of the item, whatever it writes."""
        return () if self.missing is None else (Exists(self.key.names[0]),)

    def number(self, tally: Tally, item: Item | None) -> Amount | None:
        """A counter of the item; None where it is absent. Raises :class:`CounterTypeError` for what is no number."""
        value = (item or {}).get(tally.attr_name)
        if value is None:
            return None
        if "N" not in value:
            raise CounterTypeError(
                f"{tally.label}: the item {self.key} of table {self.key.table} stores {tally.attr_name} as {value!r}, "
                f"which is no number; remove the attribute, or store a number in it"
            )
        return stored_amount(value["N"])


@dataclass(frozen=True, slots=True, eq=False)
class Increment:
    """By how much each counter of one item is moved, the caller's own first; and what is set beside."""

    item: PlainItem
    moves: Mapping[Tally, Amount]
    style: Style = "add"
    settings: Mapping[str, PynamodbAction] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it writes."""
        return (*(tally.attr_name for tally in self.moves), *self.settings)

    def write(self) -> Update:
        """The write of the item."""
        actions: list[Action] = [GivenAction(action) for action in self.settings.values()]
        kind = Add if self.style == "add" else Increase
        actions += [kind(tally.attr_name, by) for tally, by in self.moves.items()]
        guards = (*self.item.guards(), *(guard for tally in self.moves for guard in self.bounds(tally)))
        return Update(self.item.key, tuple(actions), (Claim(guards, self),) if guards else ())

    def bounds(self, tally: Tally) -> tuple[Guard, ...]:
        """What the move asks of one of the counters; an absent one counts as 0."""
        return tally.bounds.guards(tally.attr_name, self.moves[tally], from_zero=True)

    def plan(self) -> Plan:
        """The plain write, which gives back the numbers as they are then."""
        return Plan((self.write(),), returns="UPDATED_NEW")


def increment(move: Increment) -> Protocol[Item]:
    """Send the plain write; give what it wrote, as it is then.

    A refusal that may be its own first try's doing (the move landed, its answer was lost, and the second met the bound)
    is no answer: :class:`OutcomeUnknown`.
    """
    answer = yield move.plan().send()
    if isinstance(answer, Refusal):
        if answer.in_doubt:
            raise OutcomeUnknown(
                f"{move.item.about}: the answer to a write of {move.item.key} was lost, and the write was refused when "
                f"it was sent again; it may have been counted once, or not. Read the number before you call again, or "
                f"give once=... to be told"
            )
        reason = answer.reasons[0] if answer.reasons else None
        raise (yield from refused(move, reason, answer.message))
    found: Item = answer.get("Attributes", {})
    return found


def refused(move: Increment, reason: Reason | None, message: str) -> Protocol[PynacountError]:
    """The error that says why the item was not written."""
    about = move.item
    if reason is not None and reason.by_guard:
        if reason.item is None and about.missing is not None:
            return about.missing
        for tally, by in move.moves.items():
            if not all(guard.holds(reason.item) for guard in move.bounds(tally)):  # type: ignore[union-attr]
                value = about.number(tally, reason.item)
                return tally.bounds.refuse(tally.label, about.key, value, by)
    item = yield from read_item(about.key)  # the request itself was refused; what is stored is the known cause
    for tally in move.moves:
        about.number(tally, item)
    said = message if reason is None else reason.message or message
    return PynacountError(f"{about.about}: DynamoDB refused to write {about.key}: {said}")


def read_moved(move: Increment) -> Protocol[Item]:
    """What the increment wrote, as it is now, by a consistent read: a transaction gives nothing back."""
    return (yield from read_attributes(move.item.key, move.names, consistent_read=True)) or {}
