"""DynamoDB's condition and update expressions: parsed once, evaluated often, and written back as text.

The grammar is the part that the library uses, with top-level attributes only. Anything else raises
:class:`Unsupported`, loudly: a search that skips over what it does not understand proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

from .values import Value, canonical


class Unsupported(Exception):
    """The store was asked for something that it does not model, or that DynamoDB would call malformed."""


class Invalid(Exception):
    """What DynamoDB finds out only when it sees the item: its ``ValidationException`` at run time."""


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute, by its own name or by a ``#placeholder``."""

    text: str


@dataclass(frozen=True, slots=True)
class Param:
    """A ``:placeholder`` of a value."""

    text: str


Operand: TypeAlias = Name | Param


@dataclass(frozen=True, slots=True)
class Call:
    """``attribute_exists(x)`` and its like."""

    function: str
    arguments: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right``."""

    operator: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    """``operand BETWEEN least AND most``, both included."""

    operand: Operand
    least: Operand
    most: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of several conditions."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of several conditions."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Call | Compare | Between | Not | And | Or


@dataclass(frozen=True, slots=True)
class Default:
    """``if_not_exists(name, otherwise)``."""

    name: Name
    otherwise: Operand


Term: TypeAlias = Name | Param | Default


@dataclass(frozen=True, slots=True)
class Assignment:
    """``SET target = first (+|-) second``; without an operator there is no second."""

    target: Name
    first: Term
    operator: str = ""
    second: Term | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """An update expression, clause by clause."""

    sets: tuple[Assignment, ...] = ()
    removes: tuple[Name, ...] = ()
    adds: tuple[tuple[Name, Param], ...] = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """What the placeholders of one request stand for."""

    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)

    def name(self, name: Name) -> str:
        """The attribute's own name."""
        if name.text.startswith("#"):
            try:
                return self.names[name.text]
            except KeyError:
                raise Unsupported(f"{name.text} is not in ExpressionAttributeNames") from None
        return name.text

    def value(self, param: Param) -> Value:
        """The value sent for a placeholder."""
        try:
            return self.values[param.text]
        except KeyError:
            raise Unsupported(f"{param.text} is not in ExpressionAttributeValues") from None


Attributes: TypeAlias = Mapping[str, Value]
FUNCTIONS = {"attribute_exists": 1, "attribute_not_exists": 1, "begins_with": 2, "attribute_type": 2}
_TOKEN = re.compile(r"\s*(<>|<=|>=|[=<>(),+\-]|[#:]?\w+)")


def tokens_of(text: str) -> list[str]:
    """The words and signs of an expression."""
    found, position = [], 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            raise Unsupported(f"cannot read {stripped[position:]!r} in {text!r}")
        found.append(match.group(1))
        position = match.end()
    return found


class _Reader:
    """A recursive descent over the tokens of one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.position = 0

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token.upper() != expected):
            raise Unsupported(f"expected {expected or 'more'}, got {token or 'the end'!r} in {self.text!r}")
        self.position += 1
        return token

    def accept(self, word: str) -> bool:
        if self.peek().upper() != word:
            return False
        self.position += 1
        return True

    def done(self) -> None:
        if self.peek():
            raise Unsupported(f"did not expect {self.peek()!r} in {self.text!r}")

    def separated(self, word: str, part: Callable[[], Any]) -> Iterator[Any]:
        yield part()
        while self.accept(word):
            yield part()

    def condition(self) -> Condition:
        parts = tuple(self.separated("OR", self.conjunction))
        return parts[0] if len(parts) == 1 else Or(parts)

    def conjunction(self) -> Condition:
        parts = tuple(self.separated("AND", self.atom))
        return parts[0] if len(parts) == 1 else And(parts)

    def atom(self) -> Condition:
        if self.accept("NOT"):
            return Not(self.atom())
        if self.accept("("):
            inner = self.condition()
            self.take(")")
            return inner
        following = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else ""
        if following == "(":
            function = self.take()
            if function not in FUNCTIONS:
                raise Unsupported(f"function {function} in {self.text!r}")
            self.take("(")
            arguments = tuple(self.separated(",", self.operand))
            self.take(")")
            if len(arguments) != FUNCTIONS[function]:
                raise Unsupported(f"{function} with {len(arguments)} arguments in {self.text!r}")
            return Call(function, arguments)
        left = self.operand()
        operator = self.take()
        if operator == "BETWEEN":
            least = self.operand()
            self.take("AND")
            return Between(left, least, self.operand())
        if operator not in _ORDER:
            raise Unsupported(f"operator {operator!r} in {self.text!r}")
        return Compare(operator, left, self.operand())

    def operand(self) -> Operand:
        token = self.take()
        if token.startswith(":"):
            return Param(token)
        return self.named(token)

    def named(self, token: str) -> Name:
        if not re.fullmatch(r"#?\w+", token):
            raise Unsupported(f"{token!r} is not a name, in {self.text!r}")
        return Name(token)

    def term(self) -> Term:
        if self.peek() == "if_not_exists":
            self.take()
            self.take("(")
            name = self.named(self.take())
            self.take(",")
            otherwise = self.operand()
            self.take(")")
            return Default(name, otherwise)
        return self.operand()

    def assignment(self) -> Assignment:
        target = self.named(self.take())
        self.take("=")
        first = self.term()
        if self.peek() in ("+", "-"):
            return Assignment(target, first, self.take(), self.term())
        return Assignment(target, first)

    def addition(self) -> tuple[Name, Param]:
        target, amount = self.named(self.take()), self.operand()
        if not isinstance(amount, Param):
            raise Unsupported(f"ADD takes a value, in {self.text!r}")
        return target, amount

    def update(self) -> Update:
        clauses: dict[str, tuple[Any, ...]] = {}
        parts: dict[str, Callable[[], Any]] = {
            "SET": self.assignment,
            "REMOVE": lambda: self.named(self.take()),
            "ADD": self.addition,
        }
        while self.peek():
            clause = self.take().upper()
            if clause not in parts or clause in clauses:
                raise Unsupported(f"clause {clause} in {self.text!r}")
            clauses[clause] = tuple(self.separated(",", parts[clause]))
        return Update(clauses.get("SET", ()), clauses.get("REMOVE", ()), clauses.get("ADD", ()))


@cache
def parse_condition(text: str) -> Condition:
    """A condition, as a tree."""
    reader = _Reader(text)
    parsed = reader.condition()
    reader.done()
    return parsed


@cache
def parse_update(text: str) -> Update:
    """An update, as its clauses."""
    return _Reader(text).update()


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}


def sortable(value: Value) -> Any:
    """What DynamoDB orders a value by: numbers by size, strings by their UTF-8 bytes."""
    kind, content = value
    if kind == "N":
        return Decimal(content)
    return content.encode() if kind == "S" else content


def _read(operand: Operand, item: Attributes, scope: Scope) -> Value | None:
    return item.get(scope.name(operand)) if isinstance(operand, Name) else scope.value(operand)


def _compare(condition: Compare, item: Attributes, scope: Scope) -> bool:
    left, right = _read(condition.left, item, scope), _read(condition.right, item, scope)
    order = _ORDER[condition.operator]
    if condition.operator in ("=", "<>"):
        return order(left, right) if left is not None and right is not None else condition.operator == "<>"
    if left is None or right is None or left[0] != right[0]:
        return False
    return order(sortable(left), sortable(right))


def _call(condition: Call, item: Attributes, scope: Scope) -> bool:
    subject = condition.arguments[0]
    if not isinstance(subject, Name):
        raise Unsupported(f"{condition.function} of a value")
    value = item.get(scope.name(subject))
    if condition.function == "attribute_exists":
        return value is not None
    if condition.function == "attribute_not_exists":
        return value is None
    other = _read(condition.arguments[1], item, scope)
    if value is None or other is None:
        return False
    if condition.function == "attribute_type":
        return bool(value[0] == other[1])
    return value[0] == other[0] and bool(value[1].startswith(other[1]))


def holds(condition: Condition, item: Attributes, scope: Scope) -> bool:
    """Whether a condition is true of an item; a missing item is one without attributes."""
    match condition:
        case Call():
            return _call(condition, item, scope)
        case Compare():
            return _compare(condition, item, scope)
        case Between(operand, least, most):
            pair = (Compare(">=", operand, least), Compare("<=", operand, most))
            return all(_compare(each, item, scope) for each in pair)
        case Not(part):
            return not holds(part, item, scope)
        case And(parts):
            return all(holds(part, item, scope) for part in parts)
        case Or(parts):
            return any(holds(part, item, scope) for part in parts)


def _evaluate(term: Term, item: Attributes, scope: Scope) -> Value:
    if isinstance(term, Default):
        found = item.get(scope.name(term.name))
        return found if found is not None else _evaluate(term.otherwise, item, scope)
    value = _read(term, item, scope)
    if value is None:
        raise Invalid("The provided expression refers to an attribute that does not exist in the item")
    return value


def _sum(left: Value, right: Value, sign: int = 1) -> Value:
    if left[0] != "N" or right[0] != "N":
        raise Invalid("An operand in the update expression has an incorrect data type")
    return "N", canonical(str(Decimal(left[1]) + sign * Decimal(right[1])))


def apply(update: Update, item: Attributes, scope: Scope) -> dict[str, Value]:
    """The item after an update. Every right-hand side reads the item as it was before."""
    after = dict(item)
    for assignment in update.sets:
        value = _evaluate(assignment.first, item, scope)
        if assignment.second is not None:
            value = _sum(value, _evaluate(assignment.second, item, scope), 1 if assignment.operator == "+" else -1)
        after[scope.name(assignment.target)] = value
    for name in update.removes:
        after.pop(scope.name(name), None)
    for name, amount in update.adds:
        attribute = scope.name(name)
        after[attribute] = _sum(item.get(attribute, ("N", "0")), scope.value(amount))
    return after


def targets(update: Update, scope: Scope) -> tuple[str, ...]:
    """The attributes that an update writes."""
    written = [each.target for each in update.sets] + list(update.removes) + [name for name, _ in update.adds]
    return tuple(scope.name(name) for name in written)


def render(condition: Condition, show: Callable[[Operand], str] = lambda operand: operand.text) -> str:
    """A condition as text again; ``show`` says how to write a name or a value."""
    match condition:
        case Call(function, arguments):
            return f"{function}({', '.join(show(each) for each in arguments)})"
        case Compare(operator, left, right):
            return f"{show(left)} {operator} {show(right)}"
        case Between(operand, least, most):
            return f"{show(operand)} BETWEEN {show(least)} AND {show(most)}"
        case Not(part):
            return f"NOT ({render(part, show)})"
        case And(parts):
            return " AND ".join(
                f"({render(each, show)})" if isinstance(each, Or) else render(each, show) for each in parts
            )
        case Or(parts):
            return " OR ".join(
                f"({render(each, show)})" if isinstance(each, And) else render(each, show) for each in parts
            )


def placeholders(*texts: str) -> frozenset[str]:
    """The ``#names`` and ``:values`` that occur in some expressions."""
    return frozenset(token for text in texts for token in tokens_of(text) if token[0] in "#:")
