"""How a counter is kept exact from a stream: by a watermark, or by markers; told from its declaration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pynacount.bounds import Bounds
from pynacount.errors import DeclarationError
from pynacount.fields import CounterField
from pynacount.relations import CountedIn
from pynacount.schema import KeyPart

Way: TypeAlias = Literal["watermark", "markers"]


@dataclass(frozen=True, slots=True)
class Keeping:
    """How one counter is kept; ``creates`` and ``bounds`` as in :class:`~pynacount.streams.spots.Spot`."""

    counter: CounterField
    way: Way
    why: str
    creates: bool
    bounds: Bounds


def keeping(counter: CounterField, relations: Sequence[CountedIn], way: Way | None, creates: bool | None) -> Keeping:
    """Choose, where the application did not. ``relations`` are empty where its own functions say what counts."""
    chosen, why = _way_of(counter, relations)
    if way == "watermark" and chosen == "markers" and relations:
        raise DeclarationError(
            f'StreamTally(..., once_by="watermark"): {why}, and one watermark on {counter.label} would take the '
            f"records of one partition that come behind another's for counted. Leave once_by out: markers count each"
        )
    if way is not None and way != chosen:
        told = f'StreamTally is told so, once_by="{way}"'
        chosen, why = way, told if counter.shards == 1 else f"it is in shards, which a watermark is not; {told}"
    if chosen == "watermark" and counter.shards > 1:
        raise DeclarationError(
            f"{counter.label} is declared in shards, and {why}, so that it is written once for each batch, with its "
            f'watermark, which is on one item. Leave shards out; or keep it by StreamTally(..., once_by="markers")'
        )
    if chosen == "markers":
        _ = counter.markers  # raises where the table's keys cannot hold any
    return Keeping(counter, chosen, why, _creates(counter) if creates is None else creates, _bounds(counter, relations))


def _way_of(counter: CounterField, relations: Sequence[CountedIn]) -> tuple[Way, str]:
    if not relations:
        return "markers", "where its records come from is for the application's own functions to say"
    tables = {relation.child_schema.table for relation in relations}
    if len(tables) > 1:
        return "markers", f"its records come from the tables {', '.join(sorted(tables))}"
    for relation in relations:
        if not relation._finds_by_key():
            return (
                "markers",
                f"{relation.label}: its records come from many partitions of {relation.child_schema.table}",
            )
    if len({_partition(relation, relation.child_schema.hash) for relation in relations}) > 1:
        return "markers", f"its records come from several partitions of {tables.pop()}"
    return "watermark", f"its records all come from one partition of {tables.pop()}"


def _partition(relation: CountedIn, part: KeyPart) -> object:
    """The partition of a child's table, in the parent's own variables."""
    theirs = {ours: name for name, ours in relation.from_child.items()}
    if part.template is None:
        return part.attr_name, theirs[part.name]
    return part.attr_name, part.template.renamed(theirs), part.template.escape


def _creates(counter: CounterField) -> bool:
    """Whether the counter's item is nothing but its key and its counters, so that it is made when it is first needed.

    An item with attributes of its own is somebody's: made by a late record, it would be a phantom.
    """
    counting = counter.owner._counting
    return not counting.plain_names


def _bounds(counter: CounterField, relations: Sequence[CountedIn]) -> Bounds:
    """Those declared; a count, to which every child adds, has none below 0."""
    bounds = counter.bounds
    if counter.shards > 1:
        return bounds  # no write knows the sum
    if bounds.minimum is None and relations and all(r.constant is not None and r.constant > 0 for r in relations):
        return Bounds(0, bounds.maximum)
    return bounds


def streamed_relations(counter: CounterField) -> tuple[CountedIn, ...]:
    """What is counted in it by stream. Raises :class:`DeclarationError` where that is nothing."""
    relations = tuple(relation for relation in counter.places() if relation.by == "stream")
    if not relations:
        raise DeclarationError(
            f'{counter.label} is not kept from a stream: no CountedIn({counter.label}, by="stream") names it. Declare '
            f"one, or give StreamTally the functions key= and amount="
        )
    return relations
