"""Amounts: what a child may add to a tally, as a number that DynamoDB can hold."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any, TypeAlias

from pynacount.errors import CounterTypeError

Amount: TypeAlias = int | Decimal

MAX_DIGITS = 38
"""Significant digits of a DynamoDB number (AWS: "Supported data types", Number)."""
_MAX_EXPONENT = 125
_EXACT = Context(prec=400)
"""Enough digits for the sum of any two numbers that DynamoDB holds."""
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
    significant = _significant_digits(number)
    if significant > MAX_DIGITS:
        raise CounterTypeError(
            f"{where}: the amount {_shown(number)} has {significant} significant digits; DynamoDB keeps {MAX_DIGITS}. "
            f"Round it first"
        )
    if number and not _MIN_EXPONENT <= number.adjusted() <= _MAX_EXPONENT:
        raise CounterTypeError(
            f"{where}: the amount {_shown(number)} is out of DynamoDB's range, 1E{_MIN_EXPONENT} to 9.9E{_MAX_EXPONENT}"
        )
    return _whole(number)


def plus(left: Amount, right: Amount) -> Amount:
    """The exact sum. Raises :class:`CounterTypeError` where DynamoDB could not hold it."""
    if type(left) is int and type(right) is int:
        return left + right
    return amount(_EXACT.add(Decimal(left), Decimal(right)), "the sum")


def subtotal(left: Amount, right: Amount) -> Amount:
    """The exact sum of numbers that are not all added yet: DynamoDB need not be able to hold it."""
    if type(left) is int and type(right) is int:
        return left + right
    return _whole(_EXACT.add(Decimal(left), Decimal(right)))


def unstorable(number: Amount, where: str) -> str:
    """Why DynamoDB could not hold the number; empty where it can."""
    try:
        amount(number, where)
    except CounterTypeError as error:
        return error.msg
    return ""


def difference(left: Amount, right: Amount) -> Amount:
    """The exact difference of two stored numbers, for a person to read: DynamoDB need not be able to hold it."""
    if type(left) is int and type(right) is int:
        return left - right
    return _whole(_EXACT.subtract(Decimal(left), Decimal(right)))


def times(number: Amount, many: int) -> Amount:
    """The exact product. Raises :class:`CounterTypeError` where DynamoDB could not hold it."""
    if type(number) is int:
        return number * many
    return amount(_EXACT.multiply(Decimal(number), Decimal(many)), "the sum")


def negative(number: Amount) -> Amount:
    """The amount with its sign turned; Python's own minus would round a Decimal to 28 digits."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


def stored_amount(text: str) -> Amount:
    """The number of a stored ``N``: an int where it is whole."""
    try:
        return int(text)
    except ValueError:
        return _whole(Decimal(text))


def _whole(number: Decimal) -> Amount:
    """An int, where the number is whole and can be written as one without a row of zeros."""
    return int(number) if number == number.to_integral_value() and number.adjusted() < MAX_DIGITS else number


def _significant_digits(number: Decimal) -> int:
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return len(digits)


def _shown(number: Decimal) -> str:
    text = str(number)
    return text if len(text) <= 50 else f"{text[:40]}..."
