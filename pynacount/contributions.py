"""What a child counts for. Saving, editing and deleting a child is one subtraction: after minus before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pynacount.amounts import Amount, negative, plus
from pynacount.bounds import NO_BOUNDS, Bounds
from pynacount.keys import ItemKey

MARKS = ("Closed", "Pending", "Was", "Shards", "Retiring", "HadShards", "Upto", "Moved", "Fence")
"""What is appended to a tally's attribute name for marks of the library's own on the parent."""

Missing: TypeAlias = Literal["seed", "zero", "defer"]
OnDelete: TypeAlias = Literal["restrict", "cascade", "leave"]
By: TypeAlias = Literal["transaction", "stream"]
"""What keeps a counter: the transaction that writes the child, or a consumer of the child table's stream."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """A counter's declaration, compiled: the number ``attr_name`` on the items of one model.

    ``label`` is how messages speak of it (``Post.like_tally``), ``settle`` is in seconds;
    ``closes``: whether its parents can be closed, by a cascade of this counter or of another one on the same item.
    ``shards``: over how many items the number of a new parent is spread (1: it is on the parent itself); ``layouts``:
    the parents that were met with another number of shards, and when (``time.monotonic()``), as a hint.
    """

    label: str
    attr_name: str
    hash_name: str
    missing: Missing
    on_delete: OnDelete
    lazy_seed_limit: int
    settle: float
    revision: str | None
    closes: bool
    target: str
    sources: Callable[[], tuple[Source, ...]]
    bounds: Bounds = NO_BOUNDS
    shards: int = 1
    layouts: dict[ItemKey, tuple[int, float]] = field(default_factory=dict)

    @property
    def is_streamed(self) -> bool:
        """Whether it is kept from a stream, so that no seed and no repair of one parent takes it."""
        return any(source.streamed for source in self.sources())

    @property
    def closed_name(self) -> str:
        """The attribute that marks a parent whose cascade has begun: no child may come or go."""
        return f"{self.attr_name}Closed"

    @property
    def pending_name(self) -> str:
        """The attribute that counts the uncounted writes to this parent's children, and the fences. It only grows."""
        return f"{self.attr_name}Pending"

    @property
    def was_name(self) -> str:
        """The attribute that keeps the old number for readers while it is being repaired; likewise a shard's part."""
        return f"{self.attr_name}Was"

    @property
    def shards_name(self) -> str:
        """The attribute that says in how many shards the number is; absent where it is on the parent, or nowhere."""
        return f"{self.attr_name}Shards"

    @property
    def retiring_name(self) -> str:
        """The attribute that says how many shards there were, while their number is being lowered."""
        return f"{self.attr_name}Retiring"

    @property
    def had_shards_name(self) -> str:
        """The attribute that keeps the number of shards while the tally is being repaired."""
        return f"{self.attr_name}HadShards"

    @property
    def upto_name(self) -> str:
        """The attribute of a counter kept from a stream that says up to which record it is counted (the watermark)."""
        return f"{self.attr_name}Upto"

    @property
    def moved_name(self) -> str:
        """The attribute that sums up the records of a counter kept from a stream while it has no tally yet."""
        return f"{self.attr_name}Moved"

    @property
    def fence_name(self) -> str:
        """The attribute that says from which seeder's fence on ``moved_name`` sums up."""
        return f"{self.attr_name}Fence"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the children of one parent are found, and what each of them counts for.

    ``each`` is the constant amount of every child, or None where a child's attributes decide it; then ``amount``
    reads it from the raw item, and gives None for an item that is no child. ``find`` gives the arguments of the
    query for a parent's key, or None where only a scan of the child's table can find them. ``streamed``: whether they
    are counted from a stream.
    """

    label: str
    table: str
    each: Amount | None
    amount: Callable[[Mapping[str, Any], ItemKey], Amount | None]
    find: Callable[[ItemKey], dict[str, Any] | None]
    reads: tuple[str, ...]
    eventually_consistent: bool = False
    streamed: bool = False


Target: TypeAlias = tuple[Tally, ItemKey]
Contribution: TypeAlias = dict[Target, Amount]

NOTHING: Contribution = {}


def difference(before: Contribution, after: Contribution) -> Contribution:
    """What has to be added to each tally when a child goes from one state to another; zeros left out."""
    if not before:
        return after
    moved = dict(after)
    for target, amount in before.items():
        moved[target] = plus(moved.get(target, 0), negative(amount))
    return {target: amount for target, amount in moved.items() if amount}


def by_parent(moves: Iterable[Contribution]) -> dict[ItemKey, dict[Tally, Amount]]:
    """Several differences summed up, parent item by parent item.

    A sum of zero stays in: one child came and one went, so the parent's guard is still needed.
    """
    parents: dict[ItemKey, dict[Tally, Amount]] = {}
    for move in moves:
        for (tally, key), amount in move.items():
            tallies = parents.setdefault(key, {})
            tallies[tally] = plus(tallies.get(tally, 0), amount)
    return parents
