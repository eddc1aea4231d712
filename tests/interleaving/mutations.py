"""Take one guard out of a request, to show that the search notices.

A *guard* is a part of a condition without which the condition would be weaker: each side of an ``AND``, or the
whole of what is not one. The sides of an ``OR`` are not guards (without one the condition is stronger), but the
sides of an ``AND`` within it are. A guard's text has the attributes' own names, and ``?`` for every value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pynacount.steps import Send

from . import expressions
from .expressions import And, Condition, Name, Operand, Or, Scope
from .wire import TRANSACTION, writes_of

_EXPRESSIONS = ("ConditionExpression", "UpdateExpression")


@dataclass(frozen=True, slots=True, order=True)
class Guard:
    """One guard: where it stands, and what it says. ``action`` is the update that it guards, with ``?`` for values."""

    operation: str
    position: int
    kind: str
    table: str
    action: str
    text: str

    def __str__(self) -> str:
        return f"{self.operation}[{self.position}] {self.kind} {self.table} {self.action}".rstrip() + f" if {self.text}"


def guards_of(send: Send) -> tuple[Guard, ...]:
    """Every guard of every write of a request."""
    return tuple(guard for position, kind, body in _places(send) for guard in _guards(send, position, kind, body))


def all_guards(sends: Iterable[Send]) -> tuple[Guard, ...]:
    """Every different guard of many requests (such as ``Report.sends``), in order."""
    return tuple(sorted({guard for send in sends for guard in guards_of(send)}))


def without(*guards: Guard) -> Callable[[Send], Send]:
    """Takes out exactly these guards, wherever they occur."""
    return _mutation(lambda candidate: candidate in guards)


def take_out(
    text: str,
    *,
    operation: str | None = None,
    kind: str | None = None,
    position: int | None = None,
    table: str | None = None,
    action: str | None = None,
) -> Callable[[Send], Send]:
    """Takes out the guards with this text (``attribute_exists(likeTally)``) from the writes that match all else."""
    spelled = _spelled(expressions.parse_condition(text.replace("?", ":value")), Scope())
    wanted = {"operation": operation, "kind": kind, "position": position, "table": table, "action": action}

    def chosen(guard: Guard) -> bool:
        return guard.text == spelled and all(
            value is None or getattr(guard, name) == value for name, value in wanted.items()
        )

    return _mutation(chosen)


def _places(send: Send) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for position, (kind, body) in enumerate(writes_of(send)):
        yield position, kind, body


def _names(body: dict[str, Any]) -> Scope:
    return Scope(body.get("ExpressionAttributeNames") or {})


def _spelled(condition: Condition, scope: Scope) -> str:
    def show(operand: Operand) -> str:
        return scope.name(operand) if isinstance(operand, Name) else "?"

    return expressions.render(condition, show)


def _action(body: dict[str, Any]) -> str:
    tokens = expressions.tokens_of(body.get("UpdateExpression", ""))
    names = body.get("ExpressionAttributeNames") or {}
    return " ".join("?" if token.startswith(":") else names.get(token, token) for token in tokens)


def _guards(send: Send, position: int, kind: str, body: dict[str, Any]) -> Iterator[Guard]:
    if "ConditionExpression" not in body:
        return
    scope, action = _names(body), _action(body)
    for part in _parts(expressions.parse_condition(body["ConditionExpression"])):
        yield Guard(send.operation, position, kind, body["TableName"], action, _spelled(part, scope))


def _parts(condition: Condition) -> Iterator[Condition]:
    match condition:
        case And(parts):
            for part in parts:
                yield from _parts(part)
        case Or(parts):
            yield condition
            for part in parts:
                if isinstance(part, And):
                    yield from _parts(part)
        case _:
            yield condition


def _weaken(condition: Condition, gone: Callable[[Condition], bool]) -> Condition | None:
    """The condition without the guards that are ``gone``; None when it holds of everything."""
    match condition:
        case And(parts):
            kept = tuple(weaker for part in parts if (weaker := _weaken(part, gone)) is not None)
            return And(kept) if len(kept) > 1 else (kept[0] if kept else None)
        case Or(parts):
            if gone(condition):
                return None
            weakened = [_weaken(part, gone) if isinstance(part, And) else part for part in parts]
            remaining = tuple(part for part in weakened if part is not None)
            return Or(remaining) if len(remaining) == len(parts) else None
        case _:
            return None if gone(condition) else condition


def _mutation(chosen: Callable[[Guard], bool]) -> Callable[[Send], Send]:
    def mutate(send: Send) -> Send:
        if not any(chosen(guard) for guard in guards_of(send)):
            return send
        request = copy.deepcopy(send.request)
        mutated = Send(send.operation, request)
        for position, kind, body in _places(mutated):
            _mutate_write(mutated, position, kind, body, chosen)
        if mutated.operation == TRANSACTION:
            assert len(request["TransactItems"]) == len(send.request["TransactItems"])
        return mutated

    return mutate


def _mutate_write(send: Send, position: int, kind: str, body: dict[str, Any], chosen: Callable[[Guard], bool]) -> None:
    if "ConditionExpression" not in body:
        return
    scope, action = _names(body), _action(body)
    condition = expressions.parse_condition(body["ConditionExpression"])

    def gone(part: Condition) -> bool:
        return chosen(Guard(send.operation, position, kind, body["TableName"], action, _spelled(part, scope)))

    weaker = _weaken(condition, gone)
    if weaker == condition:
        return
    if weaker is not None:
        body["ConditionExpression"] = expressions.render(weaker)
    elif kind == "ConditionCheck":
        # A check must have a condition, and must stay, or the reasons of the others would move up by one.
        whole = expressions.render(condition)
        body["ConditionExpression"] = f"({whole}) OR NOT ({whole})"
    else:
        del body["ConditionExpression"]
    _drop_unused(body)


def _drop_unused(body: dict[str, Any]) -> None:
    used = expressions.placeholders(*(body[name] for name in _EXPRESSIONS if name in body))
    for table in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        kept = {name: value for name, value in (body.get(table) or {}).items() if name in used}
        body.pop(table, None)
        if kept:
            body[table] = kept
