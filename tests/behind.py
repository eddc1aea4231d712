"""Looks at tables, and writes into them, behind the library's back: items with the keys ``PK`` and ``SK``."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from botocore.session import get_session


@cache
def _client(endpoint: str | None) -> Any:
    return get_session().create_client("dynamodb", endpoint_url=endpoint)


def raw() -> Any:
    """A client of one's own, made once for each engine: what it sees and writes does not go through the library."""
    return _client(os.environ.get("AWS_ENDPOINT_URL_DYNAMODB"))


def item(table: str, pk: str, sk: str) -> dict[str, Any] | None:
    """One item as it is stored, without its keys; None where there is none."""
    key = {"PK": {"S": pk}, "SK": {"S": sk}}
    stored: dict[str, Any] | None = raw().get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
    return None if stored is None else {name: value for name, value in stored.items() if name not in key}


def put(table: str, pk: str, sk: str, **attributes: dict[str, Any]) -> None:
    """Write an item."""
    raw().put_item(TableName=table, Item={"PK": {"S": pk}, "SK": {"S": sk}, **attributes})


def partition(table: str, pk: str, sk: str = "") -> dict[str, dict[str, Any]]:
    """The items of a partition whose sort keys begin so, by sort key."""
    values = {":pk": {"S": pk}, **({":sk": {"S": sk}} if sk else {})}
    found = raw().query(
        TableName=table,
        ConsistentRead=True,
        KeyConditionExpression="PK = :pk AND begins_with(SK, :sk)" if sk else "PK = :pk",
        ExpressionAttributeValues=values,
    )
    return {item["SK"]["S"]: item for item in found["Items"]}
