"""What the raw items of a table are: parents of some counters, children of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pynacount.amounts import Amount, subtotal
from pynacount.contributions import Tally
from pynacount.errors import CounterTypeError, KeyTemplateError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.relations import CountedIn
from pynacount.schema import KeySchema
from pynacount.steps import Item
from pynacount.tallies.groups import Found, Groups


@dataclass(slots=True)
class PageSums:
    """What one page of children adds, by counter and parent.

    ``troubles``: of which parents a child cannot be read. ``strays``: the children that do not tell their parent. Both
    say why.
    """

    sums: dict[tuple[str, ItemKey], Amount] = field(default_factory=dict)
    troubles: dict[tuple[str, ItemKey], str] = field(default_factory=dict)
    strays: dict[tuple[str, ItemKey], str] = field(default_factory=dict)


class ParentFinder:
    """The parents of one counter among the items of their table, by their keys alone."""

    def __init__(self, counter: CounterField) -> None:
        self._tally: Tally = counter.tally
        self._schema: KeySchema = counter.owner._counting.schema
        rest = self._schema.fixed_range
        self._sort = dict(zip(self._schema.names[1:], ({kind: value} for kind, value in rest or ()), strict=False))

    def find(self, item: Item) -> Found | None:
        """The parent that the item is."""
        for name, value in self._sort.items():
            if item[name] != value:
                return None
        variables = _variables(self._schema, _key(self._schema, item))
        return None if variables is None else Found(self._tally, self._schema.key(variables), item, None)


class ParentsToo:
    """Groups, and beside them the parents whose children lie elsewhere: those with nothing counted."""

    def __init__(self, groups: Groups, finders: Sequence[ParentFinder]) -> None:
        self._groups, self._finders = groups, finders
        self.finish, self.saved, self.restore = groups.finish, groups.saved, groups.restore

    def take(self, items: Sequence[Item]) -> Iterator[Found]:
        """The parents that are found in a page, and those whose partition came to its end."""
        yield from self._groups.take(items)
        for item in items:
            for finder in self._finders:
                found = finder.find(item)
                if found is not None:
                    yield found


class ChildReader:
    """The children of one relation among the items of their table: whose they are, and what they count for."""

    def __init__(self, counter: str, relation: CountedIn) -> None:
        schema = relation.child_schema
        attributes = relation.owner.get_attributes()
        named = [name for name in relation.from_child.values() if name not in schema.variables]
        self.counter, self._relation, self._schema = counter, relation, schema
        self._names_parent = (*schema.names, *(attributes[name].attr_name for name in named))
        self.reads = tuple(dict.fromkeys((*self._names_parent, *relation.read_attributes)))

    def take(self, item: Item, page: PageSums) -> None:
        """Add up what the item counts for, if it is a child."""
        key = _key(self._schema, item)
        if _variables(self._schema, key) is None:
            return
        try:
            child = self._relation.read(_part(item, self.reads))  # what others read cannot keep it from being read
            moved = {} if child is None else self._relation.stored_contribution(child, item)
        except KeyTemplateError:
            return  # what should name its parent can be no parent's key, so it counts nowhere
        except CounterTypeError as error:
            self._cannot_read(item, key, error.msg, page)
            return
        for (_, parent), amount in moved.items():
            target = (self.counter, parent)
            page.sums[target] = subtotal(page.sums.get(target, 0), amount)

    def _cannot_read(self, item: Item, key: ItemKey, why: str, page: PageSums) -> None:
        try:
            child = self._relation.owner.from_raw_data(_part(item, self._names_parent))
            parent = self._relation.parent_key(child)
        except KeyTemplateError:
            return
        except (TypeError, ValueError):
            page.strays[self.counter, key] = why
            return
        if parent is not None:
            page.troubles.setdefault((self.counter, parent), why)


def _part(item: Item, names: Sequence[str]) -> Item:
    return {name: item[name] for name in names if name in item}


def _key(schema: KeySchema, item: Item) -> ItemKey:
    return ItemKey(schema.table, schema.names, tuple(next(iter(item[name].items())) for name in schema.names))


def _variables(schema: KeySchema, key: ItemKey) -> dict[str, object] | None:
    """The variables of an item's key; None where it is another model's."""
    try:
        return schema.read_key(key)
    except KeyTemplateError:
        return None
