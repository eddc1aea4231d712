"""One model's declaration, compiled once: its keys, its counters, and what its items count for."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any

from pynamodb.attributes import Attribute, TTLAttribute, VersionAttribute
from pynamodb.constants import NUMBER, STRING
from pynamodb.models import MetaModel

from pynacount.amounts import plus
from pynacount.commit import AGAIN, Driver
from pynacount.connections import check_deadline, connection_for, deadline_of
from pynacount.contributions import NOTHING, Contribution, Tally
from pynacount.errors import DeclarationError, KeyTemplateError, KeyTypeError, ParentMissing
from pynacount.expressions import Absent, Exists
from pynacount.fields import CounterField, KeyAttribute
from pynacount.items import read_item
from pynacount.keys import MAX_HASH_BYTES, MAX_RANGE_BYTES, ItemKey, KeyTemplate, common_key
from pynacount.markers import Markers
from pynacount.protocols.counting import count
from pynacount.protocols.seeding import missing
from pynacount.refs import Ref
from pynacount.relations import CountedIn, CountedSet
from pynacount.schema import KeyPart, KeySchema
from pynacount.steps import Protocol, Refusal, Send

_models: weakref.WeakSet[Any] = weakref.WeakSet()
_generation = 0
"""Raised with each model, which may bring counters, or children to counters that are there."""


_MAY_HIDE = frozenset({"count"})
"""PynamoDB's ``Model.count()`` counts items by a query; a model that has the number needs none."""


class Counting:
    """The compiled declaration of one :class:`CountedModel` class, as ``Model._counting``."""

    def __init__(self, model: Any) -> None:
        self.model = model
        attributes: dict[str, Attribute[Any]] = model.get_attributes()
        self.counters = {name: a for name, a in attributes.items() if isinstance(a, CounterField)}
        self.declared = _declared(model, CountedIn)
        self.relations = tuple(relation for relation in self.declared if relation.by == "transaction")
        self.sets = _declared(model, CountedSet)
        self.is_child = bool(self.relations)
        versions = [(name, a) for name, a in attributes.items() if isinstance(a, VersionAttribute)]
        self.version_name = versions[0][0] if versions else ""
        self.version = versions[0][1] if versions else None
        self._check_attributes(attributes)
        self._hash = _part(model, attributes, "is_hash_key", MAX_HASH_BYTES)
        self._range = _part(model, attributes, "is_range_key", MAX_RANGE_BYTES)
        self._check_own_names()
        self._schema: KeySchema | None = None
        self._reserved: tuple[object, tuple[Markers, ...]] = (None, ())
        key_names = {part.attr_name for part in (self._hash, self._range) if part is not None}
        tally_names = {counter.attr_name for counter in self.counters.values()}
        self.plain_names = frozenset(
            a.attr_name for a in attributes.values() if a.attr_name not in key_names | tally_names
        )
        self.required_names = frozenset(a.attr_name for a in attributes.values() if not a.null) & self.plain_names
        self.read_attributes: frozenset[str] = frozenset()
        self.window = 0.0
        self.sets_by_name = {counted_set.name: counted_set for counted_set in self.sets}
        self._checked_sets = False
        for counted_set in self.sets:
            counted_set.find_counter().in_a_set = True

    def compile(self) -> None:
        """Check the relations and make them known to the parents. Raises :class:`DeclarationError`."""
        if self.table is None:
            return  # only there to be subclassed
        check_deadline(self.model.Meta, self.model.__name__)
        if self._hash is None and not self.counters and not self.declared:
            return  # a base that shares its Meta
        if self._hash is None:
            raise DeclarationError(
                f'{self.model.__name__} has no hash key; declare pk = KeyAttribute("POST#{{post_id}}", hash_key=True)'
            )
        for relation in self.declared:
            relation.compile()
        self._check_bases()
        self._check_neighbours()
        self.read_attributes = frozenset(name for r in self.relations for name in r.read_attributes)
        windows = [relation.counter.group_commit or 0 for relation in self.relations]
        self.window = min(windows, default=0) / 1000  # seconds; 0: none, or one of its tallies is not for groups
        for relation in self.declared:
            registered = relation.counter.root().relations
            # A class that is defined again (a notebook, a reload) takes the place of its former self.
            registered[:] = [r for r in registered if _identity(r) != _identity(relation)]
            registered.append(relation)
        global _generation
        _models.add(self.model)
        _generation += 1
        for counter in self.counters.values():
            if counter.once_key:
                _ = counter.markers  # so that a template that cannot be is told now
            if counter.shards > 1:
                self.check_shards(counter)

    def check_shards(self, counter: CounterField) -> None:
        """The shards' keys must be nobody else's. Raises :class:`DeclarationError`."""
        own = self._range
        if own is None or own.template is None or self._hash is None or self._hash.attribute.attr_type != STRING:
            raise DeclarationError(
                f"{counter.label} is in shards, which are siblings of their parent: {self.model.__name__} must have a "
                f'partition key of strings and a sort key from a template, such as sk = KeyAttribute("META", '
                f'range_key=True, attr_name="SK")'
            )
        for counting in self._of_table():
            if self._shards_may_be(counter, counting):
                raise DeclarationError(
                    f"{counter.label}: the key of a shard could be taken for that of an item of "
                    f"{counting.model.__name__}; keep the '#' out of its ids: KeyAttribute(..., delimiter=...), or "
                    f"begin its sort key with another word"
                )

    def _shards_may_be(self, counter: CounterField, other: Counting) -> bool:
        assert self._range is not None and self._range.template is not None
        template = self._range.template
        attr_name = counter.attr_name.replace("{", "{{").replace("}", "}}")
        shard = KeyTemplate.compile(
            f"{template.text}#{attr_name}#{{shard:int}}",
            escape=template.escape,
            delimiter="".join(dict.fromkeys(f"{template.delimiters}#")),
            max_bytes=MAX_RANGE_BYTES,
        )
        pairs = ((None, self._hash, other._hash), (shard, None, other._range))
        for ours, part, theirs in pairs:
            mine = ours if part is None else part.template
            if theirs is None or theirs.template is None or mine is None:
                continue  # a key that can be anything
            if common_key(mine, theirs.template) is None:
                return False
        return True

    def _check_neighbours(self) -> None:
        """No id may make a key of this model that is one of another model's too; nor may two count one item apart."""
        for counting in self._neighbours():
            other = counting.model
            if counting.has_shape_of(self):
                self._check_twin(counting)
                continue
            examples = [
                None
                if a is None or b is None or a.template is None or b.template is None
                else common_key(a.template, b.template)
                for a, b in ((self._hash, counting._hash), (self._range, counting._range))
            ]
            if all(examples):
                raise DeclarationError(
                    f"{self.model.__name__} and {other.__name__} can both have an item with the keys {examples[0]!r} "
                    f"and {examples[1]!r}: an id could reach the other's item. Begin one of their sort keys with "
                    f"another word"
                )

    def _neighbours(self) -> Iterator[Counting]:
        """The other models of the table, where one of the two counts; not this one's former self."""
        for counting in self._of_table():
            other = counting.model
            if not (counting.counts or self.counts):
                continue
            if (other.__module__, other.__qualname__) != (self.model.__module__, self.model.__qualname__):
                yield counting

    def _of_table(self) -> Iterator[Counting]:
        """The models of this one's table that were declared so far."""
        for model in list(_models):
            counting: Counting = model._counting
            if counting.table == self.table:
                yield counting

    def _check_twin(self, twin: Counting) -> None:
        """Two models of the same items must be of one family, or declare the same: each writes for both.

        What only one of them counts would change behind the other's back: the children of a tally, or the tally.
        """
        if _program(self.model) != _program(twin.model):
            return  # another's, as in a suite whose modules each declare their own
        if self._is_family_of(twin) or (self.keys == twin.keys and self._counted() == twin._counted()):
            return
        ours, theirs = (f"{c.model.__module__}:{c.model.__qualname__}" for c in (self, twin))
        raise DeclarationError(
            f"{ours} and {theirs} are models of the same items of table {self.table} and do not count alike, so each "
            f"would change what the other counts. Use one of them for both, or make one a subclass of the other; "
            f"if their items are others, begin their sort keys with another word; to read alone, a model of "
            f"PynamoDB's own will do"
        )

    def _is_family_of(self, other: Counting) -> bool:
        """Whether one model declares what holds for both: one of them, or a base of both over the same items."""
        for base in self.model.__mro__:
            counting = vars(base).get("_counting")
            if counting is not None and counting._hash is not None and issubclass(other.model, base):
                return bool(counting.has_items_of(self))
        return issubclass(other.model, self.model)

    def _counted(self) -> tuple[Any, ...]:
        """What is counted in its items, and in what they count."""
        counters = {counter.attr_name: counter.options for counter in self.counters.values()}
        relations = {r.name: (_terms(r), r.counter.owner._counting.keys) for r in self.relations}
        return counters, relations

    def check_markers(self, markers: Markers) -> None:
        """No marker's key may be another item's, nor be counted for a child. Raises :class:`DeclarationError`."""
        for counting in self._of_table():
            parts = (counting._hash, counting._range)[: len(markers.templates)]
            pairs = list(zip(markers.templates, parts, strict=True))
            meets = all(
                part is not None and part.template is not None and common_key(template, part.template)
                for template, part in pairs
            )
            if meets or (counting.is_child and all(_begin_alike(template, part) for template, part in pairs)):
                raise DeclarationError(
                    f"{markers.label}: the marker of a once= token could be taken for an item of "
                    f"{counting.model.__name__}; begin its key with another word: CounterField(once_key=...)"
                )

    def _refuse_markers(self, key: ItemKey) -> None:
        """No id of a plain key may be where a ``once=`` token has its marker. Raises :class:`KeyTemplateError`."""
        if self._reserved[0] != (_generation, key.table):
            self._reserved = ((_generation, key.table), tuple(self._markers_of_table()))
        for markers in self._reserved[1]:
            if markers.may_be(key):
                raise KeyTemplateError(
                    f"{self.model.__name__}: the key {key} is kept for a marker of {markers.label}, "
                    f"{' '.join(template.text for template in markers.templates)}; refuse such ids, or begin the "
                    f"markers' keys with another word: CounterField(once_key=...)"
                )

    def _markers_of_table(self) -> Iterator[Markers]:
        """Where the counters of this table's models keep their markers."""
        for counting in self._of_table():
            for counter in counting.counters.values():
                if counter.is_counted and not counter.is_streamed:
                    continue
                with suppress(DeclarationError, KeyTemplateError):  # then it can have none
                    yield counter.markers

    @property
    def counts(self) -> bool:
        """Whether its items count, or are counted in."""
        return bool(self.declared or self.counters)

    def has_shape_of(self, other: Counting) -> bool:
        """Whether both models' keys are made alike, whatever the variables are called: they speak of the same items."""
        return [_shape(part) for part in self.parts] == [_shape(part) for part in other.parts]

    def _check_bases(self) -> None:
        """A base that counts must count its subclass's items as the subclass does: it reads and deletes them too."""
        ours = {relation.name: _terms(relation) for relation in self.declared}
        for base in self.model.__mro__[1:]:
            counting = vars(base).get("_counting")
            if counting is None or counting.table is None or counting.table != self.table:
                continue
            theirs = {relation.name: _terms(relation) for relation in counting.declared}
            if ours != theirs and counting._hash is not None and counting.keys == self.keys:
                raise DeclarationError(
                    f"{self.model.__name__} counts otherwise than {base.__name__}, whose keys it has: an item of the "
                    f"one could be taken for one of the other. Give it keys of its own, or both one CountedIn with "
                    f"when= and amount=, or leave the table_name out of {base.__name__}, if it is only there to be "
                    f"subclassed"
                )

    def _check_attributes(self, attributes: dict[str, Attribute[Any]]) -> None:
        model = self.model.__name__
        seen: dict[str, str] = {}
        for name, attribute in attributes.items():
            if isinstance(attribute, KeyAttribute) and name in attribute.template.names:
                raise DeclarationError(
                    f"{model}.{name}: the key and its variable have one name; write pk = KeyAttribute("
                    f'{attribute.template.text!r}, ..., attr_name="{attribute.attr_name}")'
                )
            other = seen.setdefault(attribute.attr_name, name)
            if other != name and (other in self.counters or name in self.counters):
                raise DeclarationError(
                    f"{model}.{other} and {model}.{name} are both stored as {attribute.attr_name!r}; give each "
                    f"counter an attr_name of its own"
                )
        for counter in self.counters.values():
            for name in counter.own_names:
                if (clash := seen.get(name)) is not None:
                    raise DeclarationError(
                        f"{model}.{clash} is stored as {name!r}, which {counter.label} keeps for itself; give it "
                        f"another attr_name"
                    )
        kinds = [b for b in self.model.__mro__[1:] if isinstance(b, MetaModel) and getattr(b, "_discriminator", None)]
        if kinds and (added := [r for r in self.declared if not hasattr(kinds[-1], r.name)]):
            raise DeclarationError(
                f"{added[0].label}: {model} is one of several kinds of {kinds[-1].__name__}, whose items have the same "
                f"keys; declare the CountedIn on {kinds[-1].__name__}, with when= for the kinds that count"
            )
        ttl = next((name for name, a in attributes.items() if isinstance(a, TTLAttribute)), None)
        if ttl is not None and self.relations:
            relation = self.relations[0]
            raise DeclarationError(
                f"{model}.{ttl} is a TTL attribute, and {relation.label} counts by transaction: DynamoDB deletes "
                f"expired items without any transaction, and the tally would drift. Keep the time in a "
                f"NumberAttribute and delete expired children by delete()"
            )

    def _check_own_names(self) -> None:
        """A counter, a set or a relation may hide nothing that every model has, nor may a counter hide an id."""
        roots = [base for base in self.model.__mro__[1:] if "_counting" in vars(base)]  # the last is CountedModel
        own = {*self.counters, *(one.name for one in (*self.declared, *self.sets))}
        for name in sorted(name for name in own - _MAY_HIDE if roots and hasattr(roots[-1], name)):
            raise DeclarationError(
                f"{self.model.__name__}.{name} would hide what every model has under that name; give it another, such "
                f"as {name.strip('_')}_{'tally' if name in self.counters else 'items'}"
            )
        for name in self.counters:
            if name in self.variables:
                raise DeclarationError(
                    f"{self.model.__name__}.{name} is a counter, and {name!r} is also a variable of the key; give one "
                    f"of them another name"
                )

    def has_items_of(self, other: Counting) -> bool:
        """Whether the other model's items are this one's: the same table, the same keys."""
        return self.table == other.table and self.keys == other.keys

    # -- keys

    @property
    def table(self) -> str | None:
        """The table's name; None for a model that is only there to be subclassed."""
        return getattr(getattr(self.model, "Meta", None), "table_name", None)

    @property
    def schema(self) -> KeySchema:
        """The keys and their table, which ``Meta`` may rename at start-up."""
        schema = self._schema
        table = self.table
        if schema is None or schema.table != table:
            if table is None or self._hash is None:
                lacking = "table" if table is None else "hash key"
                raise DeclarationError(
                    f'{self.model.__name__} has no {lacking}; subclass it with class Meta: table_name = "..." and '
                    f'pk = KeyAttribute("POST#{{post_id}}", hash_key=True)'
                )
            schema = self._schema = KeySchema.of(table, self._hash, self._range, self._refuse_markers)
            for counter in self.counters.values():
                counter._tally = None
        return schema

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The key variables that are no attributes themselves, and so are properties of the instance."""
        parts = [part for part in (self._hash, self._range) if part is not None and part.template is not None]
        return tuple(dict.fromkeys(name for part in parts for name in part.variables))

    @cached_property
    def parts(self) -> tuple[KeyPart, ...]:
        """Both keys."""
        return tuple(part for part in (self._hash, self._range) if part is not None)

    @cached_property
    def keys(self) -> tuple[tuple[str, str | None], ...]:
        """What tells this model's keys from those of others in its table."""
        return tuple(part.identity for part in self.parts)

    @cached_property
    def constant_range(self) -> str | None:
        """The sort key that all items of the model have, where its template has no variables."""
        if self._range is None or self._range.template is None or self._range.variables:
            return None
        return self._range.template.text

    def key_of(self, ref: Any) -> ItemKey:
        """The key of an instance or of a ref of this model."""
        if isinstance(ref, self.model):
            return self.key_of_instance(ref)
        if isinstance(ref, Ref) and (issubclass(ref._model, self.model) or ref._model._counting.has_items_of(self)):
            return ref._item_key
        raise TypeError(f"{ref!r} is no {self.model.__name__} and no {self.model.__name__}.ref(...)")

    def key_of_instance(self, instance: Any) -> ItemKey:
        """The key of an instance. Raises :class:`KeyTemplateError` where a part of it is not set."""
        self.check_keys_read(instance)
        values = instance.attribute_values
        schema = self.schema
        try:
            return schema.key_of_values(
                values[schema.hash.name], None if schema.range is None else values[schema.range.name]
            )
        except KeyError as error:
            raise KeyTypeError(
                f"{self.model.__name__}: {error.args[0]} is not set; give {', '.join(schema.variables)}"
            ) from None

    def check_keys_read(self, instance: Any) -> None:
        """Raise :class:`KeyTemplateError` for an item that was read without its key."""
        stored = instance._stored_item
        if stored is not None and (
            lacking := [p.attr_name for p in self.parts if p.name not in instance.attribute_values]
        ):
            raise KeyTypeError(
                f"{self.model.__name__}: this item was read without {' and '.join(lacking)}, so it does not say which "
                f"one it is; read the keys too: attributes_to_get=[{', '.join(repr(p.attr_name) for p in self.parts)}, "
                f"...]"
            )

    # -- what is counted

    @cached_property
    def absent(self) -> Absent:
        """The guard of a new item: no item with its key."""
        return Absent(self.schema.guard_name)

    @cached_property
    def exists_guard(self) -> Exists:
        """The guard of an edit: there is an item with its key."""
        return Exists(self.schema.guard_name)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """The counters of this model's items."""
        if not self.counters:
            return ()
        return tuple(counter.tally for counter in self.counters.values())

    def has_children(self, tally: Tally) -> bool:
        """Whether children hold on to it; a plain counter, or one that trails a stream, keeps nothing from going."""
        counters = self.counters.values()
        return any(c.tally is tally and c.is_counted and not c.is_streamed for c in counters)

    def is_streamed(self, tally: Tally) -> bool:
        """Whether it is kept from a stream."""
        return any(counter.tally is tally and counter.is_streamed for counter in self.counters.values())

    def contribution(self, item: Any) -> Contribution:
        """What an instance of this model counts for, in all its relations."""
        if not self.relations:
            return NOTHING
        if len(self.relations) == 1:
            only: Contribution = self.relations[0].contribution(item)
            return only
        total: Contribution = {}
        for relation in self.relations:
            for target, amount in relation.contribution(item).items():
                total[target] = plus(total.get(target, 0), amount)
        return total

    def check_instance(self, instance: Any) -> None:
        """A variable that is stored as an attribute too must say there what it says in the key."""
        attributes = self.model.get_attributes()
        for name in self.variables:
            if name in attributes and getattr(instance, name) != instance.key_variables()[name]:
                raise KeyTemplateError(
                    f"{self.model.__name__}: {name}={getattr(instance, name)!r} is not what its key says, "
                    f"{instance.key_variables()[name]!r}; set it in the constructor alone"
                )

    def check_sets(self) -> None:
        """Every set must find its child by the time that anything is counted. Raises :class:`DeclarationError`."""
        if not self._checked_sets:
            for counted_set in self.sets:
                _ = counted_set.relation
            self._checked_sets = True

    def shares_prefix(self) -> bool:
        """Whether another model keeps items whose sort keys begin as this one's do, in the same table."""
        return any(
            other._counting.table == self.table
            and _may_meet(self._range, other._counting._range)
            and _may_meet(self._hash, other._counting._hash)
            for other in list(_models)
            if not issubclass(other, self.model)
            and not issubclass(self.model, other)
            and other._counting.keys != self.keys
        ) or any(
            other._counting.table == self.table
            and any(counter.shards > 1 for counter in other._counting.counters.values())
            and _may_meet(self._range, other._counting._range)
            and _may_meet(self._hash, other._counting._hash)
            for other in list(_models)
        )

    # -- running protocols

    def driver(self, about: str | None = None, renew: bool = False, again: str = AGAIN) -> Driver:
        """A driver for this model's table, with its ``Meta``'s settings; ``again``: as in :class:`Driver`."""
        meta = self.model.Meta
        text = about or self.model.__name__
        return Driver(connection_for(meta), deadline_of(meta), lambda: text, renew, again=again)

    def contains(self, instance: Any, of: tuple[CountedIn, ItemKey] | None) -> bool:
        """Whether the instance's item is there, by one consistent ``GetItem``; ``of``: as this relation's child."""
        item = self.driver().run(read_item(self.key_of(instance)))
        return item is not None and (of is None or of[0].child(item, of[1]) is not None)

    def recount(self, tally: Tally, key: ItemKey) -> Any:
        """The number the tally should hold, counted now."""
        return self.driver(f"{tally.label} recount", renew=True).run(_recount(tally, key))

    def children(self, relation: CountedIn, key: ItemKey) -> Iterator[Any]:
        """The children of one parent, page by page."""
        for page in self.child_pages(relation, key):
            for item in page["Items"]:
                child = relation.child(item, key)
                if child is not None:
                    yield child

    def child_pages(self, relation: CountedIn, key: ItemKey, limit: int | None = None) -> Iterator[Any]:
        """The pages of raw items among which the children of one parent are; ``limit`` items a page at the most."""
        driver = self.driver(relation.label)
        start: dict[str, Any] | None = None
        while True:
            page = driver.run(child_page(relation, key, start, limit))
            yield page
            start = page.get("LastEvaluatedKey")
            if not start:
                return


def child_page(
    relation: CountedIn, key: ItemKey, start: dict[str, Any] | None, limit: int | None = None
) -> Protocol[Any]:
    """One page of the raw items among which a parent's children are."""
    query = relation.query(key, count_only=False, whole_items=True)
    if query is None:
        raise DeclarationError(
            f"{relation.label}: the children lie in partitions of their own; declare an index on them: "
            f'CountedIn(..., index="...")'
        )
    page = {**query, "ExclusiveStartKey": start} if start else dict(query)
    if limit is not None:
        page["Limit"] = limit
    answer = yield Send("Query", page)
    assert not isinstance(answer, Refusal)
    return answer


def _recount(tally: Tally, key: ItemKey) -> Protocol[Any]:
    if (yield from read_item(key)) is None:
        raise ParentMissing(missing(tally.label, key))
    return (yield from count(tally, key))


def _declared(model: Any, kind: type[Any]) -> tuple[Any, ...]:
    found: dict[str, Any] = {}
    for base in reversed(model.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, kind):
                found[name] = value
            else:
                found.pop(name, None)
    return tuple(found.values())


def _part(model: Any, attributes: dict[str, Attribute[Any]], role: str, max_bytes: int) -> KeyPart | None:
    for name, attribute in attributes.items():
        if getattr(attribute, role):
            if attribute.attr_type not in (STRING, NUMBER):
                raise DeclarationError(
                    f"{model.__name__}.{name}: a counted model's keys must be strings or numbers; use a KeyAttribute"
                )
            template = attribute.template if isinstance(attribute, KeyAttribute) else None
            return KeyPart.of(name, attribute, template, max_bytes, model.__name__)
    return None


def _program(model: Any) -> str:
    """The package that a model is part of, whose modules are taken to know of one another."""
    return str(model.__module__).partition(".")[0]


def _shape(part: KeyPart) -> tuple[Any, ...]:
    if part.template is None:
        return (part.attr_name,)
    return (part.attr_name, *(p if isinstance(p, str) else None for p in part.template.parts))


def _terms(relation: CountedIn) -> tuple[Any, ...]:
    counter = relation.counter.attr_name, relation.counter.owner._counting.table
    how = relation.when, relation.amount, relation.reads, relation.index, relation.by
    return (*counter, *how, relation.variables)


def _identity(relation: CountedIn) -> tuple[str, str, str]:
    return relation.owner.__module__, relation.owner.__qualname__, relation.name


def _begin_alike(template: KeyTemplate, part: KeyPart | None) -> bool:
    """Whether a query for the part's children may find what has a key by this template."""
    if part is None or part.template is None:
        return False
    first, second = (t.prefix({}, part.where)[0] for t in (template, part.template))
    return first.startswith(second) or second.startswith(first)


def _may_meet(one: KeyPart | None, other: KeyPart | None) -> bool:
    """Whether two keys can begin alike, so that a query for the one may find the other."""
    first, second = (
        "" if part is None or part.template is None else part.template.prefix({}, part.where)[0]
        for part in (one, other)
    )
    return first.startswith(second) or second.startswith(first)
