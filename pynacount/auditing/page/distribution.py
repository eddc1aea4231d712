"""How far tallies are off, in bins: by sign, and by powers of ten."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal

from pynacount.amounts import Amount

STARTS = (2, 10, 100, 1000)
"""Where each bin but the first begins. The first holds 1, and what Decimals there are below 2."""
WHOLE = ("1", "2 to 9", "10 to 99", "100 to 999", "1,000 or more")
BROKEN = ("under 2", "2 to under 10", "10 to under 100", "100 to under 1,000", "1,000 or more")


class Distribution:
    """Counts of drifts, by bin."""

    def __init__(self) -> None:
        self.none = 0
        """How many have no drift."""
        self.low = [0] * len(WHOLE)
        """How many tallies are below their count, by how much."""
        self.high = [0] * len(WHOLE)
        """How many tallies are above their count, by how much."""
        self._whole = True

    def take(self, drift: Amount) -> None:
        """Count one."""
        if not drift:
            self.none += 1
            return
        if isinstance(drift, Decimal):
            self._whole = self._whole and drift == drift.to_integral_value()
        side = self.low if drift < 0 else self.high
        # copy_abs: abs() would round a Decimal to 28 digits.
        side[bisect_right(STARTS, drift.copy_abs() if isinstance(drift, Decimal) else abs(drift))] += 1

    @property
    def labels(self) -> tuple[str, ...]:
        """What each bin holds, in words that are true of the drifts that came."""
        return WHOLE if self._whole else BROKEN
