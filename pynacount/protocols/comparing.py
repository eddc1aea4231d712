"""Setting a plain counter if it is what the caller takes it for.

It goes as a transaction of one item, under a token: a plain write that is sent again after a lost answer would be
refused by its own first try, and nobody could tell which of two callers set the number.
"""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.amounts import Amount
from pynacount.contributions import Tally
from pynacount.errors import PynacountError
from pynacount.expressions import ZERO, Same, Set
from pynacount.items import read_item
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.incrementing import PlainItem
from pynacount.steps import Protocol, Refusal


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Set the counter to ``new`` where it is ``expected``; None: where it is absent."""

    item: PlainItem
    tally: Tally
    expected: Amount | None
    new: Amount

    def plan(self) -> Plan:
        """The conditional write."""
        stored = None if self.expected is None else {"N": str(self.expected)}
        or_absent = self.tally.missing == "zero" and self.expected == 0
        expected = Same(self.tally.attr_name, ZERO if or_absent else stored, or_absent=or_absent)
        guards = (*self.item.guards(), expected)
        write = Update(self.item.key, (Set(self.tally.attr_name, {"N": str(self.new)}),), (Claim(guards, self),))
        return Plan((write,), needs_token=True)


def compare_and_set(comparison: Comparison) -> Protocol[bool]:
    """Send it; whether the number was what was expected, and is set."""
    about = comparison.item
    answer = yield comparison.plan().send()
    if not isinstance(answer, Refusal):
        return True
    reason = answer.reasons[0] if answer.reasons else None
    if reason is None or not reason.by_guard:
        about.number(comparison.tally, (yield from read_item(about.key)))
        said = answer.message if reason is None else reason.message
        raise PynacountError(f"{about.about}: DynamoDB refused to write {about.key}: {said}")
    if reason.item is None and about.missing is not None:
        raise about.missing
    about.number(comparison.tally, reason.item)
    return False
