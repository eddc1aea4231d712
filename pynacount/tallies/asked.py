"""What a pass is asked for, checked at the call: before anything is read, and not at the first result."""

from __future__ import annotations

from collections.abc import Iterable

from pynacount.fields import CounterField


def only_counted(verb: str, counters: Iterable[CounterField]) -> list[CounterField]:
    """The counters. Raises :class:`DeclarationError` for a plain one, which would be found to be, or become, 0."""
    given = list(counters)
    for counter in given:
        counter.refuse_plain(f"tallies.{verb}()")
    return given
