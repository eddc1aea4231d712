"""An assertion for an application's own tests."""

from __future__ import annotations

from pynacount.fields import CounterField
from pynacount.model import CountedModel
from pynacount.tallies import Audited, audit


def assert_exact(*models: type[CountedModel]) -> None:
    """Assert that every tally of these models is the count of its children, in the whole table.

    A parent that has no tally yet is all right: it is counted when it is first needed. Raises ``AssertionError`` with
    a line for each that is not; ``TypeError`` for a model in which no children are counted.
    """
    counters = [counter for model in models for counter in _counters(model)]
    found = [one for one in audit(counters, workers=1) if one.wrong]
    if found:
        raise AssertionError("\n".join(["not exact:", *map(_line, found)]))


def _counters(model: type[CountedModel]) -> list[CounterField]:
    counting = getattr(model, "_counting", None)
    counters = [] if counting is None else [c for c in counting.counters.values() if c.is_counted]
    if not counters:
        name = getattr(model, "__name__", repr(model))
        raise TypeError(f"assert_exact({name}): no children are counted in it; give the parents, such as Post")
    return counters


def _line(found: Audited) -> str:
    numbers = f"tally {found.tally}, count {found.count}"
    return f"  {found.counter} of {found.key}: {found.state}, {numbers}{f' ({found.message})' if found.message else ''}"
