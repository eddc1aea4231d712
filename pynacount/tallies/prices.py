"""What capacity units cost on demand."""

from __future__ import annotations

from dataclasses import dataclass

READ_PRICE = 0.125
"""US dollars for a million read request units, on demand, us-east-1, since 2024-11-01 (AWS: DynamoDB pricing)."""
WRITE_PRICE = 0.625
"""US dollars for a million write request units; same source."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million units."""

    read: float = READ_PRICE
    write: float = WRITE_PRICE

    def dollars(self, read_units: float, write_units: float) -> float:
        """What so many units cost."""
        return (read_units * self.read + write_units * self.write) / 1_000_000
