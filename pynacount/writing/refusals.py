"""Reading a definite refusal: whose guard did not hold, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pynacount.commit import CONDITION_FAILED
from pynacount.contributions import Tally
from pynacount.errors import CounterBoundError, CounterNotSeeded, CounterTypeError, ParentMissing, PynacountError
from pynacount.expressions import Bound, Given, Guard
from pynacount.items import read_item
from pynacount.plan import MAX_TRANSACTION_ITEMS, Claim, Plan
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
class _Failure:
    claim: Claim
    guard: Guard | None
    item: Item | None


def _failures(plan: Plan, refusal: Refusal) -> list[_Failure]:
    """The guards that did not hold, told by the items that came back with the refusal."""
    failures = []
    # No reasons: the request as a whole was found invalid.
    for write, reason in zip(plan.writes, refusal.reasons, strict=bool(refusal.reasons)):
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


def read_refusal(plan: Plan, refusal: Refusal, known: Known, intents: Sequence[Intent]) -> Protocol[NeedsSeed | None]:
    """What a definite refusal means: raises the answer, names a tally to seed, or asks for a new plan (None)."""
    failures = _failures(plan, refusal)
    if not failures:
        yield from _refuse_invalid(plan, refusal)
        return None
    arriving = {key for intent in intents for _, key in intent.after}
    parents = yield from _of_parents(failures)
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
            target, item = (tally, failure.claim.by.key), failure.item or {}
            refuse_closed(tally, failure.claim.by.key, item)
            layout = layout_of(tally, item)
            if uncounted_block.get() is not None:
                known.spread.pop(target, None)
                if layout is not None and layout.shards > 1:
                    if layout.upto > MOST_SHARDS_BESIDE:
                        return NeedsSeed(*target, away=True)
                    known.spread[target] = layout
            elif target in known.deferred:
                if layout is not None:
                    known.deferred.discard(target)  # it was seeded meanwhile, so from now on it is counted
                    known.learn(*target, layout.shards)
            elif layout is not None:
                _relay(failure.claim.by, tally, layout.shards, known)
            elif tally.missing == "defer":
                known.deferred.add(target)
            elif tally.missing == "seed":
                return NeedsSeed(*target)
    for failure in parents:
        if isinstance(failure.guard, Bound):
            raise _past_bound(failure.claim.by, failure.guard.name, failure.item or {})
    return None


def _of_parents(failures: list[_Failure]) -> Protocol[list[_Failure]]:
    """The failures of the counting's own claims; where it was a shard's, with the parent in its place."""
    found = []
    for failure in failures:
        by = failure.claim.by
        if not isinstance(by, ParentClaim):
            continue
        found.append(failure if by.shards == 1 else replace(failure, item=(yield from read_item(by.key))))
    return found


def _relay(by: ParentClaim, tally: Tally, shards: int, known: Known) -> None:
    """The tally is there, but not where it was taken to be."""
    target = (tally, by.key)
    if shards != by.shards:
        known.learn(tally, by.key, shards)
        return
    if by.shards == 1:
        return  # another counter of the parent, or a bound
    known.missed[target] = known.missed.get(target, 0) + 1
    if known.missed[target] > MOST_MISSES:
        raise CounterNotSeeded(
            f"{tally.label} of the parent {by.key} is said to be in {shards} shards, and shard {by.place} is not "
            f"there: somebody deleted it. Nothing was written; repair it: {tally.label}.repair(ref)"
        )


def _past_bound(by: ParentClaim, name: str, item: Item) -> CounterBoundError:
    tally = next(tally for tally in by.tallies if tally.attr_name == name)
    return tally.bounds.refuse(tally.label, by.key, stored(tally, by.key, item), by.moved[tally])


def _parent_is_missing(failure: _Failure, arriving: bool, known: Known) -> bool:
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
        for claim in write.claims:
            if not isinstance(claim.by, ParentClaim):
                continue
            item = (yield from read_item(write.key)) or {}
            for tally in claim.by.tallies:
                value = item.get(tally.attr_name)
                if value is not None and "N" not in value:
                    raise CounterTypeError(wrong_type(tally, write.key, value))
    said = [f"{reason.code}: {reason.message}" for reason in refusal.reasons if reason is not None]
    if any(reason is not None and reason.code == CONDITION_FAILED for reason in refusal.reasons):
        return  # the item moved on between the refusal and its answer: ask again
    raise PynacountError(f"DynamoDB refused to write {plan.writes[0].key}: {'; '.join(said) or refusal.message}")
