"""A child's coming or going, sent in a group with those of other threads for the same parent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pynacount import idempotency
from pynacount.commit import AGAIN, Driver
from pynacount.connections import connection_for, deadline_of
from pynacount.errors import CounterContention, PynacountError
from pynacount.grouping.gathering import LINES, Terms, call_in_group
from pynacount.grouping.lines import Answer, Failed, Ticket, Told
from pynacount.plan import MAX_TRANSACTION_ITEMS
from pynacount.steps import Protocol
from pynacount.writing.blocks import uncounted_block
from pynacount.writing.discarding import Discard
from pynacount.writing.many import Member, run_many
from pynacount.writing.performing import perform
from pynacount.writing.saving import Save

MOST_CHILDREN = MAX_TRANSACTION_ITEMS - 1
"""Children of one transaction; the last place is the parent's."""


def commit(intent: Save | Discard, about: str) -> None:
    """Commit one child's coming or going: in a group, where all that it counts in is one parent's.

    What it raises is what it would raise alone, and beside that what :func:`call_in_group` says of deadlines.
    """
    counting = intent.counting
    if idempotency.current.get() is not None:
        counting.driver(about).run(perform([intent]))  # with a marker of its own; it goes before what a discard reads
        return
    if isinstance(intent, Discard) and intent.reads_first:
        counting.driver(about).run(_read(intent))  # it may turn out to count elsewhere
    parents = {key for _, key in intent.moved}
    if len(parents) != 1 or uncounted_block.get() is not None:
        counting.driver(about).run(perform([intent]))
        return
    meta = counting.model.Meta
    terms = Terms(counting.window, deadline_of(meta), MOST_CHILDREN, about, AGAIN)

    def send(group: Sequence[Ticket]) -> list[Answer]:
        return _send(counting.driver(about), group)

    call_in_group(LINES, (connection_for(meta), parents.pop()), Member(intent, is_read=True), terms, send)


def _read(intent: Discard) -> Protocol[None]:
    yield from intent.read()


def _send(driver: Driver, group: Sequence[Ticket]) -> list[Answer]:
    members: list[Member] = [ticket.call for ticket in group]
    run_many(replace(driver, spent=time.monotonic() - group[0].arrived), members)
    return [_answer(member) for member in members]


def _answer(member: Member) -> Answer:
    if member.done:
        return Told()
    error: Exception | None = member.error
    if error is None:
        error = _so_already(member)
    elif isinstance(error, CounterContention):
        member.error = None  # another leader may have more time
        return Failed(error, again=True)
    return Failed(error)


def _so_already(member: Member) -> PynacountError:
    """What its intent says of a child that is there already, or is not there."""
    try:
        member.intent.refused(None, {} if isinstance(member.intent, Save) else None)
    except PynacountError as error:
        return error
    raise AssertionError(f"{member.key} was refused, and its own write has nothing to say of it")
