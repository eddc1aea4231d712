"""Several moves of one plain counter in one write: their sum, and for each of them the number as it was after it.

The moves of a group are concurrent, so any order of them is true. It is the order of their arrival; where the counter
has a bound, those that go up come before those that go down, each kind in a write of its own, so that no number between
two of them is past a bound.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pynacount.amounts import Amount, negative, subtotal, unstorable
from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.errors import CounterBoundError, CounterContention, OutcomeUnknown
from pynacount.grouping.lines import Answer, Failed, Ticket, Told
from pynacount.protocols.incrementing import Increment, increment
from pynacount.steps import Protocol

MOST_SUMMED = 1000
"""Moves in one write; there is no limit but that a group must come to an end."""

E = TypeVar("E", bound=Exception)
_Open = dict[int, Increment]
"""Moves that have no answer yet, by their place in the group."""


def send_summed(driver: Driver, group: Sequence[Ticket]) -> list[Answer]:
    """Send the moves of a group, the leader's deadline being the driver's; give the answer of each."""
    answers: dict[int, Answer] = {}
    moves = dict(enumerate(ticket.call for ticket in group))
    try:
        replace(driver, spent=time.monotonic() - group[0].arrived).run(increment_all(moves, answers))
    except Exception as error:
        again = isinstance(error, CounterContention)
        return [answers.get(place) or Failed(_own(error), again) for place in moves]
    return [answers[place] for place in moves]


def increment_all(moves: _Open, answers: dict[int, Answer]) -> Protocol[None]:
    """Move one counter by each of these amounts. Raises what is the answer of all that have none in ``answers``."""
    tally = next(iter(moves[0].moves))
    if tally.bounds.limits:
        up = {place: move for place, move in moves.items() if move.moves[tally] > 0}
        kinds = [up, {place: move for place, move in moves.items() if place not in up}]
    else:
        kinds = [moves]
    for kind in kinds:
        still_open = dict(kind)
        while still_open:
            yield from _move(tally, still_open, still_open, answers)


def _move(tally: Tally, chosen: _Open, still_open: _Open, answers: dict[int, Answer]) -> Protocol[None]:
    """Send the sum of some that are open; settles one of them at least, unless others moved the number meanwhile."""
    total: Amount = 0
    for move in chosen.values():
        total = subtotal(total, move.moves[tally])
    if len(chosen) > 1 and (not total or unstorable(total, tally.label)):
        # An update that moves nothing need not say what the number is.
        fewer = 1 if total else len(chosen) - 1
        yield from _move(tally, dict(list(chosen.items())[:fewer]), still_open, answers)
        return
    together = replace(next(iter(chosen.values())), moves={tally: total})
    try:
        found = yield from increment(together)
    except CounterBoundError as error:
        fitting = _fitting(tally, error.value, still_open, answers)
        if fitting:
            yield from _move(tally, fitting, still_open, answers)
        return
    number = together.item.number(tally, found)
    if number is None:  # never: it was just written
        raise OutcomeUnknown(f"{together.item.about}: DynamoDB did not say what {together.item.key} was moved to")
    value = number
    for place, move in reversed(list(chosen.items())):
        answers[place] = Told({tally.attr_name: {"N": str(value)}})
        value = subtotal(value, negative(move.moves[tally]))
        del still_open[place]
    _fitting(tally, number, still_open, answers)


def _fitting(tally: Tally, value: Amount, still_open: _Open, answers: dict[int, Answer]) -> _Open:
    """Those that fit together from this value on, the first ones first. Refuses each that does not fit even alone."""
    room, fitting = value, _Open()
    for place, move in list(still_open.items()):
        by = move.moves[tally]
        if not tally.bounds.allow(value, by):
            answers[place] = Failed(tally.bounds.refuse(tally.label, move.item.key, value, by))
            del still_open[place]
        elif tally.bounds.allow(room, by):
            room = subtotal(room, by)
            fitting[place] = move
    return fitting


def _own(error: E) -> E:
    """An exception that one caller alone raises: threads that raise the same one would mix up its traceback."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin
