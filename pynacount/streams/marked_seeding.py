"""Seeding a counter that is kept by markers: what is counted stands still, while people write.

No place in one stream says which of its records are counted, as they come from many partitions; each child has a
marker of its own that says so. So the seeder raises a fence on the *counter's* item, which the next record that is
counted takes away. Then it reads the children's stream to its end (the low watermark) and marks all that it met as
counted: what they come to is dropped, since they are in the count. It counts the children, and winds back by the
stream what changed since the low watermark. If the fence is still there, nothing behind the low watermark was counted
before the tally is set, and everything behind it will be.

Where the consumer goes on and meets a record meanwhile, the fence is gone and nothing is set. So it is stopped for the
time, and finds its records in the stream afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pynacount.amounts import Amount, subtotal
from pynacount.contributions import Contribution, Target
from pynacount.expressions import Absent, Action, Add, Behind, Copy, Exists, Guard, Remove, Same, Set
from pynacount.items import read_item
from pynacount.plan import Check, Claim, Delete, Plan, Update
from pynacount.protocols.seeding import stored
from pynacount.protocols.spreading import births, deletions, made_whole, not_spread, read_spread, unspreading
from pynacount.shards import layout_of, wanted_shards
from pynacount.steps import Item, Protocol, Refusal
from pynacount.streams.marking import ITEMS_A_TRANSACTION, UPTO, Marking, reasons_of
from pynacount.streams.moves import ByRelation, is_fence, moved_before, moved_by, source_of
from pynacount.streams.records import Change
from pynacount.streams.snapshots import child_place
from pynacount.streams.spots import Spot
from pynacount.streams.watermarks import refused_item

Place = tuple[str, str]
"""A child: its table, and its key as text."""


@dataclass(slots=True)
class Census:
    """A count of the children of some counters, wound back to the low watermark.

    ``marks``: up to which record each changed child was met before it, for each counter. ``met``: what each child was
    met to count for. ``before``: what those that changed behind it counted for at that moment.
    """

    counted: Sequence[ByRelation]
    targets: frozenset[Target]
    marks: dict[tuple[Target, str], str] = field(default_factory=dict)
    met: dict[Place, Contribution] = field(default_factory=dict)
    before: dict[Place, Contribution] = field(default_factory=dict)

    def pass_by(self, change: Change) -> None:
        """A record before the low watermark: it is in the count."""
        if is_fence(change.keys):
            return
        for target in moved_by(change, self.counted):
            if target in self.targets:
                of = target, source_of(change)
                self.marks[of] = max(self.marks.get(of, ""), change.mark)

    def take(self, table: str, names: Sequence[str], item: Item) -> None:
        """A child, as it was read."""
        if is_fence(item):
            return
        total: Contribution = {}
        for one in self.counted:
            if one.table == table:
                for target, number in one.contribution(item).items():
                    total[target] = subtotal(total.get(target, 0), number)
        if total:
            self.met[table, child_place({name: item[name] for name in names})] = total

    def wind_back(self, change: Change) -> None:
        """A record behind the low watermark: the first of each child says what that was at that moment."""
        place = change.table, child_place(change.keys)
        if not is_fence(change.keys) and place not in self.before:
            here = [one for one in self.counted if one.table == change.table]
            self.before[place] = moved_before(change, here)

    def totals(self) -> Mapping[Target, Amount]:
        """What the children of each counter came to at the low watermark."""
        found: dict[Target, Amount] = dict.fromkeys(self.targets, 0)
        for contribution in {**self.met, **self.before}.values():
            for target, number in contribution.items():
                if target in found:
                    found[target] = subtotal(found[target], number)
        return found


def begin(spot: Spot, token: str) -> Protocol[Item | None]:
    """Raise a fence on a counter that has no tally; its item where that is not so, empty where there is none."""
    tally = spot.tally
    there: tuple[Guard, ...] = () if spot.creates else (Exists(tally.hash_name),)
    guards = (*there, Absent(tally.attr_name), not_spread(tally))
    actions: tuple[Action, ...] = (Set(tally.fence_name, {"S": token}), Add(tally.moved_name, 0))
    answer = yield Plan((Update(spot.key, actions, (Claim(guards, spot),)),)).send()
    return (refused_item(spot, answer) or {}) if isinstance(answer, Refusal) else None


def pass_over(spot: Spot, token: str, upto: Mapping[str, str], marking: Marking) -> Protocol[bool]:
    """Mark children's records as counted, given each child's last one; False where the fence is gone.

    Each transaction asks for the fence: another seeder, whose low watermark was earlier, must not find records marked
    that it took to be still to come.
    """
    check = Check(spot.key, (Claim((Same(spot.tally.fence_name, {"S": token}),), spot),))
    waiting = list(upto)
    while waiting:
        some = waiting[:ITEMS_A_TRANSACTION]
        writes = []
        for source in some:
            actions = (Set(UPTO, {"S": upto[source]}), Set(marking.expires_name, {"N": str(marking.expires)}))
            writes.append(Update(marking.key(source), actions, (Claim((Behind(UPTO, upto[source]),), spot),)))
        answer = yield Plan((*writes, check), needs_token=True).send()
        if not isinstance(answer, Refusal):
            del waiting[: len(some)]
            continue
        *marked, fence = reasons_of(spot, answer, len(some) + 1)
        if fence is not None:
            return False
        done = {source for source, reason in zip(some, marked, strict=True) if reason is not None}
        waiting = [source for source in waiting if source not in done]
    return True


def finish(spot: Spot, token: str, counted: Amount) -> Protocol[Amount | None]:
    """Set the tally, if the fence is still there; None where it is gone. A tally that others set is left as it is."""
    tally, key = spot.tally, spot.key
    item = (yield from read_item(key)) or {}
    shards = wanted_shards(tally, item)
    number = {"N": str(counted)} if shards == 1 else {"N": str(shards)}
    marks = (tally.moved_name, tally.fence_name, tally.was_name, tally.had_shards_name)
    actions: tuple[Action, ...] = (
        Set(tally.attr_name if shards == 1 else tally.shards_name, number),
        *(Remove(name) for name in marks),
    )
    guards = (Absent(tally.attr_name), not_spread(tally), Same(tally.fence_name, {"S": token}))
    own = Update(key, actions, (Claim(guards, spot),))
    answer = yield Plan((own, *(births(tally, key, counted, shards) if shards > 1 else ()))).send()
    if not isinstance(answer, Refusal):
        return counted
    found = yield from made_whole(tally, key, refused_item(spot, answer))
    return stored(tally, key, found or {})


def take_away(spot: Spot) -> Protocol[None]:
    """Take a tally away, with its shards, and keep it aside for readers; from here on the consumer sums up apart."""
    tally, key = spot.tally, spot.key
    while True:
        item = (yield from read_item(key)) or {}
        layout = layout_of(tally, item)
        if layout is None:
            return
        if layout.shards == 1:
            guards: tuple[Guard, ...] = (Exists(tally.attr_name), not_spread(tally))
            own: list[Action] = [Copy(tally.was_name, tally.attr_name), Remove(tally.attr_name)]
            goes: tuple[Delete, ...] = ()
        else:
            found = yield from read_spread(tally, key)
            if found is None or found.layout is None:
                continue
            layout = found.layout
            guards = layout.guards(tally)
            own = [*unspreading(tally, layout), Set(tally.was_name, {"N": str(found.total(tally))})]
            goes = deletions(tally, key, layout.upto)
        write = Update(key, (*own, Set(tally.moved_name, {"N": "0"})), (Claim(guards, spot),))
        answer = yield Plan((write, *goes)).send()
        if not isinstance(answer, Refusal):
            return
        refused_item(spot, answer)
