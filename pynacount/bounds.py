"""Bounds of a counter: what a write asks of the number that is there, so that it does not take it past one."""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.amounts import Amount, negative, plus
from pynacount.errors import CounterBoundError
from pynacount.expressions import Bound, Guard
from pynacount.keys import ItemKey


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most that a counter may be; None where there is no such bound."""

    minimum: Amount | None = None
    maximum: Amount | None = None

    @property
    def limits(self) -> bool:
        """Whether there is a bound at all."""
        return self.minimum is not None or self.maximum is not None

    def guards(self, name: str, by: Amount, *, from_zero: bool) -> tuple[Guard, ...]:
        """What moving the attribute ``name`` by ``by`` asks of it; ``from_zero``: an absent one counts as 0.

        Only the bound that the move goes towards is asked for: a number that is past its bound already can still be
        moved back.
        """
        if by > 0 and self.maximum is not None:
            return (Bound(name, "<=", plus(self.maximum, negative(by)), from_zero and by <= self.maximum),)
        if by < 0 and self.minimum is not None:
            return (Bound(name, ">=", plus(self.minimum, negative(by)), from_zero and by >= self.minimum),)
        return ()

    def allow(self, value: Amount, by: Amount) -> bool:
        """Whether the counter may be moved from ``value`` by ``by``."""
        if by > 0:
            return self.maximum is None or plus(value, by) <= self.maximum
        return by == 0 or self.minimum is None or plus(value, by) >= self.minimum

    def refuse(self, label: str, key: ItemKey, value: Amount | None, by: Amount) -> CounterBoundError:
        """The error for a move that would have taken the counter from ``value`` past a bound."""
        which, limit = ("maximum", self.maximum) if by > 0 else ("minimum", self.minimum)
        first = "Free some" if by > 0 else "Add some"
        return CounterBoundError(
            f"{label} of the item {key} is {0 if value is None else value}, and moving it by {by} would take it past "
            f"its {which}, {limit}; nothing was written. {first} first, or declare another "
            f"CounterField({which}=...)",
            value=0 if value is None else value,
            bound=which,
            limit=limit,
        )


NO_BOUNDS = Bounds()
