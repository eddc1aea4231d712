"""Inspecting one parent: its item, its tallies, its children, and what the next child costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pynacount.amounts import plus
from pynacount.errors import CounterTypeError, DeclarationError
from pynacount.fields import CounterField
from pynacount.inspecting.parts import Child, Family, FamilyEnd, Parent, Part, PlainSum, Summary, Ways
from pynacount.inspecting.pricing import price, raw_key
from pynacount.items import number, read_item
from pynacount.keys import ItemKey
from pynacount.protocols.reading import read_tally
from pynacount.protocols.standings import Standing, standing
from pynacount.relations import CountedIn
from pynacount.shards import layout_of
from pynacount.sizes import item_size
from pynacount.steps import Item
from pynacount.ways import is_repaired, way_to_mend, way_to_seed

FIRST = 20
"""Children of each model that are shown where nothing else is said."""
MOST_A_PAGE = 1000
"""Items asked for in one request; a page ends at a megabyte before that, or not much behind it."""


def inspect(counters: Sequence[CounterField], ref: Any, first: int | None = FIRST) -> Iterator[Part]:
    """What there is to see of the parent ``ref`` and of these counters of its model, part by part, as it is read.

    ``first``: how many children of each model are shown; all of them for None. Nothing is written. It costs the read
    units of all the children once, to count them, and of those that are shown.
    """
    model = counters[0].owner
    key: ItemKey = model._counting.key_of(ref)
    item = model._counting.driver(model.__name__).run(read_item(key))
    variables = ref.key_variables()
    ways = {counter.label: _ways(counter, variables) for counter in counters}
    yield Parent(model.__name__, key, variables, item, item_size(item) if item else 0, ways)
    standings: list[Standing] = []
    for counter in counters:
        driver = model._counting.driver(counter.label, renew=True)
        standings.append(driver.run(standing(counter.tally, key)))
        yield standings[-1]
    yield from _plain_sums(model, key, item or {})
    ends: list[FamilyEnd] = []
    takes_children = item is not None and not any(s.state == "closed" for s in standings)
    for relations in _families(counters):
        for part in _family(relations, key, first, ref.key_variables() if takes_children else None):
            if isinstance(part, FamilyEnd):
                ends.append(part)
            yield part
    yield Summary(
        exists=item is not None,
        drifted=tuple(s.counter for s in standings if s.drift and not s.moving),
        wrong=tuple(s.counter for s in standings if s.wrong),
        unknown=tuple(s.counter for s in standings if s.unknown and not s.wrong),
        children=sum(end.shown for end in ends),
        more=any(end.more for end in ends),
        strays=sum(end.strays for end in ends),
    )


def _ways(counter: CounterField, variables: Mapping[str, Any]) -> Ways:
    target = counter.tally.target
    compare = f"pynacount audit {target} counts the children of all parents by a scan"
    if not is_repaired(counter):
        return Ways(way_to_seed(counter).said, way_to_mend(counter).said, compare)
    ref = f"{counter.owner.__name__}.ref({', '.join(f'{name}={value!r}' for name, value in variables.items())})"
    return Ways(
        f"the first write of a child counts it, or {counter.label}.seed({ref})",
        f"{counter.label}.repair({ref}) counts anew",
        compare,
    )


def _plain_sums(model: Any, key: ItemKey, item: Item) -> Iterator[PlainSum]:
    """The plain counters that are in shards: the item does not show their numbers."""
    for counter in model._counting.counters.values():
        tally = counter.tally
        layout = None if counter.is_counted else layout_of(tally, item)
        if layout is None or layout.shards == 1:
            continue
        driver = model._counting.driver(counter.label, renew=True)
        whole = driver.run(read_tally(tally, key, True, plain=True))
        beside = plus(number(item, tally.attr_name) or 0, number(item, tally.was_name) or 0)
        yield PlainSum(counter.label, counter.attr_name, whole, beside, layout)


def _families(counters: Sequence[CounterField]) -> list[dict[str, CountedIn]]:
    """The relations that find the same children, by the counters that they count in."""
    families: dict[Any, dict[str, CountedIn]] = {}
    for counter in counters:
        for relation in counter.counted_relations:
            families.setdefault(relation.place(), {}).setdefault(counter.label, relation)
    return list(families.values())


def _family(
    relations: dict[str, CountedIn], key: ItemKey, first: int | None, priced: Mapping[str, Any] | None
) -> Iterator[Part]:
    """``priced``: the parent's variables; None where no child can come to it, so that none has a price."""
    relation = next(iter(relations.values()))
    model = relation.owner.__name__
    example: Item | None = None
    shown, more, strays, problem = 0, False, 0, ""
    counts_keys = relation.source().each is not None
    try:
        found = _found(relation, key, None if first is None else first + 1)
        yield Family(model, tuple(relations))
        for item in found:
            child = _child(relations, item, key)
            if child is None:
                strays += counts_keys
                continue
            example = example or (None if child.problem else item)
            if shown == first:
                more = True
                break
            shown += 1
            yield child
    except DeclarationError as only_by_scan:
        problem = only_by_scan.msg
        yield Family(model, tuple(relations), problem)
    if not problem:
        yield FamilyEnd(model, shown, more, strays)
    if priced is not None:
        driver = relation.owner._counting.driver(relation.label, renew=True)
        yield driver.run(price(relation, priced, example))


def _found(relation: CountedIn, key: ItemKey, wanted: int | None) -> Iterator[Item]:
    """The raw items among which the children are, page by page."""
    limit = MOST_A_PAGE if wanted is None else min(wanted, MOST_A_PAGE)
    pages = relation.owner._counting.child_pages(relation, key, limit)
    first = next(pages)  # what cannot be found is told before anything is shown
    return (item for page in chain([first], pages) for item in page["Items"])


def _child(relations: dict[str, CountedIn], item: Item, key: ItemKey) -> Child | None:
    relation = next(iter(relations.values()))
    model = relation.owner.__name__
    own = raw_key(relation.child_schema, item)
    try:
        child = relation.child(item, key)
        if child is None:
            return None
        counts = {
            label: counted.contribution(child).get((counted.counter.tally, key), 0)
            for label, counted in relations.items()
        }
    except CounterTypeError as error:
        return Child(model, own, {}, {}, item, item_size(item), error.msg)
    except Exception as error:  # the application's own ``when`` or ``amount``
        return Child(model, own, {}, {}, item, item_size(item), f"{type(error).__name__}: {error}")
    return Child(model, own, child.key_variables(), counts, item, item_size(item))
