"""Deleting one item, and taking it out of the tallies that it counts in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pynamodb.exceptions import DeleteError
from pynamodb.expressions.condition import Condition

from pynacount.contributions import NOTHING, Tally
from pynacount.errors import CounterNotSeeded, CounterTypeError, NotCounted, ParentNotEmpty
from pynacount.expressions import ZERO, Exists, Given, Guard, Same
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Delete, Plan, Write
from pynacount.protocols.seeding import refuse_closed, wrong_type
from pynacount.protocols.spreading import not_spread, read_spread
from pynacount.shards import Layout, ParentInShards, layout_of, shard_key, taken_shards
from pynacount.steps import Item, Protocol
from pynacount.writing.intents import ModelIntent, NeedsSeed


class Gone(Exception):
    """A parent that was to be deleted is not there any more."""


class Discard(ModelIntent):
    """Delete an instance's item, and take it out of the tallies that it counts in."""

    operation = DeleteError
    operation_name = "DeleteItem"

    def __init__(
        self,
        instance: Any,
        condition: Condition | None = None,
        add_version_condition: bool = True,
        closing: bool = False,
        excluded: frozenset[tuple[str, ItemKey]] = frozenset(),
        of: tuple[Any, ItemKey] | None = None,
    ) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.stored: Item | None = instance._stored_item
        self.needs_token = self.counting.is_child or self.ends_its_own_guard
        self.closing = closing
        self.excluded = excluded
        self.gone = False
        self.of = of
        self.spreads: dict[Tally, ParentInShards] = {}
        self.looks = any(max(tally.shards, taken_shards(tally, self.key)) > 1 for tally in self.counting.tallies)
        self.shard_guards: list[Guard] = []
        self._count(instance if self.stored is None else type(instance).from_raw_data(self.stored))

    @property
    def reads_first(self) -> bool:
        """Whether the item must be read before it is known what it counts for."""
        return self.stored is None and bool(self.counting.read_attributes)

    def read(self) -> Protocol[None]:
        """Read the item, where what it counts for varies and it was not loaded."""
        if self.reads_first:
            self.found((yield from read_item(self.key)))
        yield from self.look()

    def look(self) -> Protocol[None]:
        """Read which of its tallies are in shards, where that is not known: the shards go with the item."""
        if not self.looks:
            return
        self.looks = False
        self.spreads = {}
        for tally in self.counting.tallies:
            found = yield from read_spread(tally, self.key)
            if found is not None and found.layout is not None and found.layout.shards > 1:
                self.spreads[tally] = found

    def supposed(self) -> int:
        """For a plan: take the tallies to be in as many shards as is known, empty; how many :meth:`look` would read."""
        if not self.looks:
            return 0
        for tally in self.counting.tallies:
            shards = self._supposed_shards(tally)
            if shards > 1:
                empty = {place: {tally.attr_name: ZERO} for place in range(shards)}
                self.spreads[tally] = ParentInShards(Layout(shards, shards), {}, empty)
        return len(self.counting.tallies)

    def _supposed_shards(self, tally: Tally) -> int:
        layout = layout_of(tally, self.stored or {})
        return taken_shards(tally, self.key) if layout is None else layout.shards

    def write(self) -> Write | None:
        """A guarded Delete; None for a parent that is not there."""
        if self.gone:
            return None
        self.shard_guards = []
        self.reads: tuple[Guard, ...] = ()
        if self.stored is not None:
            self.reads = tuple(Same(name, self.stored.get(name)) for name in sorted(self.counting.read_attributes))
        own: tuple[Guard, ...] = (self.counting.exists_guard,) if self.counting.is_child else ()
        guards = (*own, *self._emptiness(), *self.reads, *self.version_guard, *self.given)
        return Delete(self.key, (Claim(guards, self),))

    def _emptiness(self) -> tuple[Guard, ...]:
        if self.closing:
            closed = [Exists(tally.closed_name) for tally in self.counting.tallies if tally.on_delete == "cascade"]
            return (*closed, *self._same_layouts())
        return (*self.empty(self.restricts), *self._same_layouts())

    @property
    def restricts(self) -> tuple[Tally, ...]:
        """The tallies that must be 0."""
        kept = (tally for tally in self.counting.tallies if tally.on_delete == "restrict")
        return tuple(tally for tally in kept if self.counting.has_children(tally))

    def empty(self, tallies: Iterable[Tally]) -> tuple[Guard, ...]:
        """What says on the item that these are 0. Raises :class:`ParentNotEmpty` where the shards say otherwise."""
        for tally in tallies:
            if tally in self.spreads and (total := self.spreads[tally].total(tally)):
                raise self._not_empty(tally, total)
        return tuple(
            Same(tally.attr_name, ZERO, or_absent=tally.missing == "zero")
            for tally in tallies
            if tally not in self.spreads
        )

    def _same_layouts(self) -> tuple[Guard, ...]:
        """What says on the item that its tallies are in the shards that were read."""
        guards: list[Guard] = []
        for tally, spread in self.spreads.items():
            assert spread.layout is not None
            guards += spread.layout.guards(tally)
        guards += [
            not_spread(tally)
            for tally in self.counting.tallies
            if tally not in self.spreads and self._may_be_spread(tally)
        ]
        self.shard_guards += guards
        return tuple(guards)

    def _may_be_spread(self, tally: Tally) -> bool:
        """Whether others may bring it into shards, and nothing else on the item would tell."""
        if self.counting.is_streamed(tally):
            return tally.shards > 1
        return tally.on_delete == "leave" and self.counting.has_children(tally)

    def siblings(self) -> tuple[Write, ...]:
        """Its shards go; those of a tally that must be 0, as they were read."""
        return () if self.gone else self.shard_writes(self.spreads, self.restricts)

    def shard_writes(self, tallies: Iterable[Tally], unmoved: Iterable[Tally]) -> tuple[Write, ...]:
        """The shards of these tallies go; those of the ``unmoved`` ones only as they were read."""
        writes: list[Write] = []
        for tally in tallies:
            spread = self.spreads[tally]
            assert spread.layout is not None
            for place in range(spread.layout.upto):
                names = (tally.attr_name, tally.was_name) if tally in unmoved else ()
                guards = tuple(Same(name, spread.shards.get(place, {}).get(name)) for name in names)
                self.shard_guards += guards
                claims = (Claim(guards, self),) if guards else ()
                writes.append(Delete(shard_key(self.key, tally.attr_name, place), claims))
        return tuple(writes)

    def needs_look(self, guard: Guard | None, item: Item | None) -> bool:
        """Whether a refusal says that the tallies are not, or not any more, in the shards that were read."""
        if any(guard is one for one in self.shard_guards):
            self.looks = True
        elif isinstance(guard, Same) and item is not None:
            self.looks = any(guard.name == t.attr_name and t.shards_name in item for t in self.counting.tallies)
        return self.looks

    def _not_empty(self, tally: Tally, total: object) -> ParentNotEmpty:
        return ParentNotEmpty(
            f"{self.about} is not deleted: {tally.label} is {total}. Delete its children first, or declare "
            f'CounterField(on_delete="cascade") or "leave"'
        )

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """Tell the answers apart."""
        if self.needs_look(guard, item):
            return None
        if item is None and self.counting.is_child:
            raise NotCounted(f"{self.about} is not there, so there was nothing to delete and nothing to count")
        if isinstance(guard, Given) or (guard is not None and guard in self.version_guard):
            raise self.failed(guard)
        if item is None:
            if self.closing:
                raise Gone
            self.gone = True  # it is deleted already, as PynamoDB's own delete has it
            self.before = NOTHING
            return None
        for tally in self.counting.tallies:
            if isinstance(guard, Same) and guard.name == tally.attr_name:
                refuse_closed(tally, self.key, item)
                if tally.attr_name in item and "N" not in item[tally.attr_name]:
                    raise CounterTypeError(wrong_type(tally, self.key, item[tally.attr_name]))
                if tally.attr_name not in item and tally.missing == "defer":
                    raise CounterNotSeeded(
                        f"{self.about} is not deleted: {tally.label} is not counted yet, and missing='defer' does not "
                        f"count on the way. Call {tally.label}.seed(ref) once no old code writes any more"
                    )
                if tally.attr_name not in item:
                    return NeedsSeed(tally, self.key)
                raise self._not_empty(tally, next(iter(item[tally.attr_name].values())))
        if isinstance(guard, Exists):
            raise Gone  # another cascade finished it, and it was created anew
        self.found(item)
        return None

    def landed(self, plan: Plan) -> None:
        """The instance is new again: saving it creates it."""
        self.instance._stored_item = None

    def found(self, item: Item | None) -> None:
        """Count from how the item is now. Raises :class:`NotCounted` where it is gone, or is another parent's."""
        if item is None:
            raise NotCounted(f"{self.about} is not there, so there was nothing to delete and nothing to count")
        if self.of is not None and self.of[0].child(item, self.of[1]) is None:
            raise NotCounted(f"{self.about} is no child of {self.of[1]}; nothing was written")
        self.stored = item
        self._count(type(self.instance).from_raw_data(item))

    def _count(self, child: Any) -> None:
        contribution = self.counting.contribution(child)
        self.before = {
            (tally, key): amount
            for (tally, key), amount in contribution.items()
            if (tally.attr_name, key) not in self.excluded
        }
