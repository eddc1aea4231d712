"""Many plain conditional updates in one request, at the price of plain updates.

``BatchWriteItem`` takes no conditions and a transaction costs twice as much. ``BatchExecuteStatement`` takes up to 25
statements of PartiQL that each stand alone, with a condition of its own (AWS: its API reference).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pynacount.expressions import Absent, Exists, Guard, Same, Set
from pynacount.plan import Update
from pynacount.steps import Protocol, Refusal, Send

MAX_STATEMENTS = 25
"""Most statements of one ``BatchExecuteStatement`` (AWS: its API reference)."""
DENIED = "AccessDenied"


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the updates, in their order: None for one that was written, else the error's code.

    ``units``: the write units consumed.
    """

    errors: tuple[str | None, ...]
    units: float


def write_together(updates: Sequence[Update]) -> Protocol[Written]:
    """Send the updates in one request. One that is refused or throttled does not keep the others from being written."""
    answer = yield Send(
        "BatchExecuteStatement",
        {"Statements": [statement(update) for update in updates], "ReturnConsumedCapacity": "TOTAL"},
    )
    if isinstance(answer, Refusal):  # the request as a whole
        return Written((answer.code,) * len(updates), 0.0)
    errors = tuple(one.get("Error", {}).get("Code") for one in answer["Responses"])
    units = sum(float(one.get("CapacityUnits", 0.0)) for one in answer.get("ConsumedCapacity", ()))
    return Written(errors, max(units, float(errors.count(None))))  # not every engine says


def statement(update: Update) -> dict[str, Any]:
    """An update that sets values under guards, as a statement of PartiQL. An absent item is never created."""
    values = [action for action in update.actions if isinstance(action, Set)]
    if len(values) != len(update.actions):
        raise TypeError(update)
    assignments = " ".join(f"SET {_quoted(action.name)} = ?" for action in values)
    parameters = [action.value for action in values]
    conditions: list[str] = []
    for name, (kind, value) in zip(update.key.names, update.key.values, strict=True):
        conditions.append(f"{_quoted(name)} = ?")
        parameters.append({kind: value})
    for guard in dict.fromkeys(guard for claim in update.claims for guard in claim.guards):
        if isinstance(guard, Exists) and guard.name in update.key.names:
            continue  # PartiQL's UPDATE asks it anyway
        condition, operands = _condition(guard)
        conditions.append(condition)
        parameters += operands
    return {
        "Statement": f"UPDATE {_quoted(update.key.table)} {assignments} WHERE {' AND '.join(conditions)}",
        "Parameters": parameters,
    }


def _condition(guard: Guard) -> tuple[str, list[dict[str, Any]]]:
    match guard:
        case Exists():
            return f"{_quoted(guard.name)} IS NOT MISSING", []
        case Absent() | Same(value=None):
            return f"{_quoted(guard.name)} IS MISSING", []
        case Same(value=dict() as value, or_absent=False):
            return f"{_quoted(guard.name)} = ?", [value]
    raise TypeError(guard)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
