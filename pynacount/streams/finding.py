"""Finding the parents of a counter that is kept from a stream, to be seeded."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from pynacount.commit import Driver
from pynacount.contributions import Tally
from pynacount.errors import PynacountError
from pynacount.expressions import Names
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.markers import clock
from pynacount.relations import CountedIn
from pynacount.schema import KeySchema
from pynacount.shards import layout_of
from pynacount.steps import Item, Protocol, Refusal, Send
from pynacount.streams.keeping import Keeping, streamed_relations
from pynacount.streams.moves import FENCE_PREFIX, is_fence
from pynacount.streams.spots import Spot

LEFT_BEHIND = 3600.0
"""Seconds after which a fence is taken to have been left behind."""


class Finder:
    """What the seeders of one counter share: who its parents are, and how they are written."""

    def __init__(self, counter: CounterField, kept: Keeping) -> None:
        self.counter, self.kept = counter, kept
        self.relations = streamed_relations(counter)
        self.tally: Tally = counter.tally
        self.present = 0  # parents that were found to have their tally

    def _spot(self, key: ItemKey) -> Spot:
        return Spot(self.tally, key, self.kept.creates, self.kept.bounds)

    def _driver(self, key: ItemKey) -> Driver:
        driver: Driver = self.counter.owner._counting.driver(f"{self.tally.label} of the item {key}", renew=True)
        return driver

    # -- finding parents

    def unseeded(self, anew: bool = False) -> Iterator[ItemKey]:
        """The keys of the parents that have no tally (``anew``: of all), each once."""
        schema = self.counter.owner._counting.schema
        names = (*schema.names, self.tally.attr_name, self.tally.shards_name, self.tally.retiring_name)
        known: set[ItemKey] = set()
        for item in self._scan(self.counter.owner._counting.driver(self.tally.label), schema.table, names):
            key = _key_of(self.counter, item)
            if key is not None and key not in known:
                known.add(key)
                if anew or layout_of(self.tally, item) is None:
                    yield key
                else:
                    self.present += 1
        for relation in self.relations:
            wanted = tuple(dict.fromkeys((*relation.child_schema.names, *relation.read_attributes)))
            driver = relation.owner._counting.driver(relation.label)
            for item in self._scan(driver, relation.child_schema.table, wanted):
                if is_fence(item):
                    self._clear(driver, relation.child_schema, item)
                    continue
                key = _parent_of(relation, item)
                if key is not None and key not in known:
                    known.add(key)
                    yield key

    def _clear(self, driver: Driver, schema: KeySchema, item: Item) -> None:
        """Delete a fence that a seeder left behind, which was killed long ago."""
        own = (item[name].get("S", "") for name in schema.names)
        text = next(text for text in own if text.startswith(FENCE_PREFIX)).removeprefix(FENCE_PREFIX)
        raised = text.partition("-")[0]
        if raised.isdecimal() and clock() - int(raised) > LEFT_BEHIND:
            key = {name: item[name] for name in schema.names}
            driver.run(_delete(schema.table, key))

    def _scan(self, driver: Driver, table: str, attributes: tuple[str, ...]) -> Iterator[Item]:
        start: Item | None = None
        while True:
            page = driver.run(_page(table, attributes, start))
            yield from page["Items"]
            start = page.get("LastEvaluatedKey")
            if not start:
                return


def new_token() -> str:
    """A seeder's name for its fence, which says when it was raised."""
    return f"{int(clock())}-{secrets.token_hex(8)}"


def _delete(table: str, key: Item) -> Protocol[None]:
    yield Send("DeleteItem", {"TableName": table, "Key": key})


def _page(table: str, attributes: tuple[str, ...], start: Item | None) -> Protocol[Mapping[str, Any]]:
    names = Names()
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "ProjectionExpression": ", ".join(names.name(name) for name in attributes),
        **names.request(),
        **({"ExclusiveStartKey": start} if start else {}),
    }
    answer = yield Send("Scan", request)
    assert not isinstance(answer, Refusal)
    return answer


def _key_of(counter: CounterField, item: Item) -> ItemKey | None:
    """The key of an item of the counter's model; None for another's."""
    schema = counter.owner._counting.schema
    values = tuple(next(iter(item[name].items())) for name in schema.names)
    key = ItemKey(schema.table, schema.names, values)
    try:
        schema.read_key(key)
    except PynacountError:
        return None
    return key


def _parent_of(relation: CountedIn, item: Item) -> ItemKey | None:
    """The key of a child's parent; None for what is no child."""
    child = relation.read(item)
    return None if child is None else relation.parent_key(child)
