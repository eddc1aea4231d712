"""What a pass is asked for, checked at the call: before anything is read, and not at the first result."""

from __future__ import annotations

from collections.abc import Iterable

from pynacount.errors import DeclarationError
from pynacount.fields import CounterField

MOST_SEGMENTS = 1_000_000
"""Of a parallel scan (AWS: ``Scan``, ``TotalSegments``, in its API reference)."""


def only_counted(verb: str, counters: Iterable[CounterField]) -> list[CounterField]:
    """The counters. Raises :class:`DeclarationError` for a plain one, which would be found to be, or become, 0."""
    given = counters_of(verb, counters)
    for counter in given:
        counter.refuse_plain(f"tallies.{verb}()")
    return given


def counters_of(verb: str, counters: Iterable[CounterField]) -> list[CounterField]:
    """The counters. Raises :class:`DeclarationError` for what is none, or no list of them."""
    # A CounterField can be indexed, as any attribute of PynamoDB's, so Python would go through it without end.
    listed = isinstance(counters, Iterable) and not isinstance(counters, CounterField)
    given = list(counters) if listed else []
    if not listed or not all(isinstance(counter, CounterField) for counter in given):
        raise DeclarationError(
            f"tallies.{verb}({counters!r:.60}): give a list of counters, as in tallies.{verb}([Post.like_tally])"
        )
    return given


def check_numbers(verb: str, **numbers: int | None) -> None:
    """Raise ``ValueError`` for what is no whole number of 1 or more; None is left out."""
    for name, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"tallies.{verb}({name}={value!r}) must be an int of 1 or more")


def check_rates(verb: str, **rates: float | None) -> None:
    """Raise ``ValueError`` for what is no number of capacity units above 0; None is left out."""
    for name, value in rates.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
            raise ValueError(f"tallies.{verb}({name}={value!r}) must be a number of units above 0")


def check_reading(verb: str, by: str, segments: int | None, segment: int | None) -> None:
    """Raise ``ValueError`` for a way of counting that is not known, and for a segment that the scan has not."""
    if by not in ("scan", "query"):
        raise ValueError(f'tallies.{verb}(by={by!r}) is not known; write "scan" or "query"')
    check_numbers(verb, segments=segments)
    if segments is not None and segments > MOST_SEGMENTS:
        raise ValueError(f"tallies.{verb}(segments={segments!r}): a scan has {MOST_SEGMENTS} at the most")
    if segment is None:
        return
    if segments is None:
        raise ValueError(f"tallies.{verb}(segment={segment!r}): say of how many, by segments=")
    if isinstance(segment, bool) or not isinstance(segment, int) or not 0 <= segment < segments:
        raise ValueError(f"tallies.{verb}(segment={segment!r}) must be an int from 0 to {segments - 1}")
