"""What callers were told, and whether it can be true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One call on one child: when it began and ended, whether it was to add or discard, and the answer."""

    began: float
    ended: float
    adds: bool
    answer: bool


def is_linearizable(events: Iterable[Event], there: bool, there_at_last: bool) -> bool:
    """Whether the answers fit some order of the calls in which each takes effect between its begin and its end.

    ``True`` changes whether the child is there, ``False`` says that it was so already (Herlihy and Wing, 1990; the
    search is that of Wing and Gong, 1993).
    """
    calls = sorted(events, key=lambda event: event.began)
    seen: set[tuple[frozenset[int], bool]] = set()
    stack: list[tuple[frozenset[int], bool]] = [(frozenset(range(len(calls))), there)]
    while stack:
        todo, now = stack.pop()
        if not todo:
            if now == there_at_last:
                return True
            continue
        if (todo, now) in seen:
            continue
        seen.add((todo, now))
        first_end = min(calls[index].ended for index in todo)
        for index in todo:
            call = calls[index]
            if call.began > first_end:
                continue  # another call had ended before this one began
            if call.answer != (now != call.adds):
                continue
            stack.append((todo - {index}, call.adds))
    return False
