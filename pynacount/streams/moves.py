"""What a batch of changes moves: for each counter its records, in their order, and the fences among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pynacount.amounts import Amount, amount, subtotal
from pynacount.contributions import NOTHING, Contribution, Tally, Target, difference
from pynacount.errors import PynacountError, StreamRecordError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.relations import CountedIn
from pynacount.steps import Item
from pynacount.streams.records import Change
from pynacount.streams.values import plain_item

WHOLE = "NEW_AND_OLD_IMAGES"
"""The view type of a stream whose records have both images."""
FENCE = "pynacountFence"
"""The attribute of a fence: an item that a seeder writes into a source partition to find its place in the stream."""
FENCE_PREFIX = "PYNACOUNT#FENCE#"
"""How a fence's sort key begins."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one record adds to one counter. ``source`` names the changed item in a few characters."""

    mark: str
    sequence: str
    amount: Amount
    source: str


@dataclass(frozen=True, slots=True)
class Fence:
    """A seeder's fence, for one counter: from here on the records are summed up apart, under its token."""

    mark: str
    sequence: str
    token: str


Step: TypeAlias = Move | Fence


class Counted(Protocol):
    """Something that says what an item of one table counts for."""

    label: str
    table: str
    needs_images: bool

    def contribution(self, item: Item) -> Contribution:
        """What a stored item counts for. Raises :class:`PynacountError` for one that cannot be counted."""


class ByRelation:
    """What a ``CountedIn`` declares."""

    def __init__(self, relation: CountedIn) -> None:
        self._relation = relation
        self.label = relation.label
        self.table = relation.child_schema.table
        self.needs_images = bool(relation.read_attributes) or not relation.is_told_by_key
        self._wanted = (*relation.child_schema.names, *relation.read_attributes)

    def contribution(self, item: Item) -> Contribution:
        """What a stored item counts for; nothing where it is no child."""
        read = {name: item[name] for name in self._wanted if name in item}
        child = self._relation.read(read)
        return NOTHING if child is None else self._relation.stored_contribution(child, read)


class ByFunctions:
    """What an application's own functions say of the items of one table.

    ``key`` is given an item as plain Python values and gives the variables of the counter's key, or None for what does
    not count; ``amount`` gives a number.
    """

    needs_images = True

    def __init__(
        self,
        counter: CounterField,
        table: str,
        key: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
        amount: Callable[[Mapping[str, Any]], Any] | Amount,
    ) -> None:
        self._counter, self._key, self._amount = counter, key, amount
        self.label, self.table = counter.label, table

    def contribution(self, item: Item) -> Contribution:
        """What a stored item counts for."""
        try:
            plain = plain_item(item)
            variables = self._key(plain)
            if variables is None:
                return NOTHING
            given = self._amount(plain) if callable(self._amount) else self._amount
            number = amount(given, self.label) if given is not None else 0
            key = self._counter.owner._counting.schema.key(variables)
        except PynacountError:
            raise
        except Exception as broken:  # the application's own functions
            raise StreamRecordError(f"{self.label}: {type(broken).__name__}: {broken}") from broken
        return {(self._counter.tally, key): number} if number else NOTHING


@dataclass(slots=True)
class Batch:
    """The steps of each counter, in the order of their records; and the first record that could not be read.

    ``moved``: how many records count for something. ``tells_sources``: whether a record's item is told, for markers.
    """

    tells_sources: bool = True

    steps: dict[Target, list[Step]] = field(default_factory=dict)
    moved: int = 0

    def take(self, change: Change, counted: Sequence[Counted], tallies: Mapping[str, Tally]) -> None:
        """Add what one change moves. Raises :class:`StreamRecordError` for one that cannot be counted."""
        if is_fence(change.keys):
            self._take_fence(change, tallies)
            return
        moved = moved_by(change, counted)
        if moved:
            self.moved += 1
            source = source_of(change) if self.tells_sources else ""
        for target, number in moved.items():
            self.steps.setdefault(target, []).append(Move(change.mark, change.sequence, number, source))

    def _take_fence(self, change: Change, tallies: Mapping[str, Tally]) -> None:
        if change.event != "INSERT" or change.after is None:
            return  # its end, which only the seeder looks for; or the stream has no images, and seeding fails
        try:
            about = json.loads(change.after[FENCE]["S"])
            names, values = tuple(about["names"]), tuple((kind, value) for kind, value in about["values"])
            key, token = ItemKey(about["table"], names, values), str(about["token"])
        except (KeyError, TypeError, ValueError) as broken:
            raise StreamRecordError(
                f"the record {change.sequence} has the attribute {FENCE}, and is no fence of a seeder", change.sequence
            ) from broken
        tally = tallies.get(about["counter"])
        if tally is not None:  # else a counter that another consumer keeps
            self.steps.setdefault((tally, key), []).append(Fence(change.mark, change.sequence, token))

    def ordered(self) -> dict[Target, list[Step]]:
        """The steps, each record once and in the order of their numbers, whatever order they came in."""
        return {target: in_order(steps) for target, steps in self.steps.items()}


def moved_by(change: Change, counted: Iterable[Counted]) -> Contribution:
    """What a change adds to each counter. Raises :class:`StreamRecordError` for one that cannot be counted."""
    total: Contribution = {}
    for one in counted:
        if one.table != change.table:
            continue
        for target, number in _difference(change, one).items():
            total[target] = subtotal(total.get(target, 0), number)
    return total


def moved_before(change: Change, counted: Iterable[Counted]) -> Contribution:
    """What the item counted for before a change. Raises :class:`StreamRecordError` where that cannot be told."""
    total: Contribution = {}
    for one in counted:
        for target, number in _both(change, one)[0].items():
            total[target] = subtotal(total.get(target, 0), number)
    return total


def _difference(change: Change, one: Counted) -> Contribution:
    if not one.needs_images and change.event == "MODIFY":
        return NOTHING
    return difference(*_both(change, one))


def _both(change: Change, one: Counted) -> tuple[Contribution, Contribution]:
    """What the item counted for before the change, and after it."""
    if not one.needs_images:  # its key says all: it came, or it went
        before = None if change.event == "INSERT" else change.keys
        after = None if change.event == "REMOVE" else change.keys
    else:
        before, after = change.before, change.after
        if lacking := change.lacks():
            raise StreamRecordError(
                f"{one.label}: the record {change.sequence} ({change.event}) has no {lacking}: {_why(change)}",
                change.sequence,
            )
    try:
        was = NOTHING if before is None else one.contribution(before)
        now = NOTHING if after is None else one.contribution(after)
    except PynacountError as error:
        raise StreamRecordError(
            f"the record {change.sequence} ({change.event}) cannot be counted: {error.msg}", change.sequence, error
        ) from error
    return was, now


def _why(change: Change) -> str:
    """Why a record has not the image that it takes."""
    if change.view == WHOLE:
        return (
            f"the stream of table {change.table} is {WHOLE}, so that DynamoDB wrote it with one. What hands the "
            f"records on, or made this one, left it out: hand on whole records"
        )
    return (
        f"the stream of table {change.table} is {change.view or 'of another view type'} and must be {WHOLE}. Make it "
        f"anew with that StreamViewType"
    )


def is_fence(keys: Item) -> bool:
    """Whether an item is a seeder's fence, by its key alone."""
    for value in keys.values():
        text = value.get("S")
        if text is not None and text.startswith(FENCE_PREFIX):
            return True
    return False


def in_order(steps: Sequence[Step]) -> list[Step]:
    """Each record once, by its number."""
    if len(steps) == 1:
        return list(steps)
    known = {(step.mark, step.source if isinstance(step, Move) else step.token): step for step in steps}
    return [known[place] for place in sorted(known)]


def source_of(change: Change) -> str:
    """The changed item, as text of one length."""
    text = json.dumps([change.table, sorted((name, sorted(value.items())) for name, value in change.keys.items())])
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()
