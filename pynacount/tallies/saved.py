"""Reading an audit that was saved: the lines that ``pynacount audit --json`` printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, get_args

from pynamodb.attributes import NumberAttribute

from pynacount.amounts import Amount, stored_amount
from pynacount.errors import KeyTemplateError, StateError, TargetError
from pynacount.fields import CounterField
from pynacount.keys import ItemKey
from pynacount.schema import KeyPart, KeySchema
from pynacount.tallies.results import Audited, AuditState

STATES: tuple[str, ...] = get_args(AuditState)


def read_audit(
    counters: Iterable[CounterField], lines: Iterable[str | bytes], name: str = "the saved audit"
) -> Iterator[Audited]:
    """The rows of a saved audit, one by one; ``name`` is how messages speak of it.

    Raises :class:`StateError`, with the number of the line, for one that cannot be read, is of none of these counters,
    or has a key that their model has not.
    """
    by_label: dict[str, CounterField] = {}
    for counter in counters:
        if by_label.setdefault(counter.label, counter) is not counter:
            raise TargetError(f"two counters are called {counter.label}; name the module and the model of one")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _row(by_label, json.loads(line, parse_float=Decimal))
        except json.JSONDecodeError as error:
            raise StateError(f"{name}, line {number}: this is no JSON ({error}); save one by audit --json") from None
        except (ValueError, RecursionError) as error:
            said = error.msg if isinstance(error, KeyTemplateError) else str(error)
            raise StateError(f"{name}, line {number}: {said}") from None
        if row is not None:
            yield row


def _row(by_label: dict[str, CounterField], line: Any) -> Audited | None:
    if not isinstance(line, dict) or line.get("kind") not in ("parent", "summary"):
        raise ValueError('this is no line of an audit, whose kind is "parent" or "summary"; save one by audit --json')
    if line["kind"] == "summary":
        return None
    label, state, message = line.get("counter"), line.get("state"), line.get("message", "")
    counter = by_label.get(label) if isinstance(label, str) else None
    if counter is None:
        raise ValueError(f"the counter {label!r} is none of {', '.join(by_label)}; name its model as TARGET")
    if state not in STATES:
        raise ValueError(f"the state {state!r} is none of {', '.join(STATES)}")
    left = state == "orphaned" and counter.on_delete == "leave"
    return Audited(
        counter.label,
        _key_of_row(counter, state, line.get("key")),
        state,
        _number(line.get("tally")),
        _number(line.get("count")),
        message if isinstance(message, str) else "",
        wrong=not left and state not in ("ok", "unseeded"),
    )


def _key_of_row(counter: CounterField, state: str, found: Any) -> ItemKey:
    """The parent's key; of a child that does not tell its parent, which is unknown, the child's own."""
    parents: KeySchema = counter.owner._counting.schema
    if state == "unknown":
        for schema in (parents, *(relation.child_schema for relation in counter.places())):
            with suppress(ValueError):
                return _key(schema, found)
    return _key(parents, found)


def _key(schema: KeySchema, found: Any) -> ItemKey:
    if not isinstance(found, dict) or set(found) != set(schema.names):
        raise ValueError(f"the key {found!r} has not the attributes {', '.join(schema.names)} of table {schema.table}")
    parts = [part for part in (schema.hash, schema.range) if part is not None]
    key = ItemKey(schema.table, schema.names, tuple(_typed(part, found[part.attr_name]) for part in parts))
    schema.read_key(key)
    return key


def _typed(part: KeyPart, value: Any) -> tuple[str, Any]:
    kind = "S" if part.template is not None else part.attribute.attr_type
    if kind == "N":
        number = _number(value)
        if number is None:
            raise ValueError(f"{part.where}: the key has no number there")
        return part.typed(number) if isinstance(part.attribute, NumberAttribute) else (kind, str(number))
    if not isinstance(value, str) or not value:
        raise ValueError(f"{part.where}: {value!r} is no text, as the key has there")
    return kind, value


def _number(value: Any) -> Amount | None:
    """A number of JSON, or the text of one."""
    if value is None:
        return None
    if not isinstance(value, (bool, int, str, Decimal)) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    try:
        number = Decimal(value)
        if not number.is_finite():
            raise ValueError(f"{value!r} is no number")
        return value if isinstance(value, int) else stored_amount(str(number))
    except InvalidOperation:
        raise ValueError(f"{value!r} is no number") from None
