"""What one pass over a table looks for: the counters of the parents in it, compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pynacount.contributions import Tally
from pynacount.errors import DeclarationError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.relations import CountedIn
from pynacount.shards import mark_names
from pynacount.tallies.groups import Local, LocalSource


@dataclass(frozen=True, slots=True)
class TablePass:
    """One table, and what is to be seeded or audited in it.

    ``locals`` are counted while the table is scanned; ``queried`` are the tallies whose children are counted by a query
    for each parent; the children of ``elsewhere`` are found by a scan of their own table alone. ``attributes`` is all
    that is read of an item.
    """

    table: str
    model: Any
    names: tuple[str, ...]
    locals: tuple[Local, ...]
    queried: frozenset[Tally]
    attributes: tuple[str, ...]
    orphans: bool
    elsewhere: tuple[CounterField, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The counters, as messages speak of them."""
        return (*(local.tally.label for local in self.locals), *(counter.label for counter in self.elsewhere))


def passes(
    counters: Iterable[CounterField], *, by_query: bool = False, orphans: bool = False, elsewhere: bool = False
) -> tuple[TablePass, ...]:
    """One pass for each table that the counters' parents lie in.

    ``orphans``: whether groups of children without a parent are found too. ``elsewhere``: whether counters are taken
    whose children only a scan of the children's table finds, if not ``by_query``; else :class:`DeclarationError` is
    raised for one.
    """
    by_place: dict[Any, list[CounterField]] = {}
    for counter in {id(counter): counter for counter in counters}.values():
        meta = counter.owner.Meta
        place = (counter.owner._counting.table, getattr(meta, "region", None), getattr(meta, "host", None))
        by_place.setdefault(place, []).append(counter)
    return tuple(_pass(table, sharing, by_query, orphans, elsewhere) for (table, *_), sharing in by_place.items())


def _pass(table: str, counters: list[CounterField], by_query: bool, orphans: bool, elsewhere: bool) -> TablePass:
    locals_: list[Local] = []
    apart: list[CounterField] = []
    queried: set[Tally] = set()
    reads: dict[str, None] = {}
    for counter in counters:
        tally = counter.tally
        relations = counter.places()
        reads.update(dict.fromkeys(mark_names(tally)))
        if elsewhere and not by_query and is_elsewhere(counter):
            apart.append(counter)
            continue
        local = not by_query and bool(relations) and all(map(_is_local, relations))
        sources: tuple[LocalSource, ...] = ()
        if local:
            sources = tuple(_source(relation) for relation in relations)
            for relation in relations:
                reads.update(dict.fromkeys(relation.read_attributes))
        else:
            queried.add(tally)
            check_query(counter)
        locals_.append(Local(tally, _key_of_partition(counter), _constant_sort(counter), sources))
    names = counters[0].owner._counting.schema.names
    return TablePass(
        table=table,
        model=counters[0].owner,
        names=names,
        locals=tuple(locals_),
        queried=frozenset(queried),
        attributes=tuple(dict.fromkeys((*names, *reads))),
        orphans=orphans,
        elsewhere=tuple(apart),
    )


def is_elsewhere(counter: CounterField) -> bool:
    """Whether only a scan of the children's table finds all children of a parent."""
    return any(map(only_a_scan_finds, counter.counted_relations))


def only_a_scan_finds(relation: CountedIn) -> bool:
    """Whether no query can find the children of one parent."""
    return not relation._finds_by_key() and relation.index is None


def _is_local(relation: CountedIn) -> bool:
    """Whether the children lie in their parent's own partition."""
    return relation.child_schema.table == relation.parent_schema.table and relation._fixed is not None


def _source(relation: CountedIn) -> LocalSource:
    source = relation.source()
    return LocalSource(relation._literal_prefix(), source.each, source.amount)


def check_query(counter: CounterField) -> None:
    """Raise :class:`DeclarationError` where no query finds the children of one parent."""
    for relation in counter.places():
        if only_a_scan_finds(relation):
            raise DeclarationError(
                f"{relation.label}: the children lie in partitions of their own; declare an index on them, so that "
                f'those of one parent can be counted: CountedIn(..., index="...")'
            )


def _constant_sort(counter: CounterField) -> str | None:
    counting = counter.owner._counting
    if counting.schema.range is None:
        return None
    if counting.constant_range is None:
        raise DeclarationError(
            f"{counter.label}: several parents share a partition, so a pass over the table cannot tell their children "
            f"apart; seed them one by one: {counter.label}.seed(ref)"
        )
    constant: str = counting.constant_range
    return constant


def _key_of_partition(counter: CounterField) -> Callable[[str], ItemKey | None]:
    schema = counter.owner._counting.schema
    rest = schema.fixed_range or ()
    template = schema.hash.template

    def key(partition: str) -> ItemKey | None:
        if template is not None and template.parse(partition) is None:
            return None
        return ItemKey(schema.table, schema.names, (("S", partition), *rest))

    return key
