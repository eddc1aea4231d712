"""Which writes there are to explain: the create and the delete of a child, for each model that counts in a parent; and
the increment and the decrement of its plain counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pynamodb.attributes import Attribute
from pynamodb.constants import BOOLEAN, NUMBER, STRING

from pynacount.amounts import amount, negative
from pynacount.errors import PynacountError, TargetError
from pynacount.fields import CounterField
from pynacount.plan import Plan, Put
from pynacount.relations import CountedIn
from pynacount.streams.pricing import plan_of_record
from pynacount.targets import variable_of

Verb: TypeAlias = Literal["create", "delete", "increment", "decrement", "stream"]

_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Explained:
    """One write of one child, or of a plain counter, ``model`` being ``Stats.plays`` then.

    ``region`` and ``host`` are those of the model's ``Meta``, None where it has none. ``note`` says of a counter kept
    from a stream how, and why so.
    """

    model: str
    verb: Verb
    plan: Plan
    region: str | None
    host: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A child's model whose key was not given in full, or whose item cannot be written so; ``why`` says what lacks."""

    model: str
    why: str


def explain(
    counters: Sequence[CounterField], given: Mapping[str, str], by: Any = 1, once: str | None = None
) -> Iterator[Explained | Unexplained]:
    """The writes of one child of each model that counts in these counters of one parent model; of those in which no
    children are counted, the increment and the decrement ``by`` an amount, for a token ``once``.

    ``given`` is text by name: the parent's key variables, the child's other ones, and any of the child's attributes.
    Raises :class:`TargetError` where the parent's key is not complete, and for a name that none of them has.
    """
    parent = counters[0].owner
    schema = parent._counting.schema
    relations: dict[Any, CountedIn] = {}
    for counter in counters:
        for relation in counter.counted_relations:
            relations.setdefault(relation.owner, relation)
    _refuse_strange(parent, relations.values(), given)
    if lacking := [name for name in schema.variables if name not in given]:
        raise TargetError(f"{', '.join(lacking)}: missing from the key of {parent.__name__}; add {lacking[0]}=...")
    variables = {name: variable_of(parent, name, given[name]) for name in schema.variables}
    ref = parent.ref(**variables)  # an id that cannot be a key is refused here
    for relation in relations.values():
        yield from _of_child(relation, variables, given)
    for counter in counters:
        if not counter.is_counted:
            yield from _of_plain(counter, ref, by, once)
        elif counter.is_streamed:
            write = plan_of_record(counter, parent._counting.key_of(ref))
            note = f"by {write.kept.way}, as {write.kept.why}"
            yield Explained(counter.label, "stream", write.plan, *_place(counter.owner), note)


def _of_plain(counter: CounterField, ref: Any, by: Any, once: str | None) -> Iterator[Explained | Unexplained]:
    region, host = _place(counter.owner)
    try:
        number = amount(by, counter.label)
        yield Explained(counter.label, "increment", counter.plan_increment(ref, number, once=once), region, host)
        taken = counter.plan_increment(ref, negative(number), once=once)
        yield Explained(counter.label, "decrement", taken, region, host)
    except PynacountError as error:
        yield Unexplained(counter.label, error.msg)


def _refuse_strange(parent: Any, relations: Any, given: Mapping[str, str]) -> None:
    known = {*parent._counting.schema.variables}
    for relation in relations:
        known |= {*relation.child_schema.variables, *relation.owner.get_attributes()}
    if strange := [name for name in given if name not in known]:
        children = ", ".join(relation.owner.__name__ for relation in relations)
        raise TargetError(
            f"{', '.join(strange)}: no key variable of {parent.__name__}"
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
    for name, attribute in model.get_attributes().items():
        if name in given and name not in values and not (attribute.is_hash_key or attribute.is_range_key):
            values[name] = value_of(f"{model.__name__}.{name}", attribute, given[name])
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
    yield Explained(model.__name__, "create", create, region, host)
    # As it is deleted once it was read: guarded on what it counts by.
    item = next(write.item for write in create.writes if isinstance(write, Put) and write.key == _key(child))
    delete = model.from_raw_data(dict(item)).plan_delete()
    yield Explained(model.__name__, "delete", delete, region, host)


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
