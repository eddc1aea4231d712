"""Amounts: what a child may add to a tally, as a number that DynamoDB can hold."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, TypeAlias

from pynacount.errors import CounterTypeError

Amount: TypeAlias = int | Decimal

MAX_DIGITS = 38
"""Significant digits of a DynamoDB number (AWS: "Supported data types", Number)."""
_MAX_EXPONENT = 125
_MIN_EXPONENT = -130


def amount(value: Any, where: str) -> Amount:
    """``value`` as an exact amount: an int where it is whole, else a Decimal.

    A float is taken by its shortest decimal form (0.1 is 0.1). Raises :class:`CounterTypeError` for what is
    no number (a bool is not), for NaN and infinities, and past DynamoDB's 38 digits and exponents.
    """
    if type(value) is int and -1_000_000_000 < value < 1_000_000_000:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise CounterTypeError(
            f"{where}: the amount {value!r} is a {type(value).__name__}; it must be an int, a float or a Decimal"
        )
    if isinstance(value, float):
        if not math.isfinite(value):
            raise CounterTypeError(f"{where}: the amount {value!r} is no number that can be stored; DynamoDB has none")
        value = Decimal(repr(value))
    number = Decimal(value)
    if not number.is_finite():
        raise CounterTypeError(f"{where}: the amount {value!r} is no number that can be stored; DynamoDB has none")
    digits = number.as_tuple().digits
    significant = len(str(int("".join(map(str, digits)))).rstrip("0"))
    if significant > MAX_DIGITS:
        raise CounterTypeError(
            f"{where}: the amount {value!r} has {significant} significant digits; DynamoDB keeps {MAX_DIGITS}. "
            f"Round it first"
        )
    if number and not _MIN_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
        raise CounterTypeError(
            f"{where}: the amount {value!r} is out of DynamoDB's range, 1E{_MIN_EXPONENT} to 9.9E{_MAX_EXPONENT}"
        )
    return int(number) if number == number.to_integral_value() and number.adjusted() < MAX_DIGITS else number


def stored_amount(text: str) -> Amount:
    """The number of a stored ``N``: an int where it is whole."""
    try:
        return int(text)
    except ValueError:
        number = Decimal(text)
        return int(number) if number == number.to_integral_value() else number
