"""Counting the children of one parent, page after page, by consistent reads."""

from __future__ import annotations

from typing import Any

from pynacount.amounts import Amount, plus, times
from pynacount.contributions import Source, Tally
from pynacount.errors import CounterNotSeeded
from pynacount.keys import ItemKey
from pynacount.steps import Protocol, Refusal, Send, Wait


def count(tally: Tally, key: ItemKey, limit: int | None = None, *, patient: bool = True) -> Protocol[Amount]:
    """The number that ``tally`` should hold on the parent ``key``, from its children as they stand.

    Exact only while no child comes or goes; it is the seeder's business to see to that. ``limit`` is the most
    children that may be counted; past it, :class:`CounterNotSeeded`. ``patient``: whether an index that trails its
    table is waited for.
    """
    total: Amount = 0
    seen = 0
    for source in tally.sources():
        if source.eventually_consistent and patient:
            found, children = yield from _count_twice(tally, source, key, limit)
        else:
            found, children = yield from _count_one(tally, source, key, limit)
        total = plus(total, found)
        seen += children
        if limit is not None and seen > limit:
            raise CounterNotSeeded(too_many(tally, key, limit))
    return total


def too_many(tally: Tally, key: ItemKey, limit: int) -> str:
    """Why a writer does not count this parent, and what to do."""
    return (
        f"{tally.label} of the parent {key} was never seeded, and it has more than lazy_seed_limit={limit} children: "
        f"too many to count on a writer's way. Seed it by {tally.label}.seed(ref)"
    )


def only_a_scan_finds(tally: Tally, key: ItemKey) -> str:
    """The children, as messages speak of them, that no query finds; empty where a query finds them all."""
    return ", ".join(source.label for source in tally.sources() if source.find(key) is None)


def _query(tally: Tally, source: Source, key: ItemKey) -> dict[str, Any]:
    query = source.find(key)
    if query is None:
        way = (
            f"Compare all parents by one: pynacount audit {tally.target}"
            if source.streamed  # then no seed was asked for, which would not go this way
            else f"Seed all parents by one: pynacount migrate {tally.target}"
        )
        raise CounterNotSeeded(
            f"{tally.label} of the parent {key}: its children ({source.label}) lie in partitions of their own, which "
            f'only a scan finds. {way}; or declare an index on them: CountedIn(..., index="...")'
        )
    return query


def _count_one(tally: Tally, source: Source, key: ItemKey, limit: int | None) -> Protocol[tuple[Amount, int]]:
    query = _query(tally, source, key)
    total: Amount = 0
    children = 0
    start: dict[str, object] | None = None
    while True:
        page = {**query, "ExclusiveStartKey": start} if start else query
        answer = yield Send("Query", page)
        assert not isinstance(answer, Refusal)
        if source.each is not None:
            children += answer["Count"]
            total = plus(total, times(source.each, answer["Count"]))
        else:
            for item in answer["Items"]:
                found = source.amount(item, key)
                if found is not None:
                    children += 1
                    total = plus(total, found)
        start = answer.get("LastEvaluatedKey")
        if not start or (limit is not None and children > limit):
            return total, children


def _count_twice(tally: Tally, source: Source, key: ItemKey, limit: int | None) -> Protocol[tuple[Amount, int]]:
    """A global index trails its table: let it catch up, and believe it when two counts agree."""
    before: tuple[Amount, int] | None = None
    while True:
        yield Wait(tally.settle)
        now = yield from _count_one(tally, source, key, limit)
        if now == before:
            return now
        before = now
