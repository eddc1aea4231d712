"""Conditional updates in PartiQL for moto, which runs ``UPDATE`` statements but ignores their conditions."""

from __future__ import annotations

import re
from typing import Any

# A name may hold anything; a quote in it is doubled.
_NAME = r'"((?:[^"]|"")+)"'
_SET = re.compile(rf"SET {_NAME} = \?")
_CONDITION = re.compile(rf"{_NAME} (= \?|IS MISSING|IS NOT MISSING)")
_UPDATE = re.compile(
    rf"UPDATE {_NAME} (?P<sets>{_SET.pattern}(?: {_SET.pattern})*) "
    rf"WHERE (?P<conditions>{_CONDITION.pattern}(?: AND {_CONDITION.pattern})*)"
)
_WORDS = {"= ?": "{0} = {1}", "IS MISSING": "attribute_not_exists({0})", "IS NOT MISSING": "attribute_exists({0})"}


def batch_execute_statement(handler: Any) -> Any:
    """moto's answer to ``BatchExecuteStatement``: each statement stands alone, and is refused alone."""
    from moto.core.responses import ActionResult

    whole = handler.body
    try:
        answers = [_execute(handler, statement) for statement in whole["Statements"]]
    finally:
        handler.body = whole
    written = sum("Error" not in answer for answer in answers)
    return ActionResult({"Responses": answers, "ConsumedCapacity": [{"CapacityUnits": float(written)}]})


def _execute(handler: Any, statement: dict[str, Any]) -> dict[str, Any]:
    from moto.dynamodb.exceptions import ConditionalCheckFailed, DynamodbException

    found = _UPDATE.fullmatch(statement["Statement"])
    if found is None:
        answer: dict[str, Any] = handler.dynamodb_backend.batch_execute_statement([statement])[0]
        return answer
    table = found[1]
    try:
        keys = handler.dynamodb_backend.get_table(table).attribute_keys
        handler.body = {"TableName": table, **_update_item(found, keys, iter(statement.get("Parameters", ())))}
        handler.update_item()
    except ConditionalCheckFailed as refused:
        return {"TableName": table, "Error": {"Code": "ConditionalCheckFailed", "Message": refused.message}}
    except DynamodbException as error:
        code = error.error_type.rpartition("#")[2].removesuffix("Exception")
        return {"TableName": table, "Error": {"Code": code, "Message": error.message}}
    return {"TableName": table}


def _update_item(found: re.Match[str], keys: list[str], parameters: Any) -> dict[str, Any]:
    """The same as an ``UpdateItem``; ``UPDATE`` never creates an item."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}

    def name(text: str) -> str:
        names[f"#n{len(names)}"] = text.replace('""', '"')
        return f"#n{len(names) - 1}"

    def value() -> str:
        values[f":v{len(values)}"] = next(parameters)
        return f":v{len(values) - 1}"

    sets = ", ".join(f"{name(attribute)} = {value()}" for attribute in _SET.findall(found["sets"]))
    key: dict[str, Any] = {}
    conditions = [f"attribute_exists({name(keys[0])})"]
    for attribute, word in _CONDITION.findall(found["conditions"]):
        if attribute in keys:
            key[attribute] = next(parameters)
        else:
            conditions.append(_WORDS[word].format(name(attribute), value() if word == "= ?" else ""))
    return {
        "Key": key,
        "UpdateExpression": f"SET {sets}",
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }
