"""The write of a parent that children come to and go from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from pynacount.amounts import Amount
from pynacount.contributions import Tally
from pynacount.expressions import Absent, Action, Add, Exists, Guard, Remove
from pynacount.keys import ItemKey
from pynacount.plan import Check, Claim, Update, Write
from pynacount.writing.blocks import uncounted_block


def birth_mark() -> int:
    """Where the uncounted writes of a parent that is born unseeded begin to be counted.

    Never the same for two parents that have one key, one after the other: a seeder that slept over the change
    must not take the second for the first.
    """
    return time.time_ns()


@dataclass(frozen=True, slots=True, eq=False)
class ParentClaim:
    """The claim of the counting itself on a parent item."""

    key: ItemKey
    tallies: tuple[Tally, ...]


def parent_write(key: ItemKey, tallies: Mapping[Tally, Amount], orphaned: bool) -> Write:
    """What the counting does to one parent. ``orphaned``: it is known not to exist, and must still not."""
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
