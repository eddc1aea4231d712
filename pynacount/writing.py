"""Counted writes: what one save or delete intends, and the protocol that performs several of them at once.

An *intent* is one item that the application saves, edits or deletes. It knows its own write and what it does to
the tallies; it reads the refusal of its own guards. :func:`perform` merges the intents and their parents' updates
into one plan, and does what a refusal asks for: seed a parent, read an item again, or give up with the truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.attributes import VersionAttribute
from pynamodb.exceptions import DeleteError, PutError, PynamoDBException, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action as PynamodbAction

from pynacount.commit import CONDITION_FAILED
from pynacount.contributions import NOTHING, Contribution, Tally, by_parent, difference
from pynacount.errors import (
    AlreadyCounted,
    CounterTypeError,
    KeyTemplateError,
    NotCounted,
    ParentMissing,
    ParentNotEmpty,
    PynacountError,
    UncountedWrite,
)
from pynacount.expressions import (
    ZERO,
    Absent,
    Action,
    Add,
    Exists,
    Given,
    GivenAction,
    Guard,
    Remove,
    Same,
    Set,
    same_value,
)
from pynacount.keys import ItemKey
from pynacount.plan import Check, Claim, Delete, Plan, Put, Update, Write, build
from pynacount.steps import Item, Protocol, Refusal, Send
from pynacount.tallies.seeding import missing, refuse_closed, seed, wrong_type

ONE = {"N": "1"}


def birth_mark() -> int:
    """Where the uncounted writes of a parent that is born unseeded begin to be counted.

    Never the same for two parents that have one key, one after the other: a seeder that slept over the change
    must not take the second for the first.
    """
    return time.time_ns()


@dataclass(slots=True)
class Uncounted:
    """An ``uncounted()`` block: the keys of the parents that children were written for."""

    unseeded: set[ItemKey] = field(default_factory=set)
    missing: set[ItemKey] = field(default_factory=set)


uncounted_block: ContextVar[Uncounted | None] = ContextVar("pynacount_uncounted", default=None)


@dataclass(frozen=True, slots=True, eq=False)
class ParentClaim:
    """The claim of the counting itself on a parent item."""

    key: ItemKey
    tallies: tuple[Tally, ...]


@dataclass(frozen=True, slots=True)
class NeedsSeed:
    """An intent's answer to a refusal: seed this tally, then send the same plan again."""

    tally: Tally
    key: ItemKey


class Intent:
    """One item's write.

    ``before`` and ``after`` are what the item counts for, then and now; ``needs_token`` as in :class:`Plan`.
    """

    before: Contribution = NOTHING
    after: Contribution = NOTHING
    needs_token = False

    def read(self) -> Protocol[None]:
        """What must be read before the write can be planned."""
        return
        yield  # a protocol of no steps

    def write(self) -> Write | None:
        """The item's own write; None where nothing of it changes."""
        raise NotImplementedError

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """One of this intent's guards did not hold: raise the answer, or change the intent to be planned anew."""
        raise NotImplementedError

    def landed(self) -> None:
        """The write was committed."""

    @property
    def moved(self) -> Contribution:
        """What the write did to the tallies."""
        return difference(self.before, self.after)


def perform(intents: Sequence[Intent], extra: Mapping[str, Any] | None = None) -> Protocol[dict[str, Any]]:
    """Commit the intents in one transaction, or in a plain write where it is one item alone.

    Answers only once the truth is known: the response of the write that landed, or the error that says why none
    did. ``extra`` are further arguments of a plain write.
    """
    for intent in intents:
        yield from intent.read()
    orphaned: set[ItemKey] = set()
    while True:
        plan = plan_of(intents, orphaned)
        if not plan.writes:
            return {}
        send = plan.send()
        if extra and send.operation != "TransactWriteItems":
            send = Send(send.operation, {**send.request, **extra})
        while True:
            answer = yield send
            if not isinstance(answer, Refusal) or _landed_before(plan, answer):
                for intent in intents:
                    intent.landed()
                return {} if isinstance(answer, Refusal) else answer
            needs = yield from _read_refusal(plan, answer, orphaned, intents)
            if needs is None:
                break  # planned anew
            yield from seed(needs.tally, needs.key, needs.tally.lazy_seed_limit)


def plan_of(intents: Sequence[Intent], orphaned: Iterable[ItemKey] = (), reads: tuple[int, ...] = ()) -> Plan:
    """The plan of these intents: their own writes, then their parents', merged where they meet."""
    writes: list[Write] = []
    moves: list[Contribution] = []
    for intent in intents:
        own = intent.write()
        if own is not None:
            writes.append(own)
        moves.append(intent.moved)
    for key, tallies in by_parent(moves).items():
        writes.append(_parent_write(key, tallies, key in orphaned))
    return build(writes, reads, any(intent.needs_token for intent in intents))


def _parent_write(key: ItemKey, tallies: Mapping[Tally, Any], orphaned: bool) -> Write:
    claim_by = ParentClaim(key, tuple(tallies))
    if orphaned:
        return Check(key, (Claim((Absent(key.names[0]),), claim_by),))
    block = uncounted_block.get()
    if block is not None:
        block.unseeded.add(key)
        fences: list[Action] = [Remove(tally.attr_name) for tally in tallies]
        fences += [Add(tally.pending_name, 1) for tally in tallies]
        return Update(key, tuple(fences), (Claim((Exists(key.names[0]),), claim_by),))
    guards: list[Guard] = []
    adds: list[Action] = []
    for tally, amount in tallies.items():
        guards += parent_guards(tally)
        if amount:
            adds.append(Add(tally.attr_name, amount))
    claims = (Claim(tuple(guards), claim_by),)
    return Update(key, tuple(adds), claims) if adds else Check(key, claims)


def parent_guards(tally: Tally) -> tuple[Guard, ...]:
    """What a counted write asks of the parent: that its tally is exact, or (``missing="zero"``) that it exists."""
    if tally.missing == "seed":
        return (Exists(tally.attr_name),)
    if tally.on_delete == "cascade":
        return (Exists(tally.hash_name), Absent(tally.closed_name))
    return (Exists(tally.hash_name),)


def _landed_before(plan: Plan, refusal: Refusal) -> bool:
    """Whether a plain write was refused because of its own first try, whose answer was lost.

    A transaction has its token for that. Here the item tells: it is what this write makes of it.
    """
    if not refusal.after_unknown or plan.operation == "TransactWriteItems" or refusal.reasons[0] is None:
        return False
    write, item = plan.writes[0], refusal.reasons[0].item
    match write:
        case Put(item=wanted):
            return (
                item is not None
                and item.keys() == wanted.keys()
                and all(same_value(item[name], wanted[name]) for name in wanted)
            )
        case Update(actions=actions):
            return (
                item is not None
                and any(isinstance(a, Set) for a in actions)
                and all(
                    same_value(item.get(a.name), a.value)
                    if isinstance(a, Set)
                    else isinstance(a, Remove) and a.name not in item
                    for a in actions
                )
            )
        case Delete():
            return item is None
    return False


@dataclass(frozen=True, slots=True)
class _Failure:
    claim: Claim
    guard: Guard | None
    item: Item | None


def _failures(plan: Plan, refusal: Refusal) -> list[_Failure]:
    """The guards that did not hold, told by the items that came back with the refusal."""
    failures = []
    for write, reason in zip(plan.writes, refusal.reasons, strict=True):
        if reason is None or reason.code != CONDITION_FAILED:
            continue
        broken = [
            _Failure(claim, guard, reason.item)
            for claim in write.claims
            for guard in claim.guards
            if not isinstance(guard, Given) and not guard.holds(reason.item)
        ]
        if not broken:  # all of ours hold, so it was the application's own condition
            broken = [
                _Failure(claim, guard, reason.item)
                for claim in write.claims
                for guard in claim.guards
                if isinstance(guard, Given)
            ][:1]
        failures += broken
    return failures


def _read_refusal(
    plan: Plan, refusal: Refusal, orphaned: set[ItemKey], intents: Sequence[Intent]
) -> Protocol[NeedsSeed | None]:
    """What a definite refusal means: raises the answer, names a tally to seed, or asks for a new plan (None)."""
    failures = _failures(plan, refusal)
    if not failures:
        yield from _refuse_invalid(plan, refusal)
        return None
    arriving = {key for intent in intents for _, key in intent.after}
    parents = [f for f in failures if isinstance(f.claim.by, ParentClaim)]
    replan = False
    for failure in parents:
        key = failure.claim.by.key
        if failure.item is not None and key in orphaned:
            orphaned.discard(key)  # the parent is back
            replan = True
        elif failure.item is None:
            replan = _parent_is_missing(failure, key in arriving, orphaned) or replan
    for failure in failures:
        if isinstance(failure.claim.by, ParentClaim):
            continue
        needs = failure.claim.by.refused(failure.guard, failure.item)
        if needs is not None:
            return needs  # type: ignore[no-any-return]
        replan = True
    if replan:
        return None
    for failure in parents:
        for tally in failure.claim.by.tallies:
            refuse_closed(tally, failure.claim.by.key, failure.item or {})
            if tally.missing == "seed" and tally.attr_name not in (failure.item or {}):
                return NeedsSeed(tally, failure.claim.by.key)
    return None


def _parent_is_missing(failure: _Failure, arriving: bool, orphaned: set[ItemKey]) -> bool:
    """A child cannot come to a parent that is not there; it can leave one, and there is no tally to keep."""
    by = failure.claim.by
    block = uncounted_block.get()
    if block is not None:
        block.unseeded.discard(by.key)
        block.missing.add(by.key)
    elif arriving:
        raise ParentMissing(missing(by.tallies[0].label, by.key))
    orphaned.add(by.key)
    return True


def _refuse_invalid(plan: Plan, refusal: Refusal) -> Protocol[None]:
    """No guard failed, so the request itself was refused. A tally of the wrong type is the known cause: look."""
    for write in plan.writes:
        for claim in write.claims:
            if not isinstance(claim.by, ParentClaim):
                continue
            request = {"TableName": write.key.table, "Key": write.key.wire(), "ConsistentRead": True}
            answer = yield Send("GetItem", request)
            item: Item = (not isinstance(answer, Refusal) and answer.get("Item")) or {}
            for tally in claim.by.tallies:
                value = item.get(tally.attr_name)
                if value is not None and "N" not in value:
                    raise CounterTypeError(wrong_type(tally, write.key, value))
    said = [f"{reason.code}: {reason.message}" for reason in refusal.reasons if reason is not None]
    if any(reason is not None and reason.code == CONDITION_FAILED for reason in refusal.reasons):
        return  # the item moved on between the refusal and its answer: ask again
    raise PynacountError(f"DynamoDB refused to write {plan.writes[0].key}: {'; '.join(said) or refusal.message}")


class ModelIntent(Intent):
    """What saving, editing and deleting a model's instance have in common."""

    operation: type[PynamoDBException] = PutError

    def __init__(self, instance: Any, condition: Condition | None, add_version_condition: bool) -> None:
        self.instance = instance
        self.counting = instance._counting
        self.schema = self.counting.schema
        self.key: ItemKey = self.counting.key_of(instance)
        self.given: tuple[Guard, ...] = () if condition is None else (Given(condition),)
        version = self.counting.version
        self.version: VersionAttribute | None = version
        self.version_guard: tuple[Guard, ...] = ()
        if version is not None and add_version_condition:
            value = instance.attribute_values.get(self.counting.version_name)
            self.version_guard = (Same(version.attr_name, None if value is None else {"N": str(value)}),)

    @property
    def about(self) -> str:
        """How messages speak of the item."""
        return f"{type(self.instance).__name__} {self.key}"

    def next_version(self) -> dict[str, str]:
        """The version that this write gives the item."""
        assert self.version is not None
        return {"N": str((self.instance.attribute_values.get(self.counting.version_name) or 0) + 1)}

    def failed(self, guard: Guard | None) -> PynamoDBException:
        """PynamoDB's own error for its own condition or version, with the code it is known by."""
        what = "its version moved on" if guard in self.version_guard else "its condition did not hold"
        message = f"{self.about} was not written: {what}; read it again and decide anew"
        cause = ClientError({"Error": {"Code": "ConditionalCheckFailedException", "Message": message}}, "PutItem")
        return self.operation(message, cause)


class Save(ModelIntent):
    """Save an instance: create a new item, or write what changed since it was loaded."""

    def __init__(self, instance: Any, condition: Condition | None = None, add_version_condition: bool = True) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.stored: Item | None = instance.stored_item
        self.over = False
        self.birth_mark = birth_mark()
        if self.stored is None:
            self.counting.check_instance(instance)
            self.needs_token = self.counting.is_child
            self.after = self.counting.contribution(instance)
        else:
            self.changes = self._changes(self.stored)
            self._count_change()

    def write(self) -> Write | None:
        """A guarded Put for a new item; else an Update of what changed."""
        if self.stored is not None:
            return self._update(self.changes, self.reads)
        item = self.item = self._item()
        if self.over:
            dropped = {name: None for name in self.counting.plain_names if name not in item}
            kept = {name: value for name, value in item.items() if name in self.counting.plain_names}
            return self._update({**dropped, **kept}, ())
        for tally in self.counting.tallies:
            if uncounted_block.get() is not None or tally.on_delete == "leave":
                # Children may be there already: born unseeded, and counted when first needed.
                item[tally.pending_name] = {"N": str(self.birth_mark)}
            else:
                item[tally.attr_name] = ZERO
        return Put(self.key, item, (Claim((self.counting.absent, *self.given), self),))

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
        elif item is None:
            if self.counting.is_child:
                raise NotCounted(
                    f"{self.about} was deleted since it was loaded; nothing was written. To create it "
                    f"anew, save() a new {type(self.instance).__name__}"
                )
            raise ParentMissing(
                f"{self.about} was deleted since it was loaded; nothing was written. To create it "
                f"anew, save() a new {type(self.instance).__name__}"
            )
        else:
            self.stored = item  # what its contribution reads has moved: count from how it is now
            self._count_change()
        return None

    def landed(self) -> None:
        """The instance follows what was written."""
        if self.stored is None:
            item = self.item
            for tally in self.counting.tallies if not self.over and uncounted_block.get() is None else ():
                if tally.on_delete != "leave":
                    self.counting.show_zero(self.instance, tally)
        else:
            item = {name: value for name, value in {**self.stored, **self.changes}.items() if value is not None}
            if self.version is not None:
                item[self.version.attr_name] = self.next_version()
        self.instance.stored_item = item
        if self.version is not None:
            self.instance.update_local_version_attribute()

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
        if self.version is not None and self.version.attr_name not in changes:
            actions.append(Set(self.version.attr_name, self.next_version()))
        if not actions and not self.given:
            return None
        guards = (self.counting.exists_guard, *reads, *self.version_guard, *self.given)
        return Update(self.key, tuple(actions), (Claim(guards, self),))

    def _changes(self, stored: Item) -> dict[str, Any]:
        loaded = type(self.instance).from_raw_data(stored).serialize(null_check=False)
        now: Item = self.instance.serialize(null_check=True)
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


class Discard(ModelIntent):
    """Delete an instance's item, and take it out of the tallies that it counts in."""

    operation = DeleteError

    def __init__(
        self,
        instance: Any,
        condition: Condition | None = None,
        add_version_condition: bool = True,
        closing: bool = False,
        excluded: frozenset[tuple[Tally, ItemKey]] = frozenset(),
    ) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.stored: Item | None = instance.stored_item
        self.needs_token = self.counting.is_child
        self.closing = closing
        self.excluded = excluded
        self._count(instance if self.stored is None else type(instance).from_raw_data(self.stored))

    @property
    def reads_first(self) -> bool:
        """Whether the item must be read before it is known what it counts for."""
        return self.stored is None and bool(self.counting.read_attributes)

    def read(self) -> Protocol[None]:
        """Read the item, where what it counts for varies and it was not loaded."""
        if self.reads_first:
            request = {"TableName": self.key.table, "Key": self.key.wire(), "ConsistentRead": True}
            answer = yield Send("GetItem", request)
            assert not isinstance(answer, Refusal)
            self._moved_on(answer.get("Item"))

    def write(self) -> Write | None:
        """A guarded Delete."""
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
            raise _Gone
        for tally in self.counting.tallies:
            if isinstance(guard, Same) and guard.name == tally.attr_name:
                refuse_closed(tally, self.key, item)
                if tally.attr_name not in item:
                    return NeedsSeed(tally, self.key)
                raise ParentNotEmpty(
                    f"{self.about} is not deleted: {tally.label} is {next(iter(item[tally.attr_name].values()))}. "
                    f'Delete its children first, or declare CounterField(on_delete="cascade") or "leave"'
                )
        if isinstance(guard, Exists):
            raise _Gone  # another cascade finished it, and it was created anew
        self._moved_on(item)
        return None

    def landed(self) -> None:
        """The instance is new again: saving it creates it."""
        self.instance.stored_item = None

    def _moved_on(self, item: Item | None) -> None:
        if item is None:
            raise NotCounted(f"{self.about} is not there, so there was nothing to delete and nothing to count")
        self.stored = item
        self._count(type(self.instance).from_raw_data(item))

    def _count(self, child: Any) -> None:
        contribution = self.counting.contribution(child)
        self.before = {t: amount for t, amount in contribution.items() if t not in self.excluded}


class _Gone(Exception):
    """A parent that was to be deleted is not there any more."""


def discard_parent(intent: Discard) -> Protocol[dict[str, Any]]:
    """Delete a parent; one that is not there any more is deleted already, as PynamoDB's own delete has it."""
    try:
        return (yield from perform([intent]))
    except _Gone:
        return {}


class Edit(ModelIntent):
    """Update actions of the application's own, on an item that must exist."""

    operation = UpdateError

    def __init__(
        self, instance: Any, actions: Sequence[PynamodbAction], condition: Condition | None, add_version_condition: bool
    ) -> None:
        super().__init__(instance, condition, add_version_condition)
        self.actions = tuple(actions)
        for action in actions:
            self._refuse_uncounted(action)

    def _refuse_uncounted(self, action: PynamodbAction) -> None:
        name = action.values[0].path[0].partition("[")[0]  # type: ignore[attr-defined]
        model = type(self.instance)
        for field_ in self.counting.counters.values():
            marks = (f"{field_.attr_name}Closed", f"{field_.attr_name}Pending")
            if (name == field_.attr_name and field_.is_counted) or name in marks:
                raise UncountedWrite(f"{field_.label} cannot be written by update(): {field_.way_out()}")
        if name in self.counting.read_attributes:
            raise UncountedWrite(
                f"{model.__name__} counts by {name}, so update() would change the count behind its back; get() the "
                f"item, assign to it and save() it"
            )

    def write(self) -> Write | None:
        """The Update, the version with it."""
        actions: list[Action] = [GivenAction(action) for action in self.actions]
        if self.version is not None:
            guard = self.version_guard[0] if self.version_guard else None
            new = isinstance(guard, Same) and guard.value is None
            actions.append(Set(self.version.attr_name, ONE) if new else Add(self.version.attr_name, 1))
        guards = (self.counting.exists_guard, *self.version_guard, *self.given)
        return Update(self.key, tuple(actions), (Claim(guards, self),))

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """Tell the answers apart."""
        if item is not None:
            raise self.failed(guard)
        if self.counting.is_child:
            raise NotCounted(f"{self.about} is not there; save() it first, so that it is counted")
        raise ParentMissing(f"{self.about} does not exist; save() it first")

    def landed(self) -> None:
        """The version in memory follows."""
        if self.version is not None:
            self.instance.update_local_version_attribute()


class Verify(Intent):
    """A condition on an item that the transaction does not write."""

    def __init__(self, about: str, key: ItemKey, condition: Condition) -> None:
        self.about = about
        self.key = key
        self.guard = Given(condition)

    def write(self) -> Write | None:
        """A condition check."""
        return Check(self.key, (Claim((self.guard,), self),))

    def refused(self, guard: Guard | None, item: Item | None) -> NeedsSeed | None:
        """The application's condition did not hold."""
        message = f"the transaction's check of {self.about} {self.key} did not hold; nothing was written"
        cause = ClientError(
            {"Error": {"Code": "ConditionalCheckFailedException", "Message": message}}, "TransactWriteItems"
        )
        raise CheckFailed(message, cause)


class CheckFailed(PynacountError):
    """The condition that ``tx.check()`` put on a transaction did not hold."""
