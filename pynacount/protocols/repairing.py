"""Repairing one parent: count anew and set the number, while its children go on coming and going.

By a *fence* (rule 6 of docs/design.md): take the tally away in one write, then seed. Or, where every counted write
raises a revision, by compare-and-set on it. A difference that was measured is never added: between two looks at
a busy parent it proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pynacount import marks
from pynacount.amounts import Amount
from pynacount.contributions import Tally
from pynacount.errors import CounterContention, CounterNotSeeded, DeclarationError
from pynacount.expressions import Absent, Action, Copy, Exists, Guard, Raise, Remove, Same, Set
from pynacount.items import number
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.counting import count, only_a_scan_finds
from pynacount.protocols.seeding import read, refuse_closed, seed
from pynacount.protocols.spreading import refuse_invalid, unspread
from pynacount.steps import Item, Protocol, Refusal, Send, Wait

REVISION_TRIES = 5
"""Counts by revision before it is given up: each that fails met a child that came or went meanwhile."""

Means = Literal["fence", "revision", "seed"]


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did: the number that was there (None: there was none), the number now, and by which means."""

    was: int | None
    now: int
    by: Means


def check_repairable(tally: Tally, *, fence: bool) -> None:
    """Raise :class:`DeclarationError` for a counter that cannot be without its number for a time."""
    if fence and tally.missing == "zero":
        raise DeclarationError(
            f'{tally.label} is declared missing="zero": while a repair takes the number away, writers would start '
            f'from 0. Declare missing="seed", at least until it is repaired, or a revision'
        )


def repair(tally: Tally, key: ItemKey) -> Protocol[Repair]:
    """Fence the parent and seed it. Can be interrupted anywhere, and run by several at once.

    Raises :class:`CounterNotSeeded`, before any write, where no query finds the children.
    """
    if children := only_a_scan_finds(tally, key):
        raise CounterNotSeeded(
            f"{tally.label} of the parent {key} is not repaired: its children ({children}) lie in partitions of their "
            f"own, which only a scan finds, and for so long its writers would be refused. Declare an index on them: "
            f'CountedIn(..., index="..."); or, while nobody writes, remove {tally.attr_name} and run pynacount migrate '
            f"{tally.target}"
        )
    answer = yield fence(tally, key)
    fenced = not isinstance(answer, Refusal)
    if isinstance(answer, Refusal):
        refuse_invalid(tally, key, answer, "be fenced")
        if any(reason is not None and tally.shards_name in (reason.item or {}) for reason in answer.reasons):
            fenced = yield from unspread(tally, key, aside=True)
    item = yield from read(key, about=tally.label)
    was: Any = number(item, tally.was_name)
    now: Any = yield from seed(tally, key)  # an int, but for fractional amounts
    return Repair(was, now, "fence" if fenced or tally.was_name in item else "seed")


def fence(tally: Tally, key: ItemKey) -> Send:
    """Take the tally away, keeping its value aside. Refused where it is absent, or the parent is."""
    actions: tuple[Action, ...] = (
        Copy(tally.was_name, tally.attr_name),
        Remove(tally.attr_name),
        Raise(tally.pending_name, marks.birth_mark()),
    )
    return Plan((Update(key, actions, (Claim((Exists(tally.attr_name),), tally),)),)).send()


def repair_by_revision(tally: Tally, key: ItemKey) -> Protocol[Repair]:
    """Count, and set the number if the revision is still what it was before the count."""
    assert tally.revision is not None
    for _ in range(REVISION_TRIES):
        item = yield from read(key, about=tally.label)
        refuse_closed(tally, key, item)
        if tally.shards_name in item:
            raise CounterContention(
                f"{tally.label} of the parent {key} is in shards, which raise no revision; nothing was written. Repair "
                f"it by a fence, for which its writers wait: {tally.label}.repair(ref, fence=True)"
            )
        was: Any = number(item, tally.attr_name)
        if tally.attr_name not in item and tally.missing != "zero":
            now: Any = yield from seed(tally, key)
            return Repair(None, now, "seed")
        yield Wait(tally.settle)  # what was committed just before the revision was read
        now = yield from count(tally, key)
        answer = yield _set_at_revision(tally, tally.revision, key, now, item)
        if not isinstance(answer, Refusal):
            return Repair(was, now, "revision")
        refuse_invalid(tally, key, answer, "be set")
    raise CounterContention(
        f"{tally.label} of the parent {key}: children came or went during each of {REVISION_TRIES} counts; nothing was "
        f"written. Repair it by a fence, for which its writers wait: {tally.label}.repair(ref, fence=True)"
    )


def _set_at_revision(tally: Tally, revision: str, key: ItemKey, now: Amount, item: Item) -> Send:
    there: tuple[Guard, ...] = (Exists(tally.attr_name),)
    if tally.attr_name not in item:  # which missing="zero" takes for 0
        there = (Exists(tally.hash_name), Absent(tally.closed_name))
    guards = (*there, Same(revision, item.get(revision)))
    return Plan((Update(key, (Set(tally.attr_name, {"N": str(now)}),), (Claim(guards, tally),)),)).send()
