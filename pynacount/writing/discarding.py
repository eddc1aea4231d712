"""Deleting one item, and taking it out of the tallies that it counts in."""

from __future__ import annotations

from typing import Any

from pynamodb.exceptions import DeleteError
from pynamodb.expressions.condition import Condition

from pynacount.contributions import NOTHING
from pynacount.errors import CounterNotSeeded, CounterTypeError, NotCounted, ParentNotEmpty
from pynacount.expressions import ZERO, Exists, Given, Guard, Same
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Delete, Plan, Write
from pynacount.protocols.seeding import refuse_closed, wrong_type
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
        self._count(instance if self.stored is None else type(instance).from_raw_data(self.stored))

    @property
    def reads_first(self) -> bool:
        """Whether the item must be read before it is known what it counts for."""
        return self.stored is None and bool(self.counting.read_attributes)

    def read(self) -> Protocol[None]:
        """Read the item, where what it counts for varies and it was not loaded."""
        if self.reads_first:
            self.found((yield from read_item(self.key)))

    def write(self) -> Write | None:
        """A guarded Delete; None for a parent that is not there."""
        if self.gone:
            return None
        self.reads: tuple[Guard, ...] = ()
        if self.stored is not None:
            self.reads = tuple(Same(name, self.stored.get(name)) for name in sorted(self.counting.read_attributes))
        own: tuple[Guard, ...] = (self.counting.exists_guard,) if self.counting.is_child else ()
        guards = (*own, *self._emptiness(), *self.reads, *self.version_guard, *self.given)
        return Delete(self.key, (Claim(guards, self),))

    def _emptiness(self) -> tuple[Guard, ...]:
        if self.closing:
            return tuple(Exists(tally.closed_name) for tally in self.counting.tallies if tally.on_delete == "cascade")
        return tuple(
            Same(tally.attr_name, ZERO, or_absent=tally.missing == "zero")
            for tally in self.counting.tallies
            if tally.on_delete == "restrict" and self.counting.has_children(tally)
        )

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """Tell the answers apart."""
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
                raise ParentNotEmpty(
                    f"{self.about} is not deleted: {tally.label} is {next(iter(item[tally.attr_name].values()))}. "
                    f'Delete its children first, or declare CounterField(on_delete="cascade") or "leave"'
                )
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
