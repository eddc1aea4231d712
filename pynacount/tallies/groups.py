"""Counting while a table is scanned: one running group for each segment, whatever the size of the table.

A parallel scan never splits an item collection: the items of one partition key come together, in the order of their
sort keys, within one segment. So the children of a parent and the parent itself are one run of items. Pure: it is fed
items as DynamoDB's JSON has them, and says which parents are to be seeded with which number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.amounts import Amount, stored_amount, subtotal, unstorable
from pynacount.contributions import Tally
from pynacount.errors import PynacountError
from pynacount.keys import ItemKey
from pynacount.steps import Item


@dataclass(frozen=True, slots=True)
class Local:
    """A counter whose children lie in their parent's partition: how its items are told.

    ``key`` gives the parent's key for a partition key, None for a partition of something else. ``prefix`` begins the
    sort keys of the children; ``each`` is what every one of them counts for, or None where ``amount`` reads it from the
    item, which gives None for what is no child.
    """

    tally: Tally
    key: Callable[[str], ItemKey | None]
    parent_sort: str | None
    sources: tuple[LocalSource, ...]


@dataclass(frozen=True, slots=True)
class LocalSource:
    """The children of one model among the items of a partition."""

    prefix: str
    each: Amount | None
    amount: Callable[[Mapping[str, Any], ItemKey], Amount | None]


@dataclass(frozen=True, slots=True)
class Found:
    """A parent as the scan met it, and what its children count for (None: they could not all be read).

    ``item`` is None where children were met and no parent.
    """

    tally: Tally
    key: ItemKey
    item: Item | None
    counted: Amount | None
    trouble: str = ""


class Groups:
    """The running group of one segment. ``orphans``: whether children without a parent are told of."""

    def __init__(self, names: tuple[str, ...], locals_: Sequence[Local], *, orphans: bool = False) -> None:
        self._hash, self._range = names[0], names[1] if len(names) > 1 else None
        self._locals = locals_
        self._orphans = orphans
        self._current: str | None = None
        self._open: list[_Open] = []

    def take(self, items: Iterable[Item]) -> Iterator[Found]:
        """Count a page of items; gives the parents whose partition came to its end."""
        hash_name, range_name = self._hash, self._range
        for item in items:
            partition = item[hash_name].get("S")
            if partition != self._current:
                yield from self.finish()
                self._start(partition)
            sort = item[range_name].get("S", "") if range_name is not None else ""
            for one in self._open:
                one.take(sort, item)

    def finish(self) -> Iterator[Found]:
        """The parents of the running group, which is complete."""
        for one in self._open:
            if one.parent is not None or (self._orphans and one.met):
                trouble = one.trouble or unstorable(one.total, f"{one.local.tally.label} of the parent {one.key}")
                yield Found(one.local.tally, one.key, one.parent, None if trouble else one.total, trouble)
        self._current, self._open = None, []

    def _start(self, partition: str | None) -> None:
        self._current = partition
        self._open = []
        if partition is None:
            return
        for local in self._locals:
            key = local.key(partition)
            if key is not None:
                self._open.append(_Open(local, key))

    def saved(self) -> str:
        """The running group as text, from which :meth:`restore` goes on."""
        state = [(one.parent, str(one.total), one.met, one.trouble) for one in self._open]
        return json.dumps({"partition": self._current, "open": state})

    def restore(self, text: str) -> None:
        """Go on with a group that was saved."""
        state = json.loads(text)
        self._start(state["partition"])
        for one, (parent, total, met, trouble) in zip(self._open, state["open"], strict=True):
            one.parent, one.met, one.trouble = parent, met, trouble
            one.total = stored_amount(total)


class _Open:
    """One counter of the running group. ``met``: whether any child was."""

    __slots__ = ("constant", "key", "local", "met", "parent", "read", "total", "trouble")

    def __init__(self, local: Local, key: ItemKey) -> None:
        self.local = local
        self.key = key
        self.parent: Item | None = None
        self.total: Amount = 0
        self.met = False
        self.trouble = ""
        self.constant = [(s.prefix, s.each) for s in local.sources if s.each is not None]
        self.read = [s for s in local.sources if s.each is None]

    def take(self, sort: str, item: Item) -> None:
        if sort == self.local.parent_sort or self.local.parent_sort is None:
            self.parent = item
        for prefix, each in self.constant:
            if sort.startswith(prefix):
                self.total = self.total + 1 if each == 1 and type(self.total) is int else subtotal(self.total, each)
                self.met = True
        for source in self.read:
            if sort.startswith(source.prefix):
                self._read(source, item)

    def _read(self, source: LocalSource, item: Item) -> None:
        try:
            found = source.amount(item, self.key)
        except PynacountError as error:
            self.met = True
            self.trouble = self.trouble or error.msg
            return
        if found is not None:
            self.met = True
            self.total = subtotal(self.total, found)
