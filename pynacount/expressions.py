"""Guards and actions as data, and their text as DynamoDB expressions.

A name that DynamoDB takes as it is stands in the expression itself, so that a request reads like the ones
in AWS's own articles; a reserved word or a name with other characters gets a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

from pynamodb.expressions import update as pynamodb_update
from pynamodb.expressions.condition import And, Condition, Not, Or

from pynacount.amounts import Amount, stored_amount
from pynacount.steps import Item

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@cache
def reserved_words() -> frozenset[str]:
    """The words that an expression must not use as a name (AWS: "Reserved words in DynamoDB")."""
    text = resources.files("pynacount.data").joinpath("reserved_words.txt").read_text("ascii")
    return frozenset(text.split())


@dataclass(slots=True)
class Names:
    """The placeholders of one request: filled in while its expressions are written."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    _pynamodb: dict[str, str] = field(default_factory=dict)

    def name(self, name: str) -> str:
        """How the expression speaks of the attribute ``name``."""
        if is_plain(name):
            return name
        for placeholder, known in self.names.items():
            if known == name:
                return placeholder
        placeholder = f"#n{len(self.names)}"
        self.names[placeholder] = name
        return placeholder

    def value(self, value: dict[str, Any], wish: str | None = None) -> str:
        """A placeholder for ``value``; ``wish`` is the name it should have where that is free."""
        placeholder = f":{wish}" if wish else f":v{len(self.values)}"
        if self.values.get(placeholder, value) != value:
            placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def pynamodb(self, expression: Condition | pynamodb_update.Action) -> str:
        """The text of one of PynamoDB's own expressions, under this request's placeholders."""
        text = expression.serialize(self._pynamodb, self.values)
        self.names.update({placeholder: name for name, placeholder in self._pynamodb.items()})
        return text

    def request(self) -> dict[str, Any]:
        """The placeholders as the request's arguments."""
        request: dict[str, Any] = {}
        if self.names:
            request["ExpressionAttributeNames"] = self.names
        if self.values:
            request["ExpressionAttributeValues"] = self.values
        return request


@cache
def is_plain(name: str) -> bool:
    """Whether an expression may use this name as it is."""
    return _PLAIN_NAME.fullmatch(name) is not None and name.upper() not in reserved_words()


@dataclass(frozen=True, slots=True)
class Exists:
    """``attribute_exists(name)``."""

    name: str

    def text(self, names: Names) -> str:
        """The condition's text."""
        return f"attribute_exists({names.name(self.name)})"

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        return item is not None and self.name in item


@dataclass(frozen=True, slots=True)
class Absent:
    """``attribute_not_exists(name)``."""

    name: str

    def text(self, names: Names) -> str:
        """The condition's text."""
        return f"attribute_not_exists({names.name(self.name)})"

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        return item is None or self.name not in item


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """``name = value``; the attribute is absent where ``value`` is None."""

    name: str
    value: dict[str, Any] | None
    or_absent: bool = False

    def text(self, names: Names) -> str:
        """The condition's text."""
        absent = f"attribute_not_exists({names.name(self.name)})"
        if self.value is None:
            return absent
        same = f"{names.name(self.name)} = {names.value(self.value, 'zero' if self.value == ZERO else None)}"
        return f"({same} OR {absent})" if self.or_absent else same

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        found = (item or {}).get(self.name)
        return (found is None and self.or_absent) or same_value(found, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """``name <= limit`` or ``name >= limit``; ``or_absent``: an absent attribute will do as well."""

    name: str
    operator: Literal["<=", ">="]
    limit: Amount
    or_absent: bool = False

    def text(self, names: Names) -> str:
        """The condition's text."""
        name = names.name(self.name)
        limit = names.value({"N": str(self.limit)}, "most" if self.operator == "<=" else "least")
        within = f"{name} {self.operator} {limit}"
        return f"(attribute_not_exists({name}) OR {within})" if self.or_absent else within

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        found = (item or {}).get(self.name)
        if found is None:
            return self.or_absent
        if "N" not in found:
            return False
        number = stored_amount(found["N"])
        return number <= self.limit if self.operator == "<=" else number >= self.limit


@dataclass(frozen=True, slots=True, eq=False)
class Lapsed:
    """There is no item, or its time was up before ``now`` (epoch seconds): TTL deletes it hours or days later."""

    key_name: str
    expires_name: str
    now: int

    def text(self, names: Names) -> str:
        """The condition's text."""
        expired = f"{names.name(self.expires_name)} < {names.value({'N': str(self.now)}, 'now')}"
        return f"(attribute_not_exists({names.name(self.key_name)}) OR {expired})"

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        if item is None:
            return True
        expires = item.get(self.expires_name, {}).get("N")
        return expires is not None and stored_amount(expires) < self.now


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """A condition that the application gave."""

    condition: Condition

    def text(self, names: Names) -> str:
        """The condition's text. AND, OR and NOT bring their own parentheses, and DynamoDB refuses redundant ones."""
        text = names.pynamodb(self.condition)
        return text if isinstance(self.condition, (And, Or, Not)) else f"({text})"


@dataclass(frozen=True, slots=True, eq=False)
class Behind:
    """The attribute is absent, or a string that comes before ``mark``."""

    name: str
    mark: str

    def text(self, names: Names) -> str:
        """The condition's text."""
        name = names.name(self.name)
        return f"(attribute_not_exists({name}) OR {name} < {names.value({'S': self.mark}, 'first')})"

    def holds(self, item: Item | None) -> bool:
        """Whether the guard is met by the item that a refusal returned."""
        found = (item or {}).get(self.name)
        return found is None or ("S" in found and bool(found["S"] < self.mark))


Guard: TypeAlias = Exists | Absent | Same | Bound | Lapsed | Behind | Given

ZERO = {"N": "0"}


@dataclass(frozen=True, slots=True, eq=False)
class Set:
    """``SET name = value``."""

    name: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Copy:
    """``SET name = source``: the value that the attribute ``source`` has before the update."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Remove:
    """``REMOVE name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Add:
    """``ADD name amount``."""

    name: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Raise:
    """``SET name = if_not_exists(name, first) + 1``."""

    name: str
    first: int


@dataclass(frozen=True, slots=True)
class Increase:
    """``SET name = if_not_exists(name, 0) + amount``: what ``ADD`` does, in the clause of the other settings."""

    name: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class SetSum:
    """``SET name = source + amount``: on what the attribute ``source`` is before the update."""

    name: str
    source: str
    amount: Amount


@dataclass(frozen=True, slots=True, eq=False)
class GivenAction:
    """An update action that the application gave."""

    action: pynamodb_update.Action


Action: TypeAlias = Set | SetSum | Copy | Remove | Add | Increase | Raise | GivenAction

_WISHES: dict[Any, str] = {1: "one", -1: "minusOne", 0: "zero"}
_CLAUSES = {
    pynamodb_update.SetAction: "SET",
    pynamodb_update.RemoveAction: "REMOVE",
    pynamodb_update.AddAction: "ADD",
    pynamodb_update.DeleteAction: "DELETE",
}


def condition_text(guards: Iterable[Guard], names: Names) -> str:
    """The guards as one ``ConditionExpression``."""
    return " AND ".join([guard.text(names) for guard in guards])


def update_text(actions: Iterable[Action], names: Names) -> str:
    """The actions as one ``UpdateExpression``."""
    clauses: dict[str, list[str]] = {}
    for action in actions:
        match action:
            case Add(name, number):
                value = names.value({"N": str(number)}, _WISHES.get(number))
                clauses.setdefault("ADD", []).append(f"{names.name(name)} {value}")
            case Set(name, content):
                wish = "zero" if content == ZERO else None
                clauses.setdefault("SET", []).append(f"{names.name(name)} = {names.value(content, wish)}")
            case Raise(name, first):
                known, one = names.name(name), names.value({"N": "1"}, "one")
                begun = f"if_not_exists({known}, {names.value({'N': str(first)})})"
                clauses.setdefault("SET", []).append(f"{known} = {begun} + {one}")
            case SetSum(name, source, number):
                value = names.value({"N": str(number)}, _WISHES.get(number))
                clauses.setdefault("SET", []).append(f"{names.name(name)} = {names.name(source)} + {value}")
            case Copy(name, source):
                clauses.setdefault("SET", []).append(f"{names.name(name)} = {names.name(source)}")
            case Increase(name, number):
                own = names.name(name)
                start = f"if_not_exists({own}, {names.value(ZERO, 'zero')})"
                value = names.value({"N": str(number)}, _WISHES.get(number))
                clauses.setdefault("SET", []).append(f"{own} = {start} + {value}")
            case Remove(name):
                clauses.setdefault("REMOVE", []).append(names.name(name))
            case GivenAction(given):
                clauses.setdefault(_CLAUSES[type(given)], []).append(names.pynamodb(given))
    return " ".join(f"{word} {', '.join(clauses[word])}" for word in _CLAUSES.values() if word in clauses)


def _number(text: str) -> Decimal | str:
    try:
        return Decimal(text)
    except InvalidOperation:
        return text  # what an attribute made of something that is no number; it is told when it is sent


def same_value(left: dict[str, Any] | None, right: dict[str, Any] | None) -> bool:
    """Whether two attribute values are equal to DynamoDB: numbers by value, sets in any order."""
    if left == right:
        return True
    if not left or not right or left.keys() != right.keys():
        return False
    ((kind, a),) = left.items()
    b = right[kind]
    match kind:
        case "N":
            return _number(a) == _number(b)
        case "NS":
            return set(map(_number, a)) == set(map(_number, b))
        case "SS" | "BS":
            return set(a) == set(b)
        case "L":
            return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
        case "M":
            return a.keys() == b.keys() and all(same_value(x, b[name]) for name, x in a.items())
    return False
