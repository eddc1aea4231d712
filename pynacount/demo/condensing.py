"""A recorded request as a person wants to see it: a line for each item, values in place of their placeholders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

KEY_NAMES = ("PK", "SK")
"""The key attributes of the demonstration's tables."""

_PLACEHOLDER = re.compile(r"[:#]\w+")
_PARAMETER = re.compile(r"\?")
_UPDATE = re.compile(r'UPDATE "\w+" (?P<set>SET .+?) WHERE (?P<key>"PK" = .+? AND "SK" = .+?) AND (?P<conditions>.+)')


def condense(operation: str, request: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each item that the request reads, writes or checks.

    ``Update POST#a91f META  ADD likeTally 1  if attribute_exists(likeTally)``
    """
    if operation == "TransactWriteItems":
        actions = [(kind, action) for entry in request["TransactItems"] for kind, action in entry.items()]
        width = max(len(kind) for kind, _ in actions)
        return tuple(f"{kind:<{width}} {_line(action)}" for kind, action in actions)
    if operation == "BatchExecuteStatement":
        return tuple(_statement(entry["Statement"], entry["Parameters"]) for entry in request["Statements"])
    if operation == "Scan":
        return (f"the whole of {request['TableName']}",)
    return (_line(request),)


def _statement(text: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    """An ``UPDATE`` of PartiQL, with its key in front."""
    values = iter(parameters)
    filled = _PARAMETER.sub(lambda _: json.dumps(_number(next(values))), text)
    found = _UPDATE.fullmatch(filled)
    assert found is not None, filled
    key = " ".join(json.loads(value) for value in found["key"].split(" AND ") for value in [value.split(" = ", 1)[1]])
    line = f"{key}  {found['set']}  if {found['conditions']}"
    return line.replace('"', "")


def _line(action: Mapping[str, Any]) -> str:
    parts = [
        _key(action.get("Key") or action.get("Item")),
        _filled(action.get("KeyConditionExpression"), action),
        "count only" if action.get("Select") == "COUNT" else "",
        _filled(action.get("UpdateExpression"), action),
        _filled(action.get("ConditionExpression"), action, before="if "),
    ]
    return "  ".join(part for part in parts if part)


def _key(item: Mapping[str, Any] | None) -> str:
    return "" if item is None else " ".join(str(_plain(item[name])) for name in KEY_NAMES if name in item)


def _filled(expression: str | None, action: Mapping[str, Any], before: str = "") -> str:
    if not expression:
        return ""
    names: Mapping[str, str] = action.get("ExpressionAttributeNames", {})
    values: Mapping[str, Any] = action.get("ExpressionAttributeValues", {})

    def fill(found: re.Match[str]) -> str:
        text = found[0]
        if text in names:
            return names[text]
        value = _plain(values[text])
        return json.dumps(value) if isinstance(value, str) and "N" not in values[text] else str(value)

    return before + _PLACEHOLDER.sub(fill, expression)


def _number(value: Mapping[str, Any]) -> Any:
    return int(value["N"]) if "N" in value else _plain(value)


def _plain(value: Mapping[str, Any]) -> Any:
    ((_, content),) = value.items()
    return content
