"""The rows that a page keeps of millions: the worst, and the first of the others."""

from __future__ import annotations

import heapq
from decimal import Decimal

from pynacount.amounts import Amount
from pynacount.auditing.page.census import needs_attention
from pynacount.tallies.results import Audited


class Kept:
    """At most ``most`` drifted rows, the worst, and at most ``most`` others that need attention, the first."""

    def __init__(self, most: int) -> None:
        self._most = most
        # The mildest is on top. Of two that are equally far off the earlier stays, so its place is negative.
        self._worst: list[tuple[Amount, int, Audited]] = []
        self._others: list[Audited] = []
        self._place = 0

    def take(self, found: Audited) -> None:
        """Keep it, if it belongs to those that are kept."""
        if not needs_attention(found):
            return
        drift = found.drift
        if found.state != "drifted" or drift is None:
            if len(self._others) < self._most:
                self._others.append(found)
            return
        self._place -= 1
        # copy_abs: abs() would round a Decimal to 28 digits.
        entry = (drift.copy_abs() if isinstance(drift, Decimal) else abs(drift), self._place, found)
        if len(self._worst) < self._most:
            heapq.heappush(self._worst, entry)
        elif self._worst:
            heapq.heappushpop(self._worst, entry)

    def worst(self) -> list[Audited]:
        """The drifted ones, the worst first."""
        return [found for _, _, found in sorted(self._worst, reverse=True)]

    def others(self) -> list[Audited]:
        """The ones in other states, as they came."""
        return list(self._others)
