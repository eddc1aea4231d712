"""How many tallies are in which state."""

from __future__ import annotations

from collections import Counter

from pynacount.tallies.results import Audited, AuditState


def needs_attention(found: Audited) -> bool:
    """Whether somebody must see to it."""
    return found.wrong or found.state == "drifted"


class Census:
    """Counts by state."""

    def __init__(self) -> None:
        self.states: Counter[AuditState] = Counter()
        self.wrong: Counter[AuditState] = Counter()
        """Of those, the ones that somebody must see to."""

    def take(self, found: Audited) -> None:
        """Count one."""
        self.states[found.state] += 1
        if needs_attention(found):
            self.wrong[found.state] += 1
