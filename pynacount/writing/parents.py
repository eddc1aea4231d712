"""The write of a parent that children come to and go from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pynacount import marks
from pynacount.amounts import Amount
from pynacount.contributions import Tally, Target
from pynacount.errors import UncountedWrite
from pynacount.expressions import Absent, Action, Add, Exists, Guard, Raise, Remove
from pynacount.keys import ItemKey
from pynacount.plan import Check, Claim, Update, Write
from pynacount.protocols.spreading import deletions, not_spread, unspreading
from pynacount.shards import Layout, remember_shards, shard_key, shard_of, taken_shards
from pynacount.writing.blocks import uncounted_block


@dataclass(frozen=True, slots=True, eq=False)
class ParentClaim:
    """The claim of the counting itself on a parent item; or (``shards`` above 1) on a shard, the ``place``-th of it."""

    key: ItemKey
    moved: Mapping[Tally, Amount]
    shards: int = 1
    place: int = 0

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """The counters that are moved."""
        return tuple(self.moved)


@dataclass(slots=True)
class Known:
    """What refusals told of the parents.

    ``orphaned`` do not exist, and there is no tally to keep. ``deferred`` have no tally, and are counted later.
    ``birth_mark`` is where a mark begins that is raised for the first time. ``layouts`` are the numbers of shards that
    parents turned out to have; ``missed``: how often a shard was not where its parent said; ``spread``: the layouts of
    tallies that an ``uncounted()`` block takes away.
    """

    orphaned: set[ItemKey] = field(default_factory=set)
    deferred: set[tuple[Tally, ItemKey]] = field(default_factory=set)
    birth_mark: int = field(default_factory=lambda: marks.birth_mark())
    layouts: dict[Target, int] = field(default_factory=dict)
    missed: dict[Target, int] = field(default_factory=dict)
    spread: dict[Target, Layout] = field(default_factory=dict)

    def shards_of(self, tally: Tally, key: ItemKey) -> int:
        """In how many shards a tally is taken to be, until a refusal says otherwise."""
        return self.layouts.get((tally, key)) or taken_shards(tally, key)

    def learn(self, tally: Tally, key: ItemKey, shards: int) -> None:
        """A parent has its tally in so many shards."""
        self.layouts[tally, key] = shards
        remember_shards(tally, key, shards)


def parent_writes(
    key: ItemKey, tallies: Mapping[Tally, Amount], known: Known, child_of: Callable[[Tally], ItemKey]
) -> list[Write]:
    """What the counting does to one parent, and to shards of its tallies.

    ``child_of`` gives the key of a child that counts in a tally: the first one's shard takes what they all come to.
    """
    if key in known.orphaned:
        return [parent_write(key, tallies, known)]
    if uncounted_block.get() is not None:
        gone = [(tally, known.spread[tally, key].upto) for tally in tallies if (tally, key) in known.spread]
        return [parent_write(key, tallies, known), *(d for tally, upto in gone for d in deletions(tally, key, upto))]
    here: dict[Tally, Amount] = {}
    writes: list[Write] = []
    for tally, amount in tallies.items():
        shards = known.shards_of(tally, key)
        if shards == 1 or (tally, key) in known.deferred:
            here[tally] = amount
            continue
        place = shard_of(child_of(tally), shards)
        claims = (Claim((Exists(tally.attr_name),), ParentClaim(key, {tally: amount}, shards, place)),)
        own = shard_key(key, tally.attr_name, place)
        writes.append(Update(own, (Add(tally.attr_name, amount),), claims) if amount else Check(own, claims))
    return [parent_write(key, here, known), *writes] if here else writes


def parent_write(key: ItemKey, tallies: Mapping[Tally, Amount], known: Known) -> Write:
    """What the counting does to the parent itself."""
    claim_by = ParentClaim(key, tallies)
    if key in known.orphaned:
        return Check(key, (Claim((Absent(key.names[0]),), claim_by),))
    block = uncounted_block.get()
    if block is not None:
        refuse_zero(tallies)
        block.unseeded.add(key)
        fences: list[Action] = [Raise(tally.pending_name, known.birth_mark) for tally in tallies]
        open_: list[Guard] = []
        for tally in tallies:
            layout = known.spread.get((tally, key))
            fences += [Remove(tally.attr_name)] if layout is None else unspreading(tally, layout)
            open_ += [not_spread(tally)] if layout is None else layout.guards(tally)
        open_ += [Absent(tally.closed_name) for tally in tallies if tally.closes]
        return Update(key, tuple(fences), (Claim((Exists(key.names[0]), *open_), claim_by),))
    guards: list[Guard] = []
    adds: list[Action] = []
    for tally, amount in tallies.items():
        if (tally, key) in known.deferred:
            guards += deferred_guards(tally)
            adds.append(Raise(tally.pending_name, known.birth_mark))
            continue
        guards += parent_guards(tally)
        if amount:
            adds.append(Add(tally.attr_name, amount))
            guards += tally.bounds.guards(tally.attr_name, amount, from_zero=tally.missing == "zero")
        if tally.revision is not None:  # also where nothing is added: a count under way may have seen half of it
            adds.append(Add(tally.revision, 1))
    claims = (Claim(tuple(guards), claim_by),)
    return Update(key, tuple(adds), claims) if adds else Check(key, claims)


def refuse_zero(tallies: Iterable[Tally]) -> None:
    """A counter that starts from 0 would never count what an ``uncounted()`` block writes."""
    for tally in tallies:
        if tally.missing == "zero":
            raise UncountedWrite(
                f'{tally.label} is declared missing="zero", so a child that is written uncounted would never be '
                f'counted; declare missing="seed" for a backfill'
            )


def parent_guards(tally: Tally) -> tuple[Guard, ...]:
    """What a counted write asks of the parent: that its tally is exact, or (``missing="zero"``) that it exists."""
    if tally.missing != "zero":
        return (Exists(tally.attr_name),)
    if tally.closes:
        return (Exists(tally.hash_name), Absent(tally.closed_name))
    return (Exists(tally.hash_name),)


def deferred_guards(tally: Tally) -> tuple[Guard, ...]:
    """What an uncounted write under ``missing="defer"`` asks: that the parent is there, and still has no tally."""
    guards = (Exists(tally.hash_name), Absent(tally.attr_name), not_spread(tally))
    return (*guards, Absent(tally.closed_name)) if tally.closes else guards
