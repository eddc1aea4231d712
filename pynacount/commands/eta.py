"""How long it will take, for a person who waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pynacount.fields import CounterField
from pynacount.tallies.scanning import item_count


def expected_items(counters: Sequence[CounterField], part: tuple[int, int] | None) -> int | None:
    """About how many items a pass over the counters' tables reads; None where DynamoDB does not say."""
    models = {counter.owner._counting.table: counter.owner for counter in counters}
    counts = [item_count(model) for model in models.values()]
    if not all(counts):
        return None
    total = sum(filter(None, counts))
    return total if part is None else total // part[1]


def left(items: int, expected: int | None, seconds: float) -> str:
    """The time that is left at this rate, as the end of a line; empty where that cannot be told."""
    if not expected or not items or items >= expected:
        return ""
    return f", about {duration((expected - items) / items * seconds)} left"


def slowed(retries: Mapping[str, int]) -> str:
    """How often something was tried again, and after what most often, as the end of a line; empty where nothing was."""
    now = dict(retries)  # threads add to it
    if not now:
        return ""
    met = max(now, key=lambda one: now[one]).partition(":")[0]
    return f", tried again {sum(now.values()):,} times after {met}"


def duration(seconds: float) -> str:
    """A time in two digits or so."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
