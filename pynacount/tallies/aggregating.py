"""Sums over a whole table, parent by parent, in SQLite: memory stays as it is, whatever the number of parents.

A page's sums and the position behind the page are kept in one transaction. So a run that is killed at any moment and
goes on counts no page twice, and none is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pynacount.amounts import Amount, stored_amount, subtotal, unstorable
from pynacount.contributions import Tally
from pynacount.keys import ItemKey
from pynacount.shards import mark_names
from pynacount.steps import Item
from pynacount.tallies.groups import Found
from pynacount.tallies.progress import Position, State
from pynacount.tallies.telling import ChildReader, PageSums

CACHE_KIB = 16_000
"""Of SQLite's page cache; what does not fit is on disk."""
BATCH = 100
"""Parents in memory at a time."""

Stage: TypeAlias = Literal["recording", "counting"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A parent as it was met: ``item`` is its tally and its marks, those that it bears; None where there is no parent.

    ``marked``: whether it bears ``<tally>Pending``.
    """

    counter: str
    key: ItemKey
    item: Item | None
    marked: bool = False

    @classmethod
    def of(cls, tally: Tally, key: ItemKey, item: Item | None) -> Recorded:
        """What of an item must be kept for one tally."""
        if item is None:
            return cls(tally.target, key, None)
        kept = {name: item[name] for name in mark_names(tally) if name in item}
        return cls(tally.target, key, kept, tally.pending_name in kept)


@dataclass(frozen=True, slots=True)
class Sum:
    """What the children of one parent come to; ``trouble`` says why that is not known.

    ``item`` is as the parent was recorded; None where it never was.
    """

    counter: str
    key: ItemKey
    item: Item | None
    total: Amount
    trouble: str

    def why_unknown(self, label: str) -> str:
        """Why no tally can hold it; empty where one can."""
        return self.trouble or unstorable(self.total, f"{label} of the parent {self.key}")


class Sums:
    """The sums of one pass, in the pass's own state. ``only_recorded``: those of other parents are not kept."""

    def __init__(self, state: State, *, only_recorded: bool = True) -> None:
        self._state = state
        self._only_recorded = only_recorded
        with state.transaction() as base:
            base.create_function("subtotal", 2, _subtotal, deterministic=True)
            base.execute(
                "CREATE TABLE IF NOT EXISTS sums (counter TEXT, parent TEXT, item TEXT, marked INTEGER, "
                "total TEXT, trouble TEXT, PRIMARY KEY (counter, parent)) WITHOUT ROWID"
            )
            base.execute(
                "CREATE TABLE IF NOT EXISTS strays (counter TEXT, child TEXT, trouble TEXT, "
                "PRIMARY KEY (counter, child)) WITHOUT ROWID"
            )
            base.execute("CREATE TABLE IF NOT EXISTS stage (name TEXT)")
        with state.reading() as base:
            base.execute(f"PRAGMA cache_size = -{CACHE_KIB}")

    @property
    def stage(self) -> Stage:
        """Whether parents are being recorded, or the children of all that were are being counted, and set."""
        with self._state.reading() as base:
            return "counting" if base.execute("SELECT 1 FROM stage").fetchone() else "recording"

    def begin_counting(self) -> None:
        """From now on no parent is recorded, also if this run is interrupted, until all is set."""
        with self._state.transaction() as base:
            base.execute("INSERT INTO stage VALUES ('counting')")

    def forget(self, segments: int) -> None:
        """All is set: begin again. The positions of the scans of children are forgotten, from ``segments`` on."""
        with self._state.transaction() as base:
            for table in ("stage", "sums", "strays"):
                base.execute(f"DELETE FROM {table}")
            base.execute("DELETE FROM segments WHERE segment >= ?", (segments,))

    def record(self, parents: Iterable[Recorded]) -> None:
        """Keep these parents. One that was met before is as it is now."""
        rows = [(p.counter, _text(p.key), _item_text(p.item), p.marked) for p in parents]
        if rows:
            with self._state.transaction() as base:
                base.executemany(
                    "INSERT INTO sums VALUES (?, ?, ?, ?, '0', '') ON CONFLICT (counter, parent) "
                    "DO UPDATE SET item = excluded.item, marked = excluded.marked",
                    rows,
                )

    def add(self, page: PageSums, segment: int, position: Position) -> None:
        """A page was counted, and the segment goes on behind it: both or neither."""
        sums = [(str(total), counter, _text(key)) for (counter, key), total in page.sums.items()]
        troubles = [(why, counter, _text(key)) for (counter, key), why in page.troubles.items()]
        with self._state.transaction() as base:
            if not self._only_recorded:
                base.executemany(
                    "INSERT OR IGNORE INTO sums VALUES (?, ?, NULL, 0, '0', '')",
                    [(counter, parent) for _, counter, parent in (*sums, *troubles)],
                )
            base.executemany(
                "UPDATE sums SET total = subtotal(total, ?) WHERE counter = ? AND parent = ?",
                sums,
            )
            base.executemany(
                "UPDATE sums SET trouble = ? WHERE counter = ? AND parent = ? AND trouble = ''",
                troubles,
            )
            base.executemany(
                "INSERT OR IGNORE INTO strays VALUES (?, ?, ?)",
                [(counter, _text(key), why) for (counter, key), why in page.strays.items()],
            )
            self._state.save(segment, position)

    def many(self) -> dict[str, int]:
        """How many parents there are of each counter that has any."""
        with self._state.reading() as base:
            return dict(base.execute("SELECT counter, count(*) FROM sums GROUP BY counter").fetchall())

    def marked(self) -> frozenset[str]:
        """The counters of which a parent bears a mark."""
        with self._state.reading() as base:
            return frozenset(row[0] for row in base.execute("SELECT DISTINCT counter FROM sums WHERE marked"))

    def first(self, many: int, after: Sum | None = None) -> list[Sum]:
        """The first parents in the order of their keys, or the next behind ``after``."""
        since = ("", "") if after is None else (after.counter, _text(after.key))
        with self._state.reading() as base:
            rows = base.execute(
                "SELECT counter, parent, item, total, trouble FROM sums "
                "WHERE (counter, parent) > (?, ?) ORDER BY counter, parent LIMIT ?",
                (*since, many),
            ).fetchall()
        return [_sum(*row) for row in rows]

    def batches(self) -> Iterator[list[Sum]]:
        """All parents in the order of their keys, some at a time; those that were given may be dropped meanwhile."""
        some = self.first(BATCH)
        while some:
            yield some
            some = self.first(BATCH, some[-1])

    def drop(self, done: Iterable[Sum]) -> None:
        """These parents are done with."""
        with self._state.transaction() as base:
            base.executemany(
                "DELETE FROM sums WHERE counter = ? AND parent = ?", [(one.counter, _text(one.key)) for one in done]
            )

    def drop_all(self, counter: str) -> None:
        """All parents of one counter are done with."""
        with self._state.transaction() as base:
            base.execute("DELETE FROM sums WHERE counter = ?", (counter,))

    def strays(self) -> Iterator[tuple[str, ItemKey, str]]:
        """The children that do not tell their parent: their counter, their key, and why."""
        since = ("", "")
        while True:
            with self._state.reading() as base:
                row = base.execute(
                    "SELECT counter, child, trouble FROM strays WHERE (counter, child) > (?, ?) "
                    "ORDER BY counter, child LIMIT 1",
                    since,
                ).fetchone()
            if row is None:
                return
            since = (row[0], row[1])
            yield row[0], _key(row[1]), row[2]


class SummedScan:
    """The positions of one scan whose pages are summed, among those of a pass: from ``first`` on."""

    def __init__(self, sums: Sums, state: State, first: int) -> None:
        self._sums, self._state, self._first = sums, state, first
        self._pages: dict[int, PageSums] = {}

    def position(self, segment: int) -> Position:
        """Where the segment goes on."""
        return self._state.position(self._first + segment)

    def save(self, segment: int, position: Position) -> None:
        """Keep the sums of the page that was read last, and the position behind it."""
        self._sums.add(self._pages.pop(segment), self._first + segment, position)

    def read(self, segment: int, page: PageSums) -> None:
        """A page was read. Until it is saved, it may be read again."""
        self._pages[segment] = page


class SummedPages:
    """What is made of one segment's pages of children: their sums."""

    def __init__(self, scan: SummedScan, segment: int, readers: Sequence[ChildReader]) -> None:
        self._scan, self._segment, self._readers = scan, segment, readers

    def take(self, items: Sequence[Item]) -> Iterator[Found]:
        """Sum the page up. No parent is found here."""
        page = PageSums()
        for item in items:
            for reader in self._readers:
                reader.take(item, page)
        self._scan.read(self._segment, page)
        return iter(())

    def finish(self) -> Iterator[Found]:
        """There is nothing more to come."""
        return iter(())

    def saved(self) -> str:
        """What was read so far is in the sums."""
        return ""

    def restore(self, text: str) -> None:
        """There is nothing to restore."""


def _sum(counter: str, parent: str, item: str | None, total: str, trouble: str) -> Sum:
    return Sum(counter, _key(parent), None if item is None else json.loads(item), stored_amount(total), trouble)


def _item_text(item: Item | None) -> str | None:
    return None if item is None else json.dumps(item, default=str)  # bytes are no number, whatever they are


def _text(key: ItemKey) -> str:
    return json.dumps([key.table, key.names, key.values], ensure_ascii=False)


def _key(text: str) -> ItemKey:
    table, names, values = json.loads(text)
    return ItemKey(table, tuple(names), tuple((kind, value) for kind, value in values))


def _subtotal(left: str, right: str) -> str:
    return str(subtotal(stored_amount(left), stored_amount(right)))
