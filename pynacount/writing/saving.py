"""Saving: a new item, or what changed of a loaded one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pynamodb.constants import NUMBER
from pynamodb.expressions.condition import Condition

from pynacount import marks
from pynacount.contributions import NOTHING, Tally
from pynacount.errors import AlreadyCounted, KeyTemplateError, NotCounted, ParentMissing
from pynacount.expressions import ZERO, Action, Given, Guard, Remove, Same, Set, same_value
from pynacount.plan import Check, Claim, Plan, Put, Update, Write
from pynacount.protocols.spreading import births
from pynacount.steps import Item
from pynacount.writing.blocks import uncounted_block
from pynacount.writing.intents import ModelIntent, NeedsSeed


class Save(ModelIntent):
    """Save an instance: create a new item, or write what changed since it was loaded."""

    def __init__(self, instance: Any, condition: Condition | None = None, add_version_condition: bool = True) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.stored: Item | None = instance._stored_item
        self.over = False
        self.met: Item = {}
        self.birth_mark = marks.birth_mark()
        if self.stored is None:
            self.counting.check_instance(instance)
            self.needs_token = self.counting.is_child or self.ends_its_own_guard
            # Both now: what the application does to the instance until the commit must not set them apart.
            self.after = self.counting.contribution(instance)
            self.item = self._item()
        else:
            self.needs_token = self.ends_its_own_guard
            self.changes = self._changes(self.stored)
            self._count_change()

    def write(self) -> Write | None:
        """A guarded Put for a new item; else an Update of what changed."""
        if self.stored is not None:
            return self._update(self.changes, self.reads)
        if self.over:
            dropped = {name: None for name in self.counting.plain_names if name not in self.item}
            kept = {name: value for name, value in self.item.items() if name in self.counting.plain_names}
            return self._update({**dropped, **kept}, ())
        item = dict(self.item) if self.counting.counters else self.item
        for tally in self.counting.tallies:
            if self.counting.is_streamed(tally):
                continue  # born without: what its consumer has not read yet may speak of an earlier item of that key
            if not _is_born_counted(tally):
                item[tally.pending_name] = {"N": str(self.birth_mark)}
            elif self._is_spread(tally):
                item[tally.shards_name] = {"N": str(tally.shards)}
            else:
                item[tally.attr_name] = ZERO
                if tally.revision is not None:
                    item[tally.revision] = ZERO  # children that are born in the same transaction raise it
        return Put(self.key, item, (Claim((self.counting.absent, *self.given), self),))

    def _is_spread(self, tally: Tally) -> bool:
        return tally.shards > 1 and self.counting.has_children(tally)

    def siblings(self) -> Sequence[Write]:
        """The shards of a new parent's tallies."""
        if self.stored is not None or self.over:
            return ()
        return [
            shard
            for tally in self.counting.tallies
            if self._is_spread(tally) and _is_born_counted(tally)
            for shard in births(tally, self.key, 0, tally.shards)
        ]

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """Tell the answers apart."""
        if isinstance(guard, Given) or (guard is not None and guard in self.version_guard):
            raise self.failed(guard)
        if self.stored is None:
            if self.counting.is_child:
                raise AlreadyCounted(
                    f"{self.about} is there already and was counted when it was created; nothing was written. To edit "
                    f"it, get() it, change it and save() it"
                )
            self.over = not self.over  # an item came, or went
            self.met = item or {}
        elif item is None:
            if self.counting.is_child:
                raise NotCounted(
                    f"{self.about} was deleted since it was loaded, and an edit does not bring it back. To "
                    f"create it anew, save() a new {type(self.instance).__name__}"
                )
            raise ParentMissing(
                f"{self.about} was deleted since it was loaded, and an edit does not bring it back. To "
                f"create it anew, save() a new {type(self.instance).__name__}"
            )
        else:
            self.stored = item  # what its contribution reads has moved: count from how it is now
            self._count_change()
        return None

    def landed(self, plan: Plan) -> None:
        """The instance follows what was written."""
        if self.stored is None:
            item = self.item
            if self.counting.counters:
                self._show_tallies(plan)
        else:
            if not self.changes:
                return
            item = {name: value for name, value in {**self.stored, **self.changes}.items() if value is not None}
            if self.version is not None:
                item[self.version.attr_name] = self.next_version()
        self.instance._stored_item = item
        if self.version is not None:
            self.instance.update_local_version_attribute()

    def _show_tallies(self, plan: Plan) -> None:
        """A new parent was born with them; one that was there kept them."""
        born = next((write.item for write in plan.writes if isinstance(write, Put) and write.key == self.key), None)
        shown = born or self.met
        for counter in self.counting.counters.values():
            value = None if f"{counter.attr_name}Shards" in shown else shown.get(counter.attr_name)
            if value is not None and NUMBER in value:
                counter.__set__(self.instance, counter.deserialize(value[NUMBER]))

    def _item(self) -> Item:
        item: Item = self.instance.serialize(null_check=True)
        for tally in self.counting.tallies:
            item.pop(tally.attr_name, None)
        if self.version is not None:
            item[self.version.attr_name] = self.next_version()
        return item

    def _update(self, changes: Mapping[str, Any], reads: tuple[Guard, ...]) -> Write | None:
        actions: list[Action] = []
        for name, value in changes.items():
            actions.append(Remove(name) if value is None else Set(name, value))
        guards = (self.counting.exists_guard, *reads, *self.version_guard, *self.given)
        if not actions:
            return Check(self.key, (Claim(guards, self),)) if self.given else None
        if self.version is not None and self.version.attr_name not in changes:
            actions.append(Set(self.version.attr_name, self.next_version()))
        return Update(self.key, tuple(actions), (Claim(guards, self),))

    def _changes(self, stored: Item) -> dict[str, Any]:
        loaded = type(self.instance).from_raw_data(stored).serialize(null_check=False)
        now: Item = self.instance.serialize(null_check=False)
        if any(name in stored and name not in now for name in self.counting.required_names):
            self.instance.serialize(null_check=True)  # PynamoDB's own error; what was not read is not missed
        for name in self.schema.names:
            if not same_value(loaded.get(name), now.get(name)):
                raise KeyTemplateError(
                    f"{type(self.instance).__name__}: the key of a loaded item cannot change (from "
                    f"{loaded.get(name)} to {now.get(name)}); save a new one and delete the old one"
                )
        changed = self.counting.plain_names
        version = self.version.attr_name if self.version is not None else None
        return {
            name: now.get(name)
            for name in changed
            if name != version and not same_value(loaded.get(name), now.get(name))
        }

    def _count_change(self) -> None:
        assert self.stored is not None
        self.reads: tuple[Guard, ...] = ()
        self.before = self.after = NOTHING
        if not self.counting.read_attributes & self.changes.keys():
            return  # nothing that it counts by changes, whatever else did meanwhile
        model = type(self.instance)
        now = {name: value for name, value in {**self.stored, **self.changes}.items() if value is not None}
        self.before = self.counting.contribution(model.from_raw_data(self.stored))
        self.after = self.counting.contribution(model.from_raw_data(now))
        self.reads = tuple(Same(name, self.stored.get(name)) for name in sorted(self.counting.read_attributes))


def _is_born_counted(tally: Tally) -> bool:
    """Whether a new parent has no children yet, and gets none uncounted; else it is counted when first needed."""
    return uncounted_block.get() is None and tally.on_delete != "leave" and tally.missing != "defer"
