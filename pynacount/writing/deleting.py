"""Deleting a parent: refuse while children count in it, take them along, or leave them.

A cascade *closes* the parent first: one write takes its tallies away and leaves a mark. From then on no writer of
this library adds or removes a child, and no seeder brings the tally back, so what the cascade finds is all there is.
It can stop anywhere and be called again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pynamodb.expressions.condition import Condition

from pynacount.contributions import Tally
from pynacount.declaration import Counting, child_page
from pynacount.errors import NotCounted, PynacountError
from pynacount.expressions import Action, Exists, Given, Guard, Remove, Set
from pynacount.fields import CounterField
from pynacount.items import read_item
from pynacount.keys import ItemKey
from pynacount.plan import MAX_TRANSACTION_ITEMS, Check, Claim, Delete, Plan, Update, build
from pynacount.protocols.spreading import not_spread
from pynacount.relations import CountedIn
from pynacount.steps import Item, Protocol, Refusal, Wait
from pynacount.writing.discarding import Discard, Gone
from pynacount.writing.performing import perform, seed_on_the_way

CHILDREN_A_PAGE = MAX_TRANSACTION_ITEMS - 1
"""Children deleted in one transaction; the last place is the check that the parent is still closed."""


def delete(instance: Any, condition: Condition | None = None, add_version_condition: bool = True) -> Protocol[Any]:
    """Delete an item of a counted model, by its counters' ``on_delete``."""
    return _delete(instance, condition, add_version_condition, frozenset())


def finish_deletion(instance: Any) -> Protocol[bool]:
    """Finish a cascade that was interrupted; False where there is none to finish. A parent that is open stays so.

    ``delete`` would begin one on a parent that came back in the meantime.
    """
    cascades = cascades_of(instance._counting)
    item = yield from read_item(instance._counting.key_of(instance))
    if not cascades or item is None or not all(tally.closed_name in item for tally in (c.tally for c in cascades)):
        return False
    closing = Discard(instance, None, False, closing=True)
    yield from closing.read()
    yield Wait(max(counter.tally.settle for counter in cascades))
    with suppress(Gone):  # another cascade finished first
        yield from _finish(closing, cascades, frozenset())
    return True


def _delete(
    instance: Any, condition: Condition | None, add_version_condition: bool, excluded: frozenset[tuple[str, ItemKey]]
) -> Protocol[Any]:
    cascades = cascades_of(instance._counting)
    if not cascades:
        intent = Discard(instance, condition, add_version_condition, excluded=excluded)
        return (yield from perform([intent]))
    instance._counting.check_sets()
    closing = Discard(instance, condition, add_version_condition, closing=True, excluded=excluded)
    yield from closing.read()
    try:
        yield from _close(closing)
        return (yield from _finish(closing, cascades, excluded))
    except Gone:
        return {}  # deleted already, or by another cascade that finished first


def cascades_of(counting: Counting) -> list[CounterField]:
    """The counters whose children go when their parent goes."""
    return [counter for counter in counting.counters.values() if counter.on_delete == "cascade" and counter.is_counted]


def _finish(
    closing: Discard, cascades: list[CounterField], excluded: frozenset[tuple[str, ItemKey]]
) -> Protocol[dict[str, Any]]:
    """Delete the children of a closed parent, and the parent if it still is."""
    closed = excluded | frozenset((counter.attr_name, closing.key) for counter in cascades)
    for counter in cascades:
        for relation in counter.counted_relations:
            yield from _delete_children(relation, counter.tally, closing.key, closed)
    final = Discard(closing.instance, None, False, closing=True, excluded=excluded | closed)
    return (yield from perform([final]))


def _close(closing: Discard) -> Protocol[None]:
    """Take the tallies away and leave the marks; then let what was committed before become visible."""
    tallies = [tally for tally in closing.counting.tallies if closing.counting.has_children(tally)]
    cascades = [tally for tally in tallies if tally.on_delete == "cascade"]
    restricts = [tally for tally in tallies if tally.on_delete == "restrict"]
    closed = [*cascades, *restricts]  # those too that are empty, so that they stay so
    while True:
        plan = _closure(closing, closed, restricts)
        answer = yield plan.send()
        if not isinstance(answer, Refusal):
            break
        if not answer.by_guard:
            raise PynacountError(f"{closing.about} could not be closed for its deletion: {answer.message}")
        if answer.reasons[0] is None:
            closing.looks = True  # a shard moved on
            yield from closing.look()
            continue
        item, guards = answer.reasons[0].item, plan.writes[0].claims[0].guards
        if item is None:
            if closing.counting.is_child:
                raise NotCounted(f"{closing.about} is not there, so there was nothing to delete and nothing to count")
            raise Gone
        if all(tally.closed_name in item for tally in cascades):
            break  # an earlier cascade got this far
        yield from _read_refusal(closing, guards, item)
        yield from closing.look()
    yield Wait(max(tally.settle for tally in cascades))


def _closure(closing: Discard, closed: list[Tally], restricts: list[Tally]) -> Plan:
    spread = [tally for tally in closed if tally in closing.spreads]
    actions: list[Action] = [Set(tally.closed_name, {"BOOL": True}) for tally in closed]
    actions += [Remove(tally.attr_name) for tally in closed if tally not in spread]
    actions += [Remove(name) for tally in spread for name in (tally.shards_name, tally.retiring_name)]
    closing.shard_guards = []
    layouts = [guard for tally in closed for guard in _same_layout(closing, tally)]
    closing.shard_guards += layouts
    guards: tuple[Guard, ...] = (
        Exists(closing.key.names[0]),
        *closing.empty(restricts),
        *layouts,
        *closing.version_guard,
        *closing.given,
    )
    return Plan(
        (
            Update(closing.key, tuple(actions), (Claim(guards, closing),)),
            *closing.shard_writes(spread, restricts),
        )
    )


def _same_layout(closing: Discard, tally: Tally) -> tuple[Guard, ...]:
    spread = closing.spreads.get(tally)
    return (not_spread(tally),) if spread is None or spread.layout is None else spread.layout.guards(tally)


def _read_refusal(closing: Discard, guards: tuple[Guard, ...], item: Item) -> Protocol[None]:
    for guard in guards:
        if not isinstance(guard, Given) and not guard.holds(item):
            needs = closing.refused(guard, item)
            if needs is not None:
                yield from seed_on_the_way(needs)
            return
    given = next((guard for guard in guards if isinstance(guard, Given)), None)
    if given is not None:
        raise closing.failed(given)


def _delete_children(
    relation: CountedIn, tally: Tally, parent: ItemKey, closed: frozenset[tuple[str, ItemKey]]
) -> Protocol[None]:
    """Delete the children of a closed parent.

    One pass finds them all: none can come any more, and those that came before are visible. Only an index that
    trails its table is asked again, until it shows none.
    """
    while True:
        if relation.trails:
            yield Wait(tally.settle)
        found = yield from _delete_pass(relation, tally, parent, closed)
        if not (relation.trails and found):
            return


def _delete_pass(
    relation: CountedIn, tally: Tally, parent: ItemKey, closed: frozenset[tuple[str, ItemKey]]
) -> Protocol[bool]:
    still_closed = Check(parent, (Claim((Exists(tally.closed_name),), parent),))
    start: dict[str, Any] | None = None
    found = False
    while True:
        page = yield from child_page(relation, parent, start, CHILDREN_A_PAGE)
        found_here = (relation.child(item, parent) for item in page["Items"])
        # One that is being deleted already, further up, ends a circle.
        closing = {key for _, key in closed}
        children = [c for c in found_here if c is not None and c._counting.key_of(c) not in closing]
        found = found or bool(children)
        if children and _is_plain(relation):
            yield from _delete_plain([child._counting.key_of(child) for child in children], still_closed)
        else:
            for child in children:
                child._stored_item = None  # an index may show it in part, or as it was
                try:
                    yield from _delete(child, None, False, closed)
                except NotCounted:
                    continue  # another cascade was quicker
        start = page.get("LastEvaluatedKey")
        if start is None:
            return found


def _is_plain(relation: CountedIn) -> bool:
    """Whether a child counts nowhere else and has no children of its own."""
    counting = relation.owner._counting
    return len(counting.relations) == 1 and not counting.counters


def _delete_plain(keys: list[ItemKey], still_closed: Check) -> Protocol[None]:
    """Delete up to 99 children, if their parent is still the one that was closed.

    A transaction takes 4 MB of items (AWS: ``TransactWriteItems`` in its API reference), which large children that an
    index finds may exceed together: what is refused is tried in halves.
    """
    answer = yield build([*(Delete(key, ()) for key in keys), still_closed]).send()
    if not isinstance(answer, Refusal):
        return
    of_parent = answer.reasons[-1] if answer.reasons else None
    if of_parent is not None and of_parent.by_guard:
        raise Gone
    if len(keys) == 1:
        said = [f"{reason.code}: {reason.message}" for reason in answer.reasons if reason is not None]
        raise PynacountError(
            f"DynamoDB refused to delete {keys[0]}, a child of the parent {still_closed.key}: "
            f"{'; '.join(said) or answer.message}. The parent stays closed; mend that, and call delete() again"
        )
    half = len(keys) // 2
    for some in (keys[:half], keys[half:]):
        yield from _delete_plain(some, still_closed)
