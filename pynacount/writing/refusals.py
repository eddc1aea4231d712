"""Reading a definite refusal: whose guard did not hold, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pynacount.contributions import Tally
from pynacount.errors import CounterBoundError, CounterNotSeeded, CounterTypeError, ParentMissing, PynacountError
from pynacount.expressions import Bound, Given, Guard
from pynacount.items import read_item
from pynacount.plan import MAX_TRANSACTION_ITEMS, Claim, Plan, Write
from pynacount.protocols.seeding import missing, refuse_closed, stored, wrong_type
from pynacount.shards import layout_of
from pynacount.steps import Item, Protocol, Refusal
from pynacount.writing.blocks import uncounted_block
from pynacount.writing.intents import Intent, NeedsSeed
from pynacount.writing.parents import Known, ParentClaim

MOST_SHARDS_BESIDE = MAX_TRANSACTION_ITEMS - 2
"""Shards that can be taken away in the transaction of a child: beside it and the parent."""
MOST_MISSES = 5
"""Times that a shard is looked for where its parent says it is: it may come and go with a repair."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A guard that did not hold (None: not known which), and the item that came back."""

    claim: Claim
    guard: Guard | None
    item: Item | None


def failures_of(plan: Plan, refusal: Refusal) -> list[Failure]:
    """The guards that did not hold, told by the items that came back with the refusal."""
    failures = []
    # No reasons: the request as a whole was found invalid.
    for write, reason in zip(plan.writes, refusal.reasons, strict=bool(refusal.reasons)):
        if reason is None or not reason.by_guard:
            continue
        broken = [
            Failure(claim, guard, reason.item)
            for claim in write.claims
            for guard in claim.guards
            if not isinstance(guard, Given) and not guard.holds(reason.item)
        ]
        if not broken:  # all of ours hold, so it was the application's own condition
            broken = [
                Failure(claim, guard, reason.item)
                for claim in write.claims
                for guard in claim.guards
                if isinstance(guard, Given)
            ][:1]
        failures += broken
    return failures


def read_refusal(plan: Plan, refusal: Refusal, known: Known, intents: Sequence[Intent]) -> Protocol[NeedsSeed | None]:
    """What a definite refusal means: raises the answer, names a tally to seed, or asks for a new plan (None)."""
    failures = failures_of(plan, refusal)
    if not failures:
        yield from _refuse_invalid(plan, refusal)
        return None
    arriving = {key for intent in intents for _, key in intent.after}
    failures = yield from with_parents(failures)
    parents = [failure for failure in failures if isinstance(failure.claim.by, ParentClaim)]
    replan = False
    for failure in parents:
        key = failure.claim.by.key
        if failure.item is not None and key in known.orphaned:
            known.orphaned.discard(key)  # the parent is back
            replan = True
        elif failure.item is None:
            replan = _parent_is_missing(failure, key in arriving, known) or replan
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
            needs, _ = meet(failure.claim.by, tally, failure.item or {}, known)
            if needs is not None:
                return needs
    for failure in parents:
        if isinstance(failure.guard, Bound):
            raise _past_bound(failure.claim.by, failure.guard.name, failure.item or {})
    return None


def with_parents(failures: list[Failure]) -> Protocol[list[Failure]]:
    """The failures; where it was a shard that refused, with the parent in its place, which alone tells why."""
    found = []
    for failure in failures:
        by = failure.claim.by
        if isinstance(by, ParentClaim) and by.shards > 1:
            failure = replace(failure, item=(yield from read_item(by.key)))
        found.append(failure)
    return found


def meet(by: ParentClaim, tally: Tally, item: Item, known: Known) -> tuple[NeedsSeed | None, bool]:
    """What a parent's item says of one tally: whether that is to be seeded; whether more is known, for another plan.

    Raises :class:`ParentMissing` for a parent whose deletion has begun, and :class:`CounterNotSeeded` where a shard is
    not there.
    """
    target = tally, by.key
    refuse_closed(tally, by.key, item)
    layout = layout_of(tally, item)
    if uncounted_block.get() is not None:
        before = known.spread.pop(target, None)
        if layout is not None and layout.shards > 1:
            if layout.upto > MOST_SHARDS_BESIDE:
                return NeedsSeed(*target, away=True), False
            known.spread[target] = layout
        return None, known.spread.get(target) != before
    if target in known.deferred:
        if layout is None:
            return None, False
        known.deferred.discard(target)  # it was seeded meanwhile, so from now on it is counted
        known.learn(*target, layout.shards)
        return None, True
    if layout is not None:
        return None, _relay(by, tally, layout.shards, known)
    if tally.missing == "defer":
        known.deferred.add(target)
        return None, True
    return (NeedsSeed(*target) if tally.missing == "seed" else None), False


def _relay(by: ParentClaim, tally: Tally, shards: int, known: Known) -> bool:
    """The tally is there, but not where it was taken to be; False: it is, and another counter or a bound refused."""
    target = (tally, by.key)
    if shards != by.shards:
        known.learn(tally, by.key, shards)
        return True
    if by.shards == 1:
        return False
    known.missed[target] = known.missed.get(target, 0) + 1
    if known.missed[target] > MOST_MISSES:
        raise CounterNotSeeded(
            f"{tally.label} of the parent {by.key} is said to be in {shards} shards, and shard {by.place} is not "
            f"there: somebody deleted it. Nothing was written; repair it: {tally.label}.repair(ref)"
        )
    return True


def _past_bound(by: ParentClaim, name: str, item: Item) -> CounterBoundError:
    tally = next(tally for tally in by.tallies if tally.attr_name == name)
    return tally.bounds.refuse(tally.label, by.key, stored(tally, by.key, item), by.moved[tally])


def _parent_is_missing(failure: Failure, arriving: bool, known: Known) -> bool:
    """A child cannot come to a parent that is not there; it can leave one, and there is no tally to keep."""
    by = failure.claim.by
    block = uncounted_block.get()
    if block is not None:
        block.unseeded.discard(by.key)
        block.missing.add(by.key)
    elif arriving:
        raise ParentMissing(missing(by.tallies[0].label, by.key))
    known.orphaned.add(by.key)
    return True


def _refuse_invalid(plan: Plan, refusal: Refusal) -> Protocol[None]:
    """No guard failed, so the request itself was refused. A tally of the wrong type is the known cause: look."""
    for write in plan.writes:
        yield from check_types(write)
    refuse_unread(plan, refusal)


def check_types(write: Write) -> Protocol[None]:
    """Read a parent that is written. Raises :class:`CounterTypeError` where a tally of it is no number."""
    for claim in write.claims:
        if not isinstance(claim.by, ParentClaim):
            continue
        item = (yield from read_item(write.key)) or {}
        for tally in claim.by.tallies:
            value = item.get(tally.attr_name)
            if value is not None and "N" not in value:
                raise CounterTypeError(wrong_type(tally, write.key, value))


def refuse_unread(plan: Plan, refusal: Refusal) -> None:
    """Raise what DynamoDB said, where no guard of ours explains it."""
    said = [f"{reason.code}: {reason.message}" for reason in refusal.reasons if reason is not None]
    if refusal.by_guard:
        return  # the item moved on between the refusal and its answer: ask again
    raise PynacountError(f"DynamoDB refused to write {plan.writes[0].key}: {'; '.join(said) or refusal.message}")
