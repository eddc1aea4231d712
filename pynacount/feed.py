"""A page of a feed: the tallies of many parents, and whether the viewer has a child in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from pynacount.errors import CounterContention, KeyTypeError
from pynacount.keys import ItemKey
from pynacount.protocols.batches import packed, read_groups, request_of
from pynacount.protocols.reading import gathered_from, homes_of, shown, shown_names
from pynacount.sizes import Cost
from pynacount.steps import Item, Protocol

if TYPE_CHECKING:
    from pynacount.relations import CountedIn, CountedSet

R = TypeVar("R", default=Any)


@dataclass(frozen=True, slots=True)
class PageRow(Generic[R]):
    """One parent of a page, for a template.

    ``ref`` is what was given. ``exists``: whether there is such a parent. ``tally``: None where there is none, or it is
    not seeded; during a repair the number from before it. ``mine``: whether the viewer's child is there; None where no
    viewer was given.
    """

    ref: R
    exists: bool
    tally: int | None
    mine: bool | None


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """What a page reads: the parents' keys and the viewer's children's, in the order of the refs."""

    counted_set: CountedSet[Any]
    refs: tuple[R, ...]
    parents: tuple[ItemKey, ...]
    children: tuple[ItemKey | None, ...]
    consistent_read: bool

    @property
    def keys(self) -> tuple[ItemKey, ...]:
        """All keys that are read, each once."""
        return tuple(dict.fromkeys(key for group in self._groups(self._homes()) for key in group))

    def _homes(self) -> dict[ItemKey, Sequence[ItemKey]]:
        """The items of each parent's tally: the parent, and the shards that it is taken to have just now."""
        return homes_of(self.counted_set.find_counter().tally, self.parents)

    def _groups(self, homes: Mapping[ItemKey, Sequence[ItemKey]]) -> Iterator[Sequence[ItemKey]]:
        """What is read, a tally and its shards by one request."""
        for parent, child in zip(self.parents, self.children, strict=True):
            yield homes[parent]
            if child is not None:
                yield (child,)

    def requests(self) -> list[dict[str, Any]]:
        """The arguments of boto3's ``batch_get_item``, up to 100 keys each; a parent and its shards are in one."""
        names, groups = self._names(), self._groups(self._homes())
        return [request_of(keys, names, consistent_read=self.consistent_read) for keys in packed(groups)]

    def cost(self) -> Cost:
        """Half a read unit for each key, or one for a consistent read; more where an item is over 4 KB.

        A projection saves bytes on the wire, not read units (AWS: "Read consumption", DynamoDB Developer Guide).
        """
        return Cost(wcu=0, rcu=len(self.keys) * (1.0 if self.consistent_read else 0.5), items=len(self.keys))

    def read(self) -> list[PageRow[R]]:
        """Read it. Raises :class:`CounterContention` where the deadline passes first."""
        about = f"{self.counted_set.label}.page"
        driver = self.counted_set.owner._counting.driver(about)
        try:
            found, parents = driver.run(self._read())
        except CounterContention as error:
            raise CounterContention(
                f"{about}: the table is throttled, and the {len(self.keys)} items of the page could not be read within "
                f"{driver.deadline:g} s. Try again later, or raise Meta.counted_deadline",
                error.cause,
            ) from error
        rows = zip(self.refs, self.parents, self.children, strict=True)
        return [self._row(ref, parent, parents[parent], child, found) for ref, parent, child in rows]

    def _read(self) -> Protocol[tuple[dict[ItemKey, Item], dict[ItemKey, Item | None]]]:
        """All items; and the parents, as if they carried their numbers themselves."""
        consistent, homes = self.consistent_read, self._homes()
        tally = self.counted_set.find_counter().tally
        found = yield from read_groups(self._groups(homes), self._names(), consistent_read=consistent)
        parents: dict[ItemKey, Item | None] = {}
        for key in self.parents:
            parents[key] = yield from gathered_from(tally, key, homes[key], found, consistent)
        return found.items, parents

    def _row(
        self, ref: R, parent: ItemKey, item: Item | None, child: ItemKey | None, found: Mapping[ItemKey, Item]
    ) -> PageRow[R]:
        tally: Any = None if item is None else shown(self.counted_set.find_counter().tally, parent, item)
        mine = None if child is None else self._is_child(found.get(child), parent)
        return PageRow(ref, item is not None, tally, mine)

    def _is_child(self, item: Item | None, parent: ItemKey) -> bool:
        relation = self.counted_set.relation
        if item is None or relation.is_told_by_key:
            return item is not None
        return relation.child(item, parent) is not None

    def _names(self) -> dict[str, tuple[str, ...]]:
        """The attributes that are read beside the keys, table by table: one request has one projection for each."""
        relation = self.counted_set.relation
        names = {relation.parent_schema.table: shown_names(self.counted_set.find_counter().tally)}
        if any(key is not None for key in self.children):
            table = relation.child_schema.table
            reads = () if relation.is_told_by_key else relation.read_attributes
            names[table] = (*names.get(table, ()), *reads)
        return names


def page_of(
    counted_set: CountedSet[Any], refs: Iterable[R], viewer: Mapping[str, Any] | None, *, consistent_read: bool
) -> Page[R]:
    """A page, checked; nothing is read. Raises :class:`KeyTypeError` where the viewer's keys cannot be told."""
    label = f"{counted_set.label}.page"
    if isinstance(refs, Mapping) or not isinstance(refs, Iterable):
        raise TypeError(f"{label}({refs!r:.60}): give a list of refs or of {counted_set.owner.__name__} instances")
    if viewer is not None and not isinstance(viewer, Mapping):
        raise TypeError(f"{label}(viewer={viewer!r:.60}) must be a dict: viewer=dict({_example(counted_set)})")
    given = tuple(refs)
    parents = tuple(counted_set.owner._counting.key_of(ref) for ref in given)
    children: tuple[ItemKey | None, ...] = (None,) * len(given)
    if viewer is not None:
        relation = counted_set.relation
        _check(relation, viewer, label)
        children = tuple(_child_key(relation, ref, viewer, label) for ref in given)
    return Page(counted_set, given, parents, children, consistent_read)


def _example(counted_set: CountedSet[Any]) -> str:
    return ", ".join(f"{name}=..." for name in _own_variables(counted_set.relation))


def _own_variables(relation: CountedIn) -> list[str]:
    return [name for name in relation.child_schema.variables if name not in relation.from_child.values()]


def _check(relation: CountedIn, viewer: Mapping[str, Any], label: str) -> None:
    own = _own_variables(relation)
    child = relation.owner.__name__
    if strange := [name for name in viewer if name not in own]:
        raise KeyTypeError(
            f"{label}: viewer has {', '.join(strange)}, which is no part of a {child}'s own key; give {', '.join(own)}"
        )
    if lacking := [name for name in own if name not in viewer]:
        raise KeyTypeError(
            f"{label}: the key of a {child} needs {', '.join(lacking)} too, which viewer does not give, so the "
            f"viewer's {child} cannot be told by its key"
        )


def _child_key(relation: CountedIn, ref: Any, viewer: Mapping[str, Any], label: str) -> ItemKey:
    theirs = ref.key_variables()
    known = {ours: theirs[name] for name, ours in relation.from_child.items()}
    key: ItemKey = relation.child_schema.key({**known, **viewer})
    return key
