"""The state of an ``uncounted()`` block, which the writes within it look up."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from pynacount.keys import ItemKey


@dataclass(slots=True)
class Uncounted:
    """An ``uncounted()`` block: the keys of the parents that children were written for."""

    unseeded: set[ItemKey] = field(default_factory=set)
    missing: set[ItemKey] = field(default_factory=set)


uncounted_block: ContextVar[Uncounted | None] = ContextVar("pynacount_uncounted", default=None)
