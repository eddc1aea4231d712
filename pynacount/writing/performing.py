"""Performing intents: one plan for all of them, sent until the truth is known.

An *intent* is one item that the application saves, edits or deletes. It knows its own write and what it does to
the tallies; it reads the refusal of its own guards. :func:`perform` merges the intents and their parents' updates
into one plan, and does what a refusal asks for: seed a parent, read an item again, or give up with the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pynacount.contributions import Contribution, Tally, by_parent
from pynacount.errors import ParentMissing
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import Plan, Write, build
from pynacount.protocols.seeding import seed
from pynacount.protocols.spreading import unspread
from pynacount.steps import Protocol, Refusal, Send
from pynacount.writing.editing import Edit
from pynacount.writing.intents import Intent, NeedsSeed
from pynacount.writing.parents import Known, parent_writes
from pynacount.writing.refusals import read_refusal
from pynacount.writing.requested import Replayed, marking_of, replayed


def perform(intents: Sequence[Intent], extra: Mapping[str, Any] | None = None) -> Protocol[dict[str, Any]]:
    """Commit the intents in one transaction, or in a plain write where it is one item alone.

    Answers only once the truth is known: the response of the write that landed, or the error that says why none
    did. ``extra`` are further arguments of a plain write.
    """
    marking = marking_of(intents)
    if marking is None:
        return (yield from _perform(intents, extra))
    try:
        answer = yield from _perform([marking, *intents], None)  # first, so that it is also the first to be refused
    except Replayed:
        replayed(intents)
        answer = {}
    marking.finish()
    return answer


def _perform(intents: Sequence[Intent], extra: Mapping[str, Any] | None) -> Protocol[dict[str, Any]]:
    for intent in intents:
        yield from intent.read()
    known = Known()
    while True:
        plan = plan_of(intents, known)
        if not plan.writes:
            return {}
        send = plan.send()
        if extra and send.operation != "TransactWriteItems":
            send = Send(send.operation, {**send.request, **extra})
        while True:
            answer = yield send
            if not isinstance(answer, Refusal):
                for intent in intents:
                    intent.landed(plan)
                return answer
            needs = yield from read_refusal(plan, answer, known, intents)
            if needs is None:
                break  # planned anew
            yield from seed_on_the_way(needs)
        for intent in intents:
            yield from intent.look()


def plan_of(intents: Sequence[Intent], known: Known | None = None, reads: tuple[int, ...] = ()) -> Plan:
    """The plan of these intents: their own writes, then their parents', merged where they meet."""
    writes: list[Write] = []
    moves: list[Contribution] = []
    for intent in intents:
        own = intent.write()
        if own is not None:
            writes.append(own)
            writes += intent.siblings()
        moves.append(intent.moved)
    known = known or Known()
    for key, tallies in by_parent(moves).items():
        writes += parent_writes(key, tallies, known, partial(_first_child, intents, moves, key))
    return build(writes, reads, any(intent.needs_token for intent in intents))


def _first_child(intents: Sequence[Intent], moves: Sequence[Contribution], key: ItemKey, tally: Tally) -> ItemKey:
    """The key of the first child that counts in a parent's tally."""
    return next(intent.key for intent, moved in zip(intents, moves, strict=True) if (tally, key) in moved)


def update(intent: Edit) -> Protocol[dict[str, Any]]:
    """Perform an edit, and give the item as it is then, as ``ReturnValues=ALL_NEW`` does, under ``Attributes``."""
    data = yield from perform([intent], {"ReturnValues": "ALL_NEW"})
    if "Attributes" in data:
        return data
    item = yield from read_item(intent.key)  # a transaction returns no values
    return {"Attributes": item} if item else {}


def seed_on_the_way(needs: NeedsSeed) -> Protocol[None]:
    """Seed what a writer met unseeded. A parent that went meanwhile is for the writer's next refusal to tell."""
    if needs.away:
        yield from unspread(needs.tally, needs.key, aside=False)
        return
    with suppress(ParentMissing):
        yield from seed(needs.tally, needs.key, needs.tally.lazy_seed_limit)
