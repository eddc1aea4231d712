"""Reading a definite refusal: whose guard did not hold, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pynacount.commit import CONDITION_FAILED
from pynacount.errors import CounterBoundError, CounterTypeError, ParentMissing, PynacountError
from pynacount.expressions import Bound, Given, Guard
from pynacount.items import read_item
from pynacount.plan import Claim, Plan, Write
from pynacount.protocols.seeding import missing, refuse_closed, stored, wrong_type
from pynacount.steps import Item, Protocol, Refusal
from pynacount.writing.blocks import uncounted_block
from pynacount.writing.intents import Intent, NeedsSeed
from pynacount.writing.parents import Known, ParentClaim


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
        if reason is None or reason.code != CONDITION_FAILED:
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
    parents = [f for f in failures if isinstance(f.claim.by, ParentClaim)]
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
            if target in known.deferred:
                if tally.attr_name in item:
                    known.deferred.discard(target)  # it was seeded meanwhile, so from now on it is counted
            elif tally.missing == "defer" and tally.attr_name not in item:
                known.deferred.add(target)
            elif tally.missing == "seed" and tally.attr_name not in item:
                return NeedsSeed(*target)
    for failure in parents:
        if isinstance(failure.guard, Bound):
            raise _past_bound(failure.claim.by, failure.guard.name, failure.item or {})
    return None


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
    if any(reason is not None and reason.code == CONDITION_FAILED for reason in refusal.reasons):
        return  # the item moved on between the refusal and its answer: ask again
    raise PynacountError(f"DynamoDB refused to write {plan.writes[0].key}: {'; '.join(said) or refusal.message}")
