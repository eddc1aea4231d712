"""Many children of the same parents in one transaction, each with an answer of its own.

A *member* is one call: a child to be created, or one to be discarded. The members of a group share one transaction,
with one update for each parent. What a refusal says of one of them is its answer, and the rest goes on under a new
plan: a child that is there already does not sink the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pynamodb.exceptions import PynamoDBException

from pynacount import marks
from pynacount.amounts import plus
from pynacount.commit import Driver
from pynacount.contributions import Target
from pynacount.errors import (
    AlreadyCounted,
    CounterNotSeeded,
    CounterTypeError,
    NotCounted,
    ParentMissing,
    PynacountError,
)
from pynacount.expressions import Bound
from pynacount.keys import ItemKey
from pynacount.plan import MAX_TRANSACTION_ITEMS, Plan
from pynacount.protocols.seeding import missing, stored
from pynacount.sizes import item_size
from pynacount.steps import Protocol, Refusal, Send
from pynacount.writing.blocks import uncounted_block
from pynacount.writing.discarding import Discard
from pynacount.writing.intents import NeedsSeed
from pynacount.writing.parents import Known, ParentClaim
from pynacount.writing.performing import plan_of, seed_on_the_way
from pynacount.writing.refusals import Failure, check_types, failures_of, meet, refuse_unread, with_parents
from pynacount.writing.saving import Save


@dataclass(slots=True, eq=False)
class Member:
    """One call, and its answer once that is known.

    ``done``: True: this call did it; False: it was so already. ``error``: why it was not done. Both are None while the
    member is open. ``asked`` is what the caller said, for the caller to know it by.
    """

    intent: Save | Discard
    done: bool | None = None
    error: PynamoDBException | None = None
    is_read: bool = False
    asked: Any = None

    @property
    def is_open(self) -> bool:
        """Whether it has no answer yet."""
        return self.done is None and self.error is None

    @property
    def key(self) -> ItemKey:
        """The child's key."""
        return self.intent.key

    @property
    def parents(self) -> set[ItemKey]:
        """The items that its counting writes."""
        return {key for _, key in (*self.intent.before, *self.intent.after)}

    def fail(self, error: PynamoDBException) -> None:
        """Settle it by what its own intent raised: already so, or an error."""
        so_already = AlreadyCounted if isinstance(self.intent, Save) else NotCounted
        if isinstance(error, so_already):
            self.done = False
        else:
            self.error = error


MOST_BYTES = 3_500_000
"""Bytes of children in one transaction. DynamoDB takes 4 MB (AWS: "Amazon DynamoDB Transactions: How it works"), of
which this leaves some for their parents, whose sizes are not known."""


@dataclass(slots=True)
class Group:
    """Members for one transaction, and how many items it would have."""

    members: list[Member] = field(default_factory=list)
    keys: set[ItemKey] = field(default_factory=set)
    children: set[ItemKey] = field(default_factory=set)
    size: int = 0

    def take(self, member: Member) -> bool:
        """Take a member in, if its child is not written already and its items still fit."""
        size = item_size(member.intent.item) if isinstance(member.intent, Save) else 0
        new = {member.key, *member.parents} - self.keys
        fits = len(self.keys) + len(new) <= MAX_TRANSACTION_ITEMS and self.size + size <= MOST_BYTES
        if member.key in self.children or (self.members and not fits):
            return False
        self.keys |= new
        self.size += size
        self.children.add(member.key)
        self.members.append(member)
        return True


def perform_many(members: Sequence[Member]) -> Protocol[None]:
    """Settle all members, in as few transactions as they fit in.

    Members are settled as their answers become known: what ends the protocol from outside (a deadline) leaves the rest
    open, and those that are settled stay true. Two calls for one child are two transactions, in their order; but a
    second call for what the first has just done, or found done, is answered by that.
    """
    known = Known()
    while group := _next_group(members):
        yield from attempt(group, known)
        answer_repeated(members)


def _next_group(members: Iterable[Member]) -> list[Member]:
    group = Group()
    passed: set[ItemKey] = set()
    for member in members:
        # A later call for a child waits for the earlier one, also where that did not fit.
        if member.is_open and member.key not in passed and not group.take(member):
            passed.add(member.key)
    return group.members


def answer_repeated(members: Iterable[Member]) -> None:
    """Answer those that ask for what an earlier member has done, or found done: it is so already."""
    last: dict[ItemKey, Member] = {}
    for member in members:
        earlier = last.get(member.key)
        if member.is_open and earlier is not None and type(earlier.intent) is type(member.intent):
            if earlier.done is None:
                continue
            member.done = False
        last[member.key] = member


def attempt(members: list[Member], known: Known) -> Protocol[None]:
    """Send one transaction for these members, until it lands or some of them are settled by its refusal.

    Those that are open afterwards were not at fault. Where a bound leaves room for some only, those go alone, the first
    ones first. What a refusal does not explain is split in two, until the member at fault is alone.
    """
    for member in members:
        if not member.is_read:
            member.is_read = True
            try:
                yield from member.intent.read()
            except PynacountError as error:
                member.fail(error)
    if not all(member.is_open for member in members):
        return
    send: Send | None = None
    while True:
        if send is None:
            _forget_orphans(members, known)
            for member in members:
                yield from member.intent.look()
            try:
                plan = plan_of([member.intent for member in members], known)
            except PynacountError as error:  # two that cannot be merged
                yield from _split(members, known, error)
                return
            send = plan.send()
        answer = yield send
        if not isinstance(answer, Refusal):
            for member in members:
                member.intent.landed(plan)
                member.done = True
            known.birth_mark = marks.birth_mark()  # another plan must not raise the mark of another parent by it
            return
        failures = failures_of(plan, answer)
        if not failures:
            yield from _read_invalid(members, plan)
            _blame(members, plan, answer)
            if not all(member.is_open for member in members):
                return
            try:
                refuse_unread(plan, answer)
            except PynacountError as error:
                yield from _split(members, known, error)
                return
            send = None
            continue
        failures = yield from with_parents(failures)
        needs, same = _read(members, failures, known)
        for need in needs:
            try:
                yield from seed_on_the_way(need)
            except (CounterNotSeeded, CounterTypeError) as error:
                _fail(members, need.key, error)
        still_open = [member for member in members if member.is_open]
        fitting = _fitting(still_open, failures)
        if fitting and len(fitting) < len(still_open):
            members, send = fitting, None
        elif not all(member.is_open for member in members):
            return
        elif not same:
            send = None


def _forget_orphans(members: Iterable[Member], known: Known) -> None:
    """A parent that was gone a moment ago is asked for again by those who come to it."""
    if uncounted_block.get() is None:
        known.orphaned -= {key for member in members for _, key in member.intent.after}


def _split(members: list[Member], known: Known, error: PynacountError) -> Protocol[None]:
    if len(members) == 1:
        members[0].fail(error)
        return
    half = len(members) // 2
    yield from attempt(members[:half], known)
    yield from attempt(members[half:], known)


def _read_invalid(members: Sequence[Member], plan: Plan) -> Protocol[None]:
    """Settle the members of a parent that stores no number."""
    for write in plan.writes:
        try:
            yield from check_types(write)
        except CounterTypeError as error:
            _fail(members, write.key, error)


def _blame(members: Sequence[Member], plan: Plan, refusal: Refusal) -> None:
    """Settle the members of a write that DynamoDB itself names: it is too large, say."""
    for write, reason in zip(plan.writes, refusal.reasons, strict=bool(refusal.reasons)):
        if reason is not None and not reason.by_guard:
            said = f"DynamoDB refused to write {write.key}: {reason.code}: {reason.message}"
            _fail(members, write.key, PynacountError(said))


def _read(members: Sequence[Member], failures: Sequence[Failure], known: Known) -> tuple[list[NeedsSeed], bool]:
    """Settle those whose answer the refusal is; what is to be seeded for the others; whether their plan stays."""
    same = True
    parents = [failure for failure in failures if isinstance(failure.claim.by, ParentClaim)]
    for failure in parents:
        key = failure.claim.by.key
        if failure.item is not None and key in known.orphaned:
            known.orphaned.discard(key)  # the parent is back
            same = False
        elif failure.item is None:
            _parent_is_missing(members, failure.claim.by, known)
            same = False
    by_intent = {id(member.intent): member for member in members}
    needs: dict[Target, NeedsSeed] = {}
    for failure in failures:
        if isinstance(failure.claim.by, ParentClaim):
            continue
        member = by_intent[id(failure.claim.by)]
        if not member.is_open:
            continue
        try:
            need = member.intent.refused(failure.guard, failure.item)
        except PynamoDBException as error:
            member.fail(error)
            continue
        if need is None:
            same = False
        else:
            needs[need.tally, need.key] = need
    for failure in parents:
        if failure.item is None:
            continue
        for tally in failure.claim.by.tallies:
            target = (tally, failure.claim.by.key)
            try:
                need, moved = meet(failure.claim.by, tally, failure.item, known)
            except (ParentMissing, CounterNotSeeded) as error:
                _fail(members, target[1], error)
                continue
            same = same and not moved
            if need is not None and _is_needed(members, target):
                needs[target] = need
    return list(needs.values()), same


def _is_needed(members: Iterable[Member], target: Target) -> bool:
    """Whether a member that is still open counts in it."""
    return any(m.is_open and (target in m.intent.before or target in m.intent.after) for m in members)


def _parent_is_missing(members: Iterable[Member], by: ParentClaim, known: Known) -> None:
    """A child cannot come to a parent that is not there; it can leave one, and there is no tally to keep."""
    known.orphaned.add(by.key)
    block = uncounted_block.get()
    if block is not None:
        block.unseeded.discard(by.key)
        block.missing.add(by.key)
        return
    for member in members:
        if member.is_open and any(key == by.key for _, key in member.intent.after):
            member.fail(ParentMissing(missing(by.tallies[0].label, by.key)))


def _fail(members: Iterable[Member], parent: ItemKey, error: PynacountError) -> None:
    """Settle the open members that write this item; each by an error of its own, as each may be raised by a caller."""
    for member in members:
        if member.is_open and (parent in member.parents or member.key == parent):
            member.fail(type(error)(error.msg))


def _fitting(members: list[Member], failures: Sequence[Failure]) -> list[Member]:
    """Those that fit together, the first ones first. Settles each that does not fit even alone."""
    values = {}
    for failure in failures:
        if isinstance(failure.claim.by, ParentClaim) and isinstance(failure.guard, Bound) and failure.item is not None:
            by = failure.claim.by
            tally = next(tally for tally in by.tallies if tally.attr_name == failure.guard.name)
            value = stored(tally, by.key, failure.item)
            if value is not None or tally.missing == "zero":
                values[tally, by.key] = value or 0
    if not values:
        return members
    room = dict(values)
    fitting: list[Member] = []
    for member in members:
        moved = {target: amount for target, amount in member.intent.moved.items() if target in values}
        full = next((t for t, by in moved.items() if not t[0].bounds.allow(values[t], by)), None)
        if full is not None:
            tally, key = full
            member.fail(tally.bounds.refuse(tally.label, key, values[full], moved[full]))
        elif all(target[0].bounds.allow(room[target], by) for target, by in moved.items()):
            room.update({target: plus(room[target], by) for target, by in moved.items()})
            fitting.append(member)
    return fitting


def run_many(driver: Driver, members: Sequence[Member]) -> None:
    """Settle all members by this driver. What ends it (a deadline, no rights) is the error of those still open."""
    settle(driver, members, perform_many(members))


def settle(driver: Driver, members: Iterable[Member], protocol: Protocol[None]) -> None:
    """Run a protocol on members. What ends it is the error of those still open: each gets one of its own."""
    try:
        driver.run(protocol)
    except PynamoDBException as error:
        for member in members:
            if member.is_open:
                member.error = type(error)(error.msg, error.cause)
                member.error.__cause__ = error.__cause__
