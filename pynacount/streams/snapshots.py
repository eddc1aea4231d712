"""Seeding a counter that is kept from a stream: a count that says which records are in it.

A count takes time, and the stream goes on. So a *fence*, an item that the seeder writes into the children's own
partition, marks a place in the stream before the count begins (the low watermark), and its deletion one after the count
has ended (the high watermark); the idea is that of DBLog (A. Andreakis and I. Papapanagiotou, "DBLog: A Watermark Based
Change-Data-Capture Framework", 2020). A child with no record between the two was the same all the time, so it was
counted as it was at the low watermark. A child with a record between them was, at the low watermark, what the first of
those records gives as the item's old image. So the count is wound back to one moment, the low watermark, and nothing
stood still for it.

The consumer of the stream sums up the records behind the fence apart, until the tally is there. Count and sum together
are the tally, wherever the consumer stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pynacount.amounts import Amount, stored_amount, subtotal
from pynacount.contributions import Target
from pynacount.errors import DeclarationError, ParentMissing
from pynacount.expressions import Absent, Action, Behind, Copy, Exists, Guard, Remove, Same, Set, SetSum
from pynacount.keys import ItemKey
from pynacount.plan import Claim, Plan, Update
from pynacount.protocols.seeding import missing, stored
from pynacount.protocols.spreading import not_spread
from pynacount.relations import CountedIn
from pynacount.steps import Protocol, Refusal, Send
from pynacount.streams.moves import FENCE, FENCE_PREFIX, ByRelation, is_fence, moved_before
from pynacount.streams.records import Change
from pynacount.streams.spots import Spot
from pynacount.streams.watermarks import refused_item


@dataclass(slots=True)
class Snapshot:
    """A count of one counter's children while they change. ``children``: what each was met to count for, by its key."""

    spot: Spot
    relations: Sequence[CountedIn]
    identity: str
    token: str
    children: dict[str, Amount] = field(default_factory=dict)

    @property
    def fence(self) -> ItemKey:
        """The fence's own key, in the children's partition."""
        relation = self.relations[0]
        schema = relation.child_schema
        theirs = relation.parent_schema.read_key(self.spot.key)
        known = {ours: theirs[name] for name, ours in relation.from_child.items()}
        if schema.range is None or schema.range.attribute.attr_type != "S":
            raise DeclarationError(
                f"{self.spot.tally.label}: no fence can be written among its children, as their sort key is "
                f"{'a number' if schema.range else 'missing'}; it can be seeded only while nobody writes"
            )
        partition = schema.hash.typed(schema.hash.value(known))
        return ItemKey(schema.table, schema.names, (partition, ("S", FENCE_PREFIX + self.token)))

    def begin(self) -> Protocol[None]:
        """Raise the fence: the low watermark."""
        key = self.spot.key
        about = {
            "counter": self.identity,
            "table": key.table,
            "names": key.names,
            "values": key.values,
            "token": self.token,
        }
        fence = self.fence
        item = {**fence.wire(), FENCE: {"S": json.dumps(about)}}
        answer = yield Send("PutItem", {"TableName": fence.table, "Item": item})
        if isinstance(answer, Refusal):
            raise self.spot.failed(answer)

    def count(self) -> Protocol[None]:
        """Count the children, page by page, by consistent queries."""
        for relation in self.relations:
            query = relation.query(self.spot.key, count_only=False)
            assert query is not None  # its way is the watermark, so its children are found by key
            amount = relation.source().amount
            while True:
                answer = yield Send("Query", query)
                assert not isinstance(answer, Refusal)
                for item in answer["Items"]:
                    if not is_fence(item) and (number := amount(item, self.spot.key)):
                        place = child_place({name: item[name] for name in relation.child_schema.names})
                        self.children[place] = subtotal(self.children.get(place, 0), number)
                if not answer.get("LastEvaluatedKey"):
                    break
                query = {**query, "ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def end(self) -> Protocol[None]:
        """Delete the fence: the high watermark. There may be none any more, after a lost answer."""
        fence = self.fence
        answer = yield Send("DeleteItem", {"TableName": fence.table, "Key": fence.wire()})
        if isinstance(answer, Refusal):
            raise self.spot.failed(answer)

    def set(self, window: Window) -> Protocol[Amount | None]:
        """Set the tally from what was counted and what the stream said meanwhile.

        None: another seeder's fence took the place of this one; begin anew. Raises :class:`ParentMissing` where the
        counter's item is gone and is not to be made.
        """
        base = self.at_low_watermark(window)
        spot, name = self.spot, self.spot.tally.attr_name
        there: tuple[Guard, ...] = () if spot.creates else (Exists(spot.tally.hash_name),)
        rest: tuple[Action, ...] = tuple(
            Remove(own) for own in (spot.tally.moved_name, spot.tally.fence_name, spot.tally.was_name)
        )
        alone = not_spread(spot.tally)
        before: tuple[Guard, ...] = (*there, Absent(name), alone, Behind(spot.tally.upto_name, window.low))
        whole: tuple[Action, ...] = (Set(name, {"N": str(base)}), Set(spot.tally.upto_name, {"S": window.low}), *rest)
        behind: tuple[Guard, ...] = (Absent(name), alone, Same(spot.tally.fence_name, {"S": self.token}))
        summed: tuple[Action, ...] = (SetSum(name, spot.tally.moved_name, base), *rest)
        passed = False  # whether the consumer has come to the fence
        while True:
            actions, guards = (summed, behind) if passed else (whole, before)
            answer = yield Plan((Update(spot.key, actions, (Claim(guards, spot),)),), returns="UPDATED_NEW").send()
            if not isinstance(answer, Refusal):
                return stored_amount(answer["Attributes"][name]["N"])
            item = refused_item(spot, answer)
            spot.refuse_shards(item)
            if item is None and not spot.creates:
                raise ParentMissing(missing(spot.tally.label, spot.key))
            present = stored(spot.tally, spot.key, item or {})
            if present is not None:
                return present
            passed = (item or {}).get(spot.tally.upto_name, {}).get("S", "") >= window.low
            if passed and (item or {}).get(spot.tally.fence_name, {}).get("S") != self.token:
                return None

    def at_low_watermark(self, window: Window) -> Amount:
        """What the children came to when the fence was raised."""
        total: Amount = 0
        for number in {**self.children, **window.before}.values():
            total = subtotal(total, number)
        return total


@dataclass(slots=True)
class Window:
    """What the stream says of one counter's children between the raising of a fence and its deletion.

    ``low`` is the fence's mark, empty until it was met; ``before`` what each changed child counted for at that moment.
    """

    snapshot: Snapshot
    low: str = ""
    closed: bool = False
    before: dict[str, Amount] = field(default_factory=dict)

    def take(self, changes: Iterable[Change]) -> None:
        """Look at the next changes of the children's table, in their order."""
        fence = self.snapshot.fence
        counted = [ByRelation(relation) for relation in self.snapshot.relations]
        target: Target = (self.snapshot.spot.tally, self.snapshot.spot.key)
        for change in changes:
            if change.table != fence.table or self.closed:
                continue
            if change.keys == fence.wire():
                self.low = self.low or change.mark
                self.closed = change.event == "REMOVE"
            elif (
                self.low
                and not is_fence(change.keys)
                and change.keys.get(fence.names[0]) == fence.wire()[fence.names[0]]
            ):
                place = child_place(change.keys)
                if place not in self.before:
                    self.before[place] = moved_before(change, counted).get(target, 0)


def begin_anew(spot: Spot) -> Protocol[None]:
    """Take the tally away, keeping it aside for readers; from here on the consumer sums up apart."""
    tally = spot.tally
    actions: tuple[Action, ...] = (
        Copy(tally.was_name, tally.attr_name),
        Set(tally.moved_name, {"N": "0"}),
        Remove(tally.attr_name),
    )
    answer = yield Plan((Update(spot.key, actions, (Claim((Exists(tally.attr_name),), spot),)),)).send()
    if isinstance(answer, Refusal):
        spot.refuse_shards(refused_item(spot, answer))  # else it has none


def child_place(keys: Mapping[str, Any]) -> str:
    """A child's key as one text."""
    return json.dumps(sorted((name, sorted(value.items())) for name, value in keys.items()))
