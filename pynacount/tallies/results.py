"""What a pass over a table says of one parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pynacount.amounts import Amount, difference
from pynacount.keys import ItemKey

AuditState: TypeAlias = Literal[
    "ok", "drifted", "unseeded", "repairing", "closed", "orphaned", "moving", "unreadable", "unknown"
]


@dataclass(frozen=True, slots=True)
class Audited:
    """One parent's tally beside its count.

    ``state``: ``ok``; ``drifted``: they differ, and did so again at another look; ``unseeded``: there is no tally;
    ``repairing``: a repair took it away and was not finished; ``closed``: a cascade began to delete the parent and was
    not finished; ``orphaned``: there are children and no parent; ``moving``: children came and went at every look, so
    it could not be told; ``unreadable``: the tally is stored as something else than a number; ``unknown``: a child
    cannot be counted. ``message`` says what else there is to say.

    ``tally`` is what is stored (in ``repairing``, what was), ``count`` what the children come to; None where there is
    none. ``wrong``: whether somebody must see to it; only ``ok`` and ``unseeded`` are not, and orphans that
    ``on_delete="leave"`` left.
    """

    counter: str
    key: ItemKey
    state: AuditState
    tally: Amount | None
    count: Amount | None
    message: str = ""
    wrong: bool = False

    @property
    def drift(self) -> Amount | None:
        """Tally minus count; None where one of them is not known."""
        if self.tally is None or self.count is None:
            return None
        return difference(self.tally, self.count)
