"""Which requests there are to explain: the create and the delete of a child, for each model that counts in a parent, or
of many children at once; the page of a feed that shows the parent; and the increment and the decrement of its plain
counters; and the creation of the parent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pynamodb.attributes import Attribute
from pynamodb.constants import BOOLEAN, NUMBER, STRING

from pynacount.amounts import Amount, amount, negative
from pynacount.errors import PynacountError, TargetError
from pynacount.feed import Page
from pynacount.fields import CounterField
from pynacount.plan import Plan, Put, build
from pynacount.relations import CountedIn, CountedSet
from pynacount.shards import shard_key, taken_shards
from pynacount.sizes import Cost
from pynacount.streams.pricing import plan_of_record
from pynacount.targets import variable_of

Verb: TypeAlias = Literal[
    "create", "delete", "add_many", "discard_many", "page", "increment", "decrement", "stream", "parent"
]

NONE: Mapping[str, Sequence[str]] = MappingProxyType({})

_MOVES: tuple[tuple[Verb, Callable[[Amount], Amount]], ...] = (("increment", lambda by: by), ("decrement", negative))
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Read:
    """One request that reads, as :class:`pynacount.plan.Plan` is one that writes."""

    page: Page
    operation: str = "BatchGetItem"

    def request(self) -> dict[str, Any]:
        """The argument of boto3's ``batch_get_item``."""
        return self.page.requests()[0]

    def cost(self) -> Cost:
        """What it consumes."""
        return self.page.cost()


@dataclass(frozen=True, slots=True)
class Explained:
    """One write of one child or of many, or of a plain counter, or of a new parent; or the page of a feed.

    ``model`` is the child's, ``Like``, or ``Stats.plays``, or the set, ``Post.likes``.

    ``region`` and ``host`` are those of the model's ``Meta``, None where it has none. ``shared`` are the write units of
    what a group of calls needs but once, None where the write is not for groups. ``note`` says of a counter kept from a
    stream how, and why so; of one in shards, which shard is written.
    """

    model: str
    verb: Verb
    plan: Plan | Read
    region: str | None
    host: str | None
    shared: float | None = None
    note: str = ""

    def wcu_in_group(self, calls: int) -> float | None:
        """The write units of one call of a group of so many; None where it is not for groups."""
        if self.shared is None:
            return None
        return round(self.plan.cost().wcu - self.shared + self.shared / calls, 3)


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A model whose key was not given in full, or whose item cannot be written so; ``why`` says what lacks."""

    model: str
    why: str
    verb: Verb | None = None
    """Where only one of its writes is meant."""


def explain(
    counters: Sequence[CounterField],
    given: Mapping[str, str],
    by: Any = 1,
    once: str | None = None,
    many: Mapping[str, Sequence[str]] = NONE,
) -> Iterator[Explained | Unexplained]:
    """The writes of one child of each model that counts in these counters of one parent model; of those in which no
    children are counted, the increment and the decrement ``by`` an amount, for a token ``once``. Last the creation of
    the parent, with its shards.

    ``given`` is text by name: the parent's key variables, the child's other ones, and any attributes of both.
    ``many`` are those of the child that are given several times: then it is many children that are explained, in the
    transactions that ``add_many()`` and ``discard_many()`` send.
    Raises :class:`TargetError` where the parent's key is not complete, and for a name that none of them has.
    """
    parent = counters[0].owner
    schema = parent._counting.schema
    relations: dict[Any, CountedIn] = {}
    for counter in counters:
        for relation in counter.counted_relations:
            relations.setdefault(relation.owner, relation)
    _refuse_strange(parent, relations.values(), (*given, *many))
    if twice := [name for name in schema.variables if name in many]:
        raise TargetError(f"{twice[0]} is given twice; one {parent.__name__} is explained, give it once")
    if lacking := [name for name in schema.variables if name not in given]:
        raise TargetError(f"{', '.join(lacking)}: missing from the key of {parent.__name__}; add {lacking[0]}=...")
    variables = {name: variable_of(parent, name, given[name]) for name in schema.variables}
    ref = parent.ref(**variables)  # an id that cannot be a key is refused here
    for relation in relations.values():
        found = _of_many(relation, ref, variables, given, many) if many else _of_child(relation, variables, given)
        yield from (_in_shards(one, parent, ref) for one in found)
    if not many:
        for counted_set in parent._counting.sets:
            if any(counted_set.find_counter() is counter for counter in counters):
                yield from _of_page(counted_set, ref, given)
    for counter in counters:
        if not counter.is_counted:
            yield from (_in_shards(one, parent, ref) for one in _of_plain(counter, ref, by, once))
        elif counter.is_streamed:
            write = plan_of_record(counter, parent._counting.key_of(ref))
            note = f"by {write.kept.way}, as {write.kept.why}"
            one = Explained(counter.label, "stream", write.plan, *_place(counter.owner), note=note)
            yield _in_shards(one, parent, ref)
    yield _of_parent(parent, variables, given)


def _of_parent(parent: Any, variables: Mapping[str, Any], given: Mapping[str, str]) -> Explained | Unexplained:
    """A new parent, with what is born with it."""
    plan = None
    try:
        plan = parent(**variables, **_attributes(parent, given, variables)).plan_save()
    except PynacountError as error:
        why = error.msg
    except Exception as error:  # PynamoDB's, where an attribute lacks
        why = " ".join(f"{type(error).__name__}: {error}".split())
    if plan is None:
        return Unexplained(parent.__name__, why, "parent")
    return Explained(parent.__name__, "parent", plan, *_place(parent))


def _in_shards(one: Explained | Unexplained, parent: Any, ref: Any) -> Explained | Unexplained:
    """With the shards that it writes: those of a parent that has as many as it is taken to have."""
    if isinstance(one, Unexplained) or not isinstance(one.plan, Plan):
        return one
    written = {write.key for write in one.plan.writes}
    key = parent._counting.key_of(ref)
    notes = [
        f"{counter.label} in {own.values[1][1]}, one of {shards} shards"
        for counter in parent._counting.counters.values()
        if (shards := max(counter.shards, taken_shards(counter.tally, key))) > 1
        for place in range(shards)
        if (own := shard_key(key, counter.attr_name, place)) in written
    ]
    return replace(one, note="; ".join([one.note, *notes] if one.note else notes)) if notes else one


def _of_plain(counter: CounterField, ref: Any, by: Any, once: str | None) -> Iterator[Explained | Unexplained]:
    region, host = _place(counter.owner)
    try:
        number = amount(by, counter.label)
        grouped = counter.group_commit is not None and once is None
        for verb, moved in _MOVES:
            plan = counter.plan_increment(ref, moved(number), once=once)
            yield Explained(counter.label, verb, plan, region, host, plan.cost().wcu if grouped else None)
    except PynacountError as error:
        yield Unexplained(counter.label, error.msg)


def _refuse_strange(parent: Any, relations: Any, given: Collection[str]) -> None:
    own = {n for n, a in parent.get_attributes().items() if not (a.is_hash_key or a.is_range_key)}
    known = {*parent._counting.schema.variables, *own}
    for relation in relations:
        known |= {*relation.child_schema.variables, *relation.owner.get_attributes()}
    if strange := [name for name in given if name not in known]:
        children = ", ".join(relation.owner.__name__ for relation in relations)
        raise TargetError(
            f"{', '.join(strange)}: no key variable of {parent.__name__}, and no attribute of it"
            + (f", and neither variable nor attribute of its children ({children})" if children else "")
        )


def _of_child(
    relation: CountedIn, variables: Mapping[str, Any], given: Mapping[str, str]
) -> Iterator[Explained | Unexplained]:
    model = relation.owner
    values = {ours: variables[theirs] for theirs, ours in relation.from_child.items()}
    needed = [name for name in relation.child_schema.variables if name not in values]
    if lacking := [name for name in needed if name not in given]:
        yield Unexplained(model.__name__, f"its key needs {' '.join(f'{name}=...' for name in lacking)}")
        return
    values.update({name: variable_of(model, name, given[name]) for name in needed})
    values.update(_attributes(model, given, set(values)))
    try:
        child = model(**values)
        create = child.plan_save()
    except PynacountError as error:
        yield Unexplained(model.__name__, error.msg)
        return
    except Exception as error:  # PynamoDB's, or the application's own ``when`` or ``amount``
        yield Unexplained(model.__name__, " ".join(f"{type(error).__name__}: {error}".split()))
        return
    region, host = _place(model)
    yield Explained(model.__name__, "create", create, region, host, _shared(child, create))
    # As it is deleted once it was read: guarded on what it counts by.
    item = next(write.item for write in create.writes if isinstance(write, Put) and write.key == _key(child))
    delete = model.from_raw_data(dict(item)).plan_delete()
    yield Explained(model.__name__, "delete", delete, region, host, _shared(child, delete))


def _shared(child: Any, plan: Plan) -> float | None:
    """The write units of the one parent that a group of such children shares."""
    parents = [write for write in plan.writes if write.key != _key(child)]
    if not child._counting.window or len(parents) != 1:
        return None
    return plan.cost().wcu - build([w for w in plan.writes if w not in parents], needs_token=True).cost().wcu


def _of_many(
    relation: CountedIn, ref: Any, variables: Mapping[str, Any], given: Mapping[str, str], many: Mapping[str, Any]
) -> Iterator[Explained | Unexplained]:
    model = relation.owner
    set_ = next((s for s in relation.counter.owner._counting.sets if s.relation.owner is model), None)
    if set_ is None:
        yield Unexplained(model.__name__, f"{relation.counter.owner.__name__} declares no CountedSet of it")
        return
    own = [name for name in relation.child_schema.variables if name not in relation.from_child.values()]
    if len({len(many[name]) for name in own if name in many}) != 1:
        yield Unexplained(model.__name__, f"give each of {', '.join(own)} as often as there are children")
        return
    if lacking := [name for name in own if name not in many]:
        yield Unexplained(model.__name__, f"give {lacking[0]} as often as the others")
        return
    rows = zip(*(many[name] for name in own), strict=True)
    keys = [{name: variable_of(model, name, text) for name, text in zip(own, row, strict=True)} for row in rows]
    others = _attributes(model, given, {*variables, *own})
    children = getattr(ref, set_.name)
    region, host = _place(model)
    try:
        for plan in children.plan_add_many([{**key, **others} for key in keys]):
            yield Explained(model.__name__, "add_many", plan, region, host)
        if not model._counting.read_attributes:
            for plan in children.plan_discard_many(keys):
                yield Explained(model.__name__, "discard_many", plan, region, host)
    except PynacountError as error:
        yield Unexplained(model.__name__, error.msg)
    except Exception as error:  # PynamoDB's, or the application's own ``when`` or ``amount``
        yield Unexplained(model.__name__, " ".join(f"{type(error).__name__}: {error}".split()))


def _of_page(counted_set: CountedSet[Any], ref: Any, given: Mapping[str, str]) -> Iterator[Explained | Unexplained]:
    relation = counted_set.relation
    own = [name for name in relation.child_schema.variables if name not in relation.from_child.values()]
    viewer = {name: variable_of(relation.owner, name, given[name]) for name in own if name in given}
    region, host = _place(counted_set.owner)
    try:
        page = counted_set.plan_page([ref], viewer=viewer or None)
    except PynacountError:
        return  # what lacks of the child's key is told of its create
    yield Explained(counted_set.label, "page", Read(page), region, host)


def _attributes(model: Any, given: Mapping[str, str], but: Collection[str]) -> dict[str, Any]:
    """The model's attributes that were given, beside its keys."""
    return {
        name: value_of(f"{model.__name__}.{name}", attribute, given[name])
        for name, attribute in model.get_attributes().items()
        if name in given and name not in but and not (attribute.is_hash_key or attribute.is_range_key)
    }


def _place(model: Any) -> tuple[str | None, str | None]:
    return getattr(model.Meta, "region", None), getattr(model.Meta, "host", None)


def _key(child: Any) -> Any:
    return child._counting.key_of(child)


def value_of(label: str, attribute: Attribute[Any], text: str) -> Any:
    """An attribute's value from its text. Raises :class:`TargetError` for a text that is none of its values."""
    if attribute.attr_type == BOOLEAN and text in _BOOLEANS:
        return _BOOLEANS[text]
    if attribute.attr_type in (STRING, NUMBER):
        try:
            return attribute.deserialize(text)
        except (ValueError, TypeError):
            pass
    kinds = {BOOLEAN: "it is true or false", STRING: "it is stored as text", NUMBER: "it is a number"}
    why = kinds.get(attribute.attr_type, "only texts, numbers, true and false can be given")
    raise TargetError(f"{label} cannot be {text!r}: {why}")
