"""What an inspection finds, as data, part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from pynacount.amounts import Amount
from pynacount.keys import ItemKey
from pynacount.protocols.standings import Standing
from pynacount.shards import Layout
from pynacount.steps import Item


@dataclass(frozen=True, slots=True)
class Ways:
    """What seeds the tally of a parent, what mends it, and what compares it where only a scan finds its children."""

    seed: str
    mend: str
    compare: str


@dataclass(frozen=True, slots=True)
class Parent:
    """The parent item as it is stored; ``item`` is None where there is none. ``size`` in bytes.

    ``ways``: what there is to do about its tallies, by counter.
    """

    model: str
    key: ItemKey
    variables: dict[str, Any]
    item: Item | None
    size: int
    ways: dict[str, Ways]


@dataclass(frozen=True, slots=True)
class PlainSum:
    """A plain counter that is in shards: their sum, with what is on the item itself ``beside`` them."""

    counter: str
    attr_name: str
    tally: Amount | None
    beside: Amount
    layout: Layout


@dataclass(frozen=True, slots=True)
class Family:
    """The children of one model are next; ``problem`` says why they are not."""

    model: str
    counters: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Child:
    """One child: what it counts for in each counter, and its item, as far as its index has it. ``size`` in bytes.

    ``problem``: why it cannot be read.
    """

    model: str
    key: ItemKey
    variables: dict[str, Any]
    counts: dict[str, Amount]
    item: Item
    size: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FamilyEnd:
    """So many children were shown, and whether there are more.

    ``strays``: items that were met between them whose keys only begin like a child's, and which a count takes for
    children all the same.
    """

    model: str
    shown: int
    more: bool
    strays: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """What the next child costs, in write capacity units, and how many items it writes, by which ``operation``.

    ``like``: whether it is priced by a child that is stored; else by its key alone. ``wcu`` is None where ``problem``
    says why. ``streamed``: whether it is counted by the consumer of a stream, whose writes are not in the price.
    """

    model: str
    wcu: float | None
    items: int
    like: bool
    operation: str = ""
    streamed: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """How it came out.

    ``drifted``, ``wrong`` and ``unknown`` name counters; the last are those that were not counted.
    ``children`` were shown, ``more`` says whether there are others; ``strays`` as in :class:`FamilyEnd`.
    """

    exists: bool
    drifted: tuple[str, ...]
    wrong: tuple[str, ...]
    unknown: tuple[str, ...]
    children: int
    more: bool
    strays: int

    @property
    def clean(self) -> bool:
        """Whether there is a parent, and all its tallies were found to be right."""
        return self.exists and not self.wrong and not self.unknown


Part: TypeAlias = Parent | Standing | PlainSum | Family | Child | FamilyEnd | Price | Summary
