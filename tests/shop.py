"""A table and a few requests for the tests of the engines, written without the library's own models."""

from __future__ import annotations

from typing import Any

from botocore.config import Config
from botocore.session import get_session
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

ONE_TRY = {"total_max_attempts": 1}


class Stock(Model):
    """How many of a thing are left."""

    class Meta:
        table_name = "Shop"
        max_retry_attempts = 0

    pk = UnicodeAttribute(hash_key=True, attr_name="PK")
    sk = UnicodeAttribute(range_key=True, attr_name="SK")
    left = NumberAttribute(default=0)


def client(attempts: int = 1) -> Any:
    """A botocore client with no settings but the number of its attempts."""
    retries = {"total_max_attempts": attempts, "mode": "standard"}
    return get_session().create_client("dynamodb", config=Config(retries=retries))


def key(name: str) -> dict[str, Any]:
    return {"PK": {"S": "SHOP"}, "SK": {"S": name}}


def add(name: str, by: int = 1) -> dict[str, Any]:
    """One write of a transaction: ``left`` grows by ``by``."""
    return {
        "Update": {
            "TableName": "Shop",
            "Key": key(name),
            "UpdateExpression": "ADD #left :by",
            "ExpressionAttributeNames": {"#left": "left"},
            "ExpressionAttributeValues": {":by": {"N": str(by)}},
        }
    }


def put_new(name: str) -> dict[str, Any]:
    """One write of a transaction: an item that must not be there yet."""
    put = {"TableName": "Shop", "Item": key(name), "ConditionExpression": "attribute_not_exists(SK)"}
    return {"Put": put}


def left(dynamodb: Any, name: str) -> int | None:
    """The number on the item; None if the item or the number is absent."""
    item = dynamodb.get_item(TableName="Shop", Key=key(name), ConsistentRead=True).get("Item", {})
    return int(item["left"]["N"]) if "left" in item else None
