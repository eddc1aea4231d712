"""A count for people, in few characters."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

from pynacount.amounts import Amount

_UNITS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


def short_count(count: Amount | None) -> str:
    """``999``, ``1.2K``, ``12K``, ``3.4M``: two or three digits, rounded down, so that it never tells too much.

    A tally that is not seeded (None) is shown as a dash. Fractions below a thousand are cut after the first place.
    """
    if count is None:
        return "–"  # noqa: RUF001 -- a dash, as long as a digit is wide
    if isinstance(count, bool) or not isinstance(count, (int, float, Decimal)):
        raise TypeError(f"short_count({count!r}): give a tally, an int or a Decimal, not {type(count).__name__}")
    sign, size = "-" if count < 0 else "", abs(Decimal(count))
    for unit, letter in _UNITS:
        if size >= unit:
            return sign + _cut(size / unit) + letter
    return sign + _cut(size)


def _cut(number: Decimal) -> str:
    """One place behind the point below ten, none above."""
    if number >= 10:
        return f"{number.to_integral_value(ROUND_DOWN):,}"
    return f"{number.quantize(Decimal('0.1'), ROUND_DOWN).normalize():f}"
