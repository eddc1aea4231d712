"""The relationship between children and the parents they count in, as an application declares it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, NoReturn, cast, get_args, overload

from pynamodb.attributes import Attribute, BooleanAttribute, TTLAttribute
from pynamodb.constants import NULL, NUMBER
from pynamodb.exceptions import AttributeDeserializationError
from pynamodb.indexes import GlobalSecondaryIndex, Index
from typing_extensions import TypeVar

from pynacount.amounts import Amount, amount, plus
from pynacount.bulk import Added, Bulk, Discarded, Values, Verb, of_a_parent_named
from pynacount.contributions import NOTHING, By, Contribution, Source
from pynacount.errors import (
    AlreadyCounted,
    CounterTypeError,
    DeclarationError,
    KeyTemplateError,
    KeyTypeError,
    NotCounted,
    PynacountError,
)
from pynacount.expressions import Names
from pynacount.feed import Page, PageRow, page_of
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.plan import Plan
from pynacount.refs import Ref
from pynacount.schema import KeySchema

if TYPE_CHECKING:
    from typing_extensions import Never, Self

C = TypeVar("C", covariant=True, default=Any)
R = TypeVar("R")


class CountedIn:
    """Declared on a child: its items count in this counter of their parent.

    The parent's key comes from the child's variables and attributes of the same names.

    :param counter: the parent's counter, ``Post.like_tally``.
    :param when: count a child only while this holds: the name of a boolean attribute, or a callable of the child.
    :param amount: what a child counts for: a number, the name of a numeric attribute, or a callable of the child.
        A missing value counts for nothing.
    :param reads: the attributes that a callable reads, by their Python names.
    :param index: the name of an index of the child's table, keyed by the attribute that names the parent; for
        children that lie in partitions of their own.
    :param by: ``"transaction"``: the child and the number are written together. ``"stream"``: the child is written
        alone, and :class:`pynacount.streams.StreamTally` keeps the number from the stream of the child's table.
    :param variables: the parent's key variables whose names differ: ``user_id="author_id"`` takes the parent's
        ``user_id`` from the child's ``author_id``.
    """

    def __init__(
        self,
        counter: CounterField,
        when: str | Callable[[Any], Any] | None = None,
        amount: float | Decimal | str | Callable[[Any], float | Decimal | None] = 1,
        reads: tuple[str, ...] | list[str] = (),
        index: str | None = None,
        by: By = "transaction",
        **variables: str,
    ) -> None:
        if by not in get_args(By):
            raise DeclarationError(f"CountedIn(by={by!r}) is not known; write one of {', '.join(get_args(By))}")
        if not isinstance(counter, CounterField):
            raise DeclarationError(
                f"CountedIn({counter!r}) must be given a counter of the parent, as in CountedIn(Post.like_tally)"
            )
        if isinstance(reads, str) or not isinstance(reads, (tuple, list)):
            raise DeclarationError(f'CountedIn(reads={reads!r}) must be a tuple of names, as in reads=("hidden",)')
        self.counter: CounterField = counter
        self.when = when
        self.amount = amount
        self.reads = tuple(reads)
        self.index = index
        self.by: By = by
        self.variables = variables
        self.owner: Any = None
        self.name = ""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.owner, self.name = owner, name

    def __set__(self, instance: Any, value: Never) -> None:
        raise AttributeError(
            f"{self.label} cannot be assigned: the parent follows from {', '.join(self.from_child.values())}"
        )

    def copy_for(self, owner: Any) -> CountedIn:
        """The same relation, speaking of a subclass of the child."""
        twin = copy.copy(self)
        if self.counter.owner is self.owner:  # counted in its own model: the subclass counts in itself
            twin.counter = getattr(owner, self.counter.name)
        twin.owner = owner
        twin.__dict__.pop("_source", None)
        return twin

    @property
    def label(self) -> str:
        """How messages speak of this relation: ``Like.post``."""
        return f"{self.owner.__name__}.{self.name}"

    @property
    def child_schema(self) -> KeySchema:
        """The child's keys."""
        schema: KeySchema = self.owner._counting.schema
        return schema

    @property
    def parent_schema(self) -> KeySchema:
        """The parent's keys."""
        schema: KeySchema = self.counter.owner._counting.schema
        return schema

    # -- compiled when the child's class is built

    def compile(self) -> None:
        """Check the declaration against both models, and compile it. Raises :class:`DeclarationError`."""
        schema: KeySchema = self.owner._counting.schema
        attributes: Mapping[str, Attribute[Any]] = self.owner.get_attributes()
        parent = self.counter.owner._counting
        if parent.table is None:
            raise DeclarationError(
                f"{self.label} counts in {self.counter.label}, but {self.counter.owner.__name__} has no table of "
                f"its own; in {self.owner.__name__} write {self.name} = CountedIn(<your model>.{self.counter.name})"
            )
        for name in self.variables:
            if name not in self.parent_schema.variables:
                raise DeclarationError(
                    f"{self.label}: {self.counter.owner.__name__} has no key variable {name!r}; it has "
                    f"{', '.join(self.parent_schema.variables) or 'none'}"
                )
        self.from_child = {name: self.variables.get(name, name) for name in self.parent_schema.variables}
        known = {*schema.variables, *attributes}
        for theirs, ours in self.from_child.items():
            if ours not in known:
                raise DeclarationError(
                    f"{self.label}: nothing gives {self.counter.owner.__name__}'s key variable {theirs!r}; write "
                    f'CountedIn({self.counter.label}, {theirs}="<the attribute of {self.owner.__name__}>")'
                )
        read = [name for name in self.from_child.values() if name not in schema.variables]
        read += self._compile_when(attributes)
        read += self._compile_amount(attributes)
        for name in self.reads:
            if name not in known:
                raise DeclarationError(f"{self.label}: reads={name!r} is no attribute of {self.owner.__name__}")
        self.read_names = tuple(dict.fromkeys(name for name in (*read, *self.reads) if name not in schema.variables))
        self.read_attributes = tuple(attributes[name].attr_name for name in self.read_names)
        discriminator = self.owner._discriminator
        if discriminator:  # it says which items are this model's, and never changes
            self.read_attributes += (attributes[discriminator].attr_name,)
        self._check_place()
        self._check_keeping()
        self._check_expiry()
        if self.counter.shards > 1 and self.counter.missing == "zero" and self.by == "transaction":
            raise DeclarationError(
                f"{self.label} counts in {self.counter.label}, which is in shards and cannot be declared "
                f'missing="zero": a shard that is not there says nothing of its parent. Declare missing="seed"'
            )
        same_hash = self._same_template(schema.hash, self.parent_schema.hash)
        rest = self.parent_schema.fixed_range
        self._fixed = (schema.hash.name, rest) if same_hash and rest is not None else None

    def _same_template(self, ours: Any, theirs: Any) -> bool:
        return (
            ours.template is not None
            and theirs.template is not None
            and ours.template.parts == theirs.template.renamed(self.from_child)
            and ours.template.escape == theirs.template.escape
        )

    def _same_partition(self) -> bool:
        ours, theirs = self.child_schema.hash, self.parent_schema.hash
        if ours.template is None and theirs.template is None:
            return self.from_child[theirs.name] == ours.name
        return self._same_template(ours, theirs)

    def _compile_when(self, attributes: Mapping[str, Attribute[Any]]) -> list[str]:
        if self.when is None:
            self._counts: Callable[[Any], Any] | None = None
            return []
        if isinstance(self.when, str):
            name = self.when
            if name not in attributes:
                raise DeclarationError(f"{self.label}: when={name!r} is no attribute of {self.owner.__name__}")
            if not isinstance(attributes[name], BooleanAttribute):
                raise DeclarationError(
                    f"{self.label}: when={name!r} is no BooleanAttribute; write "
                    f"when=lambda child: ..., reads=({name!r},)"
                )
            self._counts = lambda child: getattr(child, name)
            return [name]
        return self._callable("when", self.when, "_counts")

    def _compile_amount(self, attributes: Mapping[str, Attribute[Any]]) -> list[str]:
        self.constant: Amount | None = None
        if isinstance(self.amount, str):
            name = self.amount
            if name not in attributes or attributes[name].attr_type != NUMBER:
                raise DeclarationError(
                    f"{self.label}: amount={name!r} is no numeric attribute of {self.owner.__name__}"
                )
            self._amount: Callable[[Any], Any] = lambda child: getattr(child, name)
            return [name]
        if callable(self.amount):
            return self._callable("amount", self.amount, "_amount")
        self.constant = constant = amount(self.amount, self.label)
        if not constant:
            raise DeclarationError(f"{self.label}: amount=0 counts nothing; leave the relation out")
        self._amount = lambda child: constant
        return []

    def _callable(self, option: str, function: Any, slot: str) -> list[str]:
        if not callable(function):
            raise DeclarationError(f"{self.label}: {option}={function!r} must be an attribute's name or a callable")
        if not self.reads:
            raise DeclarationError(
                f'{self.label}: {option} is a callable; say which attributes it reads: reads=("...",). An edit of the '
                f"child is guarded on them"
            )
        setattr(self, slot, function)
        return []

    def _check_place(self) -> None:
        ours = self.child_schema
        in_partition = ours.table == self.parent_schema.table and self._same_partition()
        if in_partition and (ours.range is None or ours.range.template is None or not self._literal_prefix()):
            raise DeclarationError(
                f"{self.label}: the children lie in their parent's partition, so their sort key must tell them from "
                f"the rest of it; write {self.owner.__name__}."
                f'{ours.range.name if ours.range else "sk"} = KeyAttribute("LIKE#{{user_id}}", range_key=True)'
            )
        if self.index is not None and self.index not in self.owner._indexes:
            raise DeclarationError(
                f"{self.label}: {self.owner.__name__} declares no index named {self.index!r}; it has "
                f"{', '.join(self.owner._indexes) or 'none'}"
            )
        if (index := self._index()) is not None:
            hash_name = self._index_name(_index_hash(index).attr_name)
            if hash_name not in self.from_child.values():
                raise DeclarationError(
                    f"{self.label}: the index {self.index!r} is keyed by {hash_name}, which does not name the "
                    f"parent; it must be keyed by one of {', '.join(self.from_child.values())}"
                )
            self._check_projection(index)

    def _check_keeping(self) -> None:
        """A number is kept in one way, and a stream's consumer neither closes parents nor holds up writers."""
        counter = self.counter
        for other in counter.counted_relations:
            if other.by != self.by and (other.owner.__qualname__, other.name) != (self.owner.__qualname__, self.name):
                raise DeclarationError(
                    f"{self.label} counts in {counter.label} by {self.by}, and {other.label} by {other.by}: each would "
                    f"count what the other does not know of. Keep one counter in one way, or declare two counters"
                )
        if self.by != "stream":
            return
        if counter.on_delete == "cascade":
            raise DeclarationError(
                f'{self.label} counts by stream, and {counter.label} is declared on_delete="cascade", which needs '
                f"children that come and go by transaction; leave on_delete out"
            )
        if counter.missing == "defer" or counter.revision is not None:
            what = 'missing="defer"' if counter.missing == "defer" else "revision=..."
            raise DeclarationError(
                f"{self.label} counts by stream, and {counter.label} is declared {what}, which speaks of writers that "
                f"count by transaction; leave it out"
            )

    def _check_expiry(self) -> None:
        if self.by == "stream":
            return
        parent = self.counter.owner
        ttl = next((name for name, a in parent.get_attributes().items() if isinstance(a, TTLAttribute)), None)
        if ttl is not None and self.counter.on_delete != "leave":
            raise DeclarationError(
                f"{self.label} counts in {self.counter.label}, and {parent.__name__}.{ttl} is a TTL attribute: "
                f"DynamoDB deletes expired parents and leaves their children. Declare the counter with "
                f'on_delete="leave", so that a parent that comes again is counted'
            )

    def _check_projection(self, index: Index[Any]) -> None:
        projection = index.Meta.projection
        if projection.projection_type == "ALL":
            return
        key_names = {a.attr_name for a in index.Meta.attributes.values()} | set(self.child_schema.names)
        held = key_names | set(projection.non_key_attributes or ())
        if lacking := [name for name in self.read_attributes if name not in held]:
            raise DeclarationError(
                f"{self.label}: the index {self.index!r} does not hold {', '.join(lacking)}, which the child counts "
                f"by; project it: IncludeProjection({lacking!r})"
            )

    def _index_name(self, attr_name: str) -> str:
        """The child's Python name for an attribute of its index."""
        return next((n for n, a in self.owner.get_attributes().items() if a.attr_name == attr_name), attr_name)

    def _literal_prefix(self) -> str:
        template = self.child_schema.range.template if self.child_schema.range else None
        return template.prefix({}, self.label)[0] if template is not None else ""

    # -- what one child counts for

    def parent_key(self, child: Any) -> ItemKey | None:
        """The key of the child's parent; None where an attribute that names it is not set."""
        if self._fixed is not None:
            hash_name, rest = self._fixed
            value = ("S", child.attribute_values[hash_name])
            return ItemKey(self.parent_schema.table, self.parent_schema.names, (value, *rest))
        own = child.key_variables()
        values: dict[str, Any] = {}
        for theirs, ours in self.from_child.items():
            value = own[ours] if ours in own else getattr(child, ours)
            if value is None:
                return None
            values[theirs] = value
        return self.parent_schema.key(values)

    def contribution(self, child: Any) -> Contribution:
        """What this child adds to the tally of its parent, nothing where it does not count."""
        if self._counts is not None and not self._counts(child):
            return NOTHING
        number = self.constant
        if number is None:
            given = self._amount(child)
            number = 0 if given is None else amount(given, f"{self.label} of {child!r}")
        if not number:
            return NOTHING
        key = self.parent_key(child)
        return NOTHING if key is None else {(self.counter.tally, key): number}

    # -- where the children of one parent are found

    def place(self) -> tuple[Any, ...]:
        """Two relations with one place have the same children: a model and its subclass over the same keys."""
        counting = self.owner._counting
        return (counting.table, counting.keys, tuple(self.from_child.items()), self.index)

    def source(self) -> Source:
        """How the children are counted for a seed or an audit."""
        shared = self.owner._counting.shares_prefix()
        whole = not shared if self._finds_by_key() else len(self.from_child) == 1
        plain = whole and self.constant is not None and self._counts is None and not self.owner._discriminator
        return Source(
            label=self.owner.__name__,
            table=self.child_schema.table,
            each=self.constant if plain else None,
            amount=self._amount_of_item,
            find=lambda key: self.query(key, count_only=plain),
            reads=self.read_attributes,
            eventually_consistent=self.trails,
            streamed=self.by == "stream",
        )

    @property
    def is_told_by_key(self) -> bool:
        """Whether a child's key alone says whose child it is."""
        return set(self.from_child.values()) <= set(self.child_schema.variables)

    @property
    def trails(self) -> bool:
        """Whether the children are found by a global index, which trails its table."""
        return not self._finds_by_key() and isinstance(self._index(), GlobalSecondaryIndex)

    def _finds_by_key(self) -> bool:
        return set(self.child_schema.hash.variables) <= set(self.from_child.values())

    def _index(self) -> Index[Any] | None:
        return None if self.index is None else cast("Index[Any]", self.owner._indexes[self.index])

    def _amount_of_item(self, item: Mapping[str, Any], parent: ItemKey) -> Amount | None:
        child = self.child(item, parent)
        return None if child is None else self.stored_contribution(child, item).get((self.counter.tally, parent), 0)

    def stored_contribution(self, child: Any, item: Mapping[str, Any]) -> Contribution:
        """What a stored child counts for. Raises :class:`CounterTypeError` for one that cannot be counted."""
        try:
            return self.contribution(child)
        except PynacountError:
            raise
        except Exception as broken:  # the application's own ``when`` or ``amount``
            said = f"{type(broken).__name__}: {broken}"
            raise CounterTypeError(f"{self.label}: {self._shown(item)} cannot be counted: {said}") from broken

    def _shown(self, item: Mapping[str, Any]) -> str:
        return "the child " + " ".join(
            f"{name}={next(iter(item[name].values()))!r}" for name in self.child_schema.names
        )

    def child(self, item: Mapping[str, Any], parent: ItemKey) -> Any:
        """The child that a raw item is; None where it is another model's item, or another parent's child.

        Raises :class:`CounterTypeError` for a child that cannot be read.
        """
        child = self.read(item)
        return child if child is not None and self.parent_key(child) == parent else None

    def read(self, item: Mapping[str, Any]) -> Any:
        """The child that a raw item is, whosever it is; None where it is another model's item.

        Raises :class:`CounterTypeError` for a child that cannot be read.
        """
        try:
            if not issubclass(self._kind_of(item), self.owner):
                return None  # another kind of the same family
            child = self.owner.from_raw_data(dict(item))
            child.key_variables()
        except KeyTemplateError:
            return None  # it only begins like one of ours
        except (TypeError, ValueError) as error:
            raise CounterTypeError(
                f"{self.label}: {self._shown(item)} cannot be read: {self._why(error, item)}"
            ) from error
        return child

    def _why(self, error: Exception, item: Mapping[str, Any]) -> str:
        """What keeps an item from being read. PynamoDB's own words name the declared type as the one that is stored."""
        if isinstance(error, AttributeDeserializationError):
            for attribute in self.owner.get_attributes().values():
                stored = next(iter(item.get(attribute.attr_name, {})), None)
                if stored not in (None, NULL, attribute.attr_type):
                    return f"{attribute.attr_name!r} is stored as {stored}, and declared as {attribute.attr_type}"
        return str(error)

    def _kind_of(self, item: Mapping[str, Any]) -> Any:
        """The class that a raw item says it is of; the child's own where it says nothing."""
        if not self.owner._discriminator:
            return self.owner
        attribute = self.owner.get_attributes()[self.owner._discriminator]
        value = item.get(attribute.attr_name)
        return self.owner if value is None else attribute.deserialize(attribute.get_value(value))

    def query(self, parent: ItemKey, *, count_only: bool, whole_items: bool = False) -> dict[str, Any] | None:
        """The query that finds the parent's children; None where only a scan could."""
        theirs = self.parent_schema.read_key(parent)
        known = {ours: theirs[name] for name, ours in self.from_child.items()}
        names = Names()
        request: dict[str, Any] = {"TableName": self.child_schema.table}
        if self._finds_by_key():
            condition = _key_condition(self.child_schema, known, names)
            request["ConsistentRead"] = True
        elif (index := self._index()) is not None:
            attribute = _index_hash(index)
            value = known[self._index_name(attribute.attr_name)]
            condition = f"{names.name(attribute.attr_name)} = " + names.value(
                {attribute.attr_type: attribute.serialize(value)}, "parent"
            )
            request["IndexName"] = self.index
            request["ConsistentRead"] = not isinstance(index, GlobalSecondaryIndex)
        else:
            return None
        request["KeyConditionExpression"] = condition
        if count_only:
            request["Select"] = "COUNT"
        elif not whole_items:
            wanted = dict.fromkeys((*self.child_schema.names, *self.read_attributes))
            request["ProjectionExpression"] = ", ".join(names.name(name) for name in wanted)
        return {**request, **names.request()}


def _index_hash(index: Index[Any]) -> Attribute[Any]:
    found: Attribute[Any] = next(a for a in index.Meta.attributes.values() if a.is_hash_key)
    return found


def _key_condition(schema: KeySchema, known: Mapping[str, Any], names: Names) -> str:
    kind, value = schema.hash.typed(schema.hash.value(known))
    condition = f"{names.name(schema.names[0])} = " + names.value({kind: value}, "parent")
    if schema.range is None or schema.range.template is None:
        return condition
    prefix, whole = schema.range.template.prefix(known, schema.range.where)
    if whole:
        return f"{condition} AND {names.name(schema.names[1])} = " + names.value({"S": prefix}, "child")
    if prefix:
        return f"{condition} AND begins_with({names.name(schema.names[1])}, {names.value({'S': prefix}, 'children')})"
    return condition


_VERBS = frozenset({"add", "discard", "remove", "contains", "recount"})


class CountedSet(Generic[C]):
    """Declared on a parent: its children of one model, with the verbs of Python's ``set``.

    :param child: the child's model, or its name (``"Like"``; with its module, ``"app.models:Like"``, where two
        have the same name). It must have a ``CountedIn`` that names ``tally``.
    :param tally: the name of the parent's ``CounterField``.
    """

    @overload
    def __init__(self, child: str, *, tally: str) -> None: ...

    @overload
    def __init__(self, child: type[C], *, tally: str) -> None: ...

    def __init__(self, child: str | type[Any], *, tally: str) -> None:
        if not (isinstance(child, str) and child) and not hasattr(child, "_counting"):
            raise DeclarationError(
                f'CountedSet({child!r}) must be given the child\'s model or its name, as in CountedSet("Like", ...)'
            )
        if not isinstance(tally, str) or not tally:
            raise DeclarationError(
                f'CountedSet(tally={tally!r}) must be the name of a counter of the same model, as in tally="like_tally"'
            )
        self.child = child
        self.tally = tally
        self.owner: Any = None
        self.name = ""
        self._relation: CountedIn | None = None

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.owner, self.name = owner, name

    def copy_for(self, owner: Any) -> CountedSet[C]:
        """The same set, speaking of a subclass of the parent."""
        twin = copy.copy(self)
        twin.owner, twin._relation = owner, None
        return twin

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...

    @overload
    def __get__(self, instance: Any, owner: Any) -> BoundSet[C]: ...

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else BoundSet(self, instance)

    def __set__(self, instance: Any, value: Never) -> None:
        raise AttributeError(f"{self.label} cannot be assigned; add() and discard() its children")

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name in _VERBS:
                raise AttributeError(
                    f"{self.label} is the declaration; {name}() is asked of one parent: "
                    f"{self.owner.__name__}.ref(...).{self.name}.{name}(...)"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def label(self) -> str:
        """How messages speak of this set: ``Post.likes``."""
        return f"{self.owner.__name__}.{self.name}"

    def add_many(self, children: Iterable[Values]) -> Added:
        """As :meth:`BoundSet.add_many`, over several parents: each dict names its parent too.

        Children of one parent are brought together, as far as they lie within 10,000 elements, and what is left of
        several parents shares transactions.
        """
        return self._bulk().add(children)

    def discard_many(self, children: Iterable[Values]) -> Discarded:
        """As :meth:`BoundSet.discard_many`, over several parents: each dict names its parent too."""
        return self._bulk().discard(children)

    def plan_add_many(self, children: Iterable[Values]) -> list[Plan]:
        """The transactions that ``add_many()`` would send if no child were there yet, as data; nothing is sent."""
        return self._bulk().plans("add", children)

    def plan_discard_many(self, children: Iterable[Values]) -> list[Plan]:
        """The transactions that ``discard_many()`` would send if all were there, as data; nothing is sent."""
        return self._bulk().plans("discard", children)

    def page(
        self, refs: Iterable[R], viewer: Mapping[str, Any] | None = None, *, consistent_read: bool = False
    ) -> list[PageRow[R]]:
        """A page of a feed: for each parent its tally, and whether the viewer's child is there.

        One ``BatchGetItem`` for 50 parents (two keys each, 100 a request), or for 100 without a viewer. The rows come
        in the order of the refs; a parent that does not exist has a row that says so.

        :param refs: refs or instances of the parent.
        :param viewer: what the key of a child needs beside its parent's variables: ``dict(user_id="7c20")``.
        :param consistent_read: at twice the read units, what is committed is seen for certain.

        Raises :class:`KeyTemplateError`, before anything is sent, where the viewer's children cannot be told by their
        keys; :class:`CounterContention` where a throttled table does not answer within ``Meta.counted_deadline``;
        :class:`CounterTypeError` for a tally that is stored as something else than a number.
        """
        return page_of(self, refs, viewer, consistent_read=consistent_read).read()

    def plan_page(
        self, refs: Iterable[R], viewer: Mapping[str, Any] | None = None, *, consistent_read: bool = False
    ) -> Page[R]:
        """What ``page()`` would send, with ``requests()`` and ``cost()``; nothing is sent."""
        return page_of(self, refs, viewer, consistent_read=consistent_read)

    def _bulk(self) -> Bulk:
        return Bulk(self.label, self.relation, of_a_parent_named(self.relation, self.label), several_parents=True)

    def find_counter(self) -> CounterField:
        """The counter that the children count in. Raises :class:`DeclarationError` where there is none."""
        counter = self.owner.get_attributes().get(self.tally)
        if not isinstance(counter, CounterField):
            raise DeclarationError(
                f"{self.label}: tally={self.tally!r} is no counter of {self.owner.__name__}; declare "
                f"{self.tally} = CounterField(attr_name=...)"
            )
        return counter

    @property
    def relation(self) -> CountedIn:
        """The child's side of the relationship. Raises :class:`DeclarationError` where it never appeared."""
        if self._relation is None:
            counter = self.find_counter()
            wanted = self.child if isinstance(self.child, str) else f"{self.child.__module__}:{self.child.__qualname__}"
            found = [r for r in counter.counted_relations if wanted in _names(r.owner)]
            if not found:
                name = wanted.rpartition(":")[2]
                raise DeclarationError(
                    f"{self.label} speaks of {wanted!r}, but no model of that name counts in {counter.label}; declare "
                    f"class {name}(CountedModel) with {self.owner.__name__.lower()} = CountedIn({counter.label}), and "
                    f"import its module"
                )
            if len({r.place() for r in found}) > 1:
                raise DeclarationError(
                    f"{self.label} speaks of {wanted!r}, and several models of that name count in {counter.label}; "
                    f'write CountedSet("{found[0].owner.__module__}:{found[0].owner.__qualname__}", ...)'
                )
            self._relation = found[-1]
        return self._relation


def _names(model: Any) -> tuple[str, str]:
    return model.__name__, f"{model.__module__}:{model.__qualname__}"


class BoundSet(Generic[C]):
    """The children of one parent: ``Post.ref(post_id="a91f").likes``."""

    __slots__ = ("_parent", "_set")

    def __init__(self, counted_set: CountedSet[C], parent: Any) -> None:
        self._set = counted_set
        self._parent = parent

    def add(self, **values: Any) -> bool:
        """Create the child and count it, in one transaction. False if it was there already.

        Raises :class:`ParentMissing`, :class:`CounterBoundError` (no room), :class:`CounterNotSeeded`,
        :class:`CounterContention`, :class:`OutcomeUnknown`, :class:`KeyTemplateError`.
        """
        try:
            self._follow(self._child(values)._create())
        except AlreadyCounted:
            return False
        return True

    def discard(self, **values: Any) -> bool:
        """Delete the child and take it out of the count, in one transaction. False if it was not there.

        Raises what :meth:`add` raises; a child whose parent is gone can be discarded all the same.
        """
        try:
            self.remove(**values)
        except NotCounted:
            return False
        return True

    def remove(self, **values: Any) -> None:
        """As :meth:`discard`, but raises :class:`NotCounted` for a child that was not there."""
        self._only_key(values)
        self._follow(self._child(values)._discard(self._of()))

    def contains(self, **values: Any) -> bool:
        """Whether the child is there, by one consistent ``GetItem``."""
        self._only_key(values)
        child = self._child(values, reads=True)
        return bool(child._counting.contains(child, self._of()))

    def add_many(self, children: Iterable[Values]) -> Added:
        """Add many children, each a dict of what :meth:`add` takes: up to 99 in one transaction, with one update.

        Children that are there already do not sink the others. What is refused for one of them is told of it alone;
        see :class:`Added`. Each transaction has the whole of ``Meta.counted_deadline``. Of an iterator that never ends
        only some hundreds of elements are held at once, and those in the result. Calling again with the same elements
        is safe.

        A collection is checked whole before anything is sent: an element that cannot be a child raises
        :class:`KeyTemplateError`, ``ValueError`` or ``TypeError``, which says which one it is. Of another iterable such
        an element is told under ``failed``. Raises PynamoDB's ``TransactWriteError`` for what no retry mends (no
        rights, no table); what was added before stays.
        """
        return self._bulk().add(children)

    def discard_many(self, children: Iterable[Values]) -> Discarded:
        """Discard many children, each a dict of what :meth:`discard` takes; else as :meth:`add_many`."""
        return self._bulk().discard(children)

    def plan_add_many(self, children: Iterable[Values]) -> list[Plan]:
        """The transactions that ``add_many()`` would send if no child were there yet, as data; nothing is sent."""
        return self._bulk().plans("add", children)

    def plan_discard_many(self, children: Iterable[Values]) -> list[Plan]:
        """The transactions that ``discard_many()`` would send if all were there, as data; nothing is sent."""
        return self._bulk().plans("discard", children)

    def _bulk(self) -> Bulk:
        def child(verb: Verb, values: dict[str, Any]) -> tuple[Any, tuple[CountedIn, ItemKey] | None]:
            if verb == "discard":
                self._only_key(values)
            return self._child(values), None if verb == "add" else self._of()

        return Bulk(self._set.label, self._set.relation, child, several_parents=False, follow=self._follow)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"whether {self._set.label} is empty is not known without reading; look at the tally, or ask recount()"
        )

    def __contains__(self, child: Never) -> NoReturn:
        raise TypeError(
            f"'in' would read all the children of {self._set.label}; ask by {self._set.name}.contains("
            f"{', '.join(f'{name}=...' for name in self._own_variables())})"
        )

    def _own_variables(self) -> list[str]:
        relation = self._set.relation
        return [name for name in relation.child_schema.variables if name not in relation.from_child.values()]

    def __iter__(self) -> Iterator[C]:
        """The children, page by page, by consistent queries; none where there is no such parent.

        Raises :class:`DeclarationError` where the children lie in partitions of their own and no index is declared.
        """
        relation = self._set.relation
        return cast("Iterator[C]", relation.owner._counting.children(relation, self._key()))

    def recount(self) -> int:
        """How many the tally should say, counted from the children now; writes nothing.

        Costs the read units of all the children. While children come and go it is a number between, and proves nothing.
        Raises :class:`ParentMissing`, and :class:`CounterNotSeeded` where only a scan would find the children.
        """
        counted: Any = self._set.owner._counting.recount(self._set.find_counter().tally, self._key())
        return counted  # type: ignore[no-any-return]

    def _key(self) -> ItemKey:
        key: ItemKey = self._set.owner._counting.key_of(self._parent)
        return key

    def _of(self) -> tuple[CountedIn, ItemKey] | None:
        """Whose child it must turn out to be, once it was read; None where its key says so already."""
        relation = self._set.relation
        return None if relation.is_told_by_key else (relation, self._key())

    def _only_key(self, values: dict[str, Any]) -> None:
        variables = self._set.relation.child_schema.variables
        if strange := [name for name in values if name not in variables]:
            raise KeyTypeError(
                f"{self._set.label}: {', '.join(strange)} is not part of a child's key, which alone tells the child; "
                f"give {', '.join(self._own_variables())}"
            )

    def _child(self, values: dict[str, Any], reads: bool = False) -> Any:
        relation = self._set.relation
        if relation.by == "stream" and not reads:
            name = relation.owner.__name__
            raise DeclarationError(
                f"{self._set.label}: {relation.label} counts by stream, so a child is written alone and its answer "
                f"does not say whether it was there: {name}(...).save() and .delete()"
            )
        theirs = self._parent.key_variables()
        for name, ours in relation.from_child.items():
            if values.setdefault(ours, theirs[name]) != theirs[name]:
                raise KeyTemplateError(
                    f"{self._set.label}: {ours}={values[ours]!r} is not the parent's, which is {theirs[name]!r}; "
                    f"leave it out"
                )
        return relation.owner(**values)

    def _follow(self, moved: Contribution) -> None:
        """The number in memory follows, on an instance that was loaded."""
        if isinstance(self._parent, Ref):
            return
        values: dict[str, Any] = self._parent.attribute_values
        key = self._key()
        for counter in self._set.owner._counting.counters.values():
            if values.get(counter.name) is None:
                continue  # it was not there to be read
            for (tally, parent), number in moved.items():
                if parent == key and tally.attr_name == counter.attr_name:
                    values[counter.name] = plus(values[counter.name], number)
