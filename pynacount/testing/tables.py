"""Creating the tables of models that share them."""

from __future__ import annotations

from typing import Any

from pynamodb.constants import PAY_PER_REQUEST_BILLING_MODE
from pynamodb.models import Model


def create_tables(*models: type[Model]) -> None:
    """Create each table that the models name, once, with the indexes that any of them declares, and wait for it.

    A model's own ``create_table`` knows only its own indexes: in a single-table design the first model to create
    the table would decide for all. A table that exists already is left as it is.
    """
    by_table: dict[str, list[type[Model]]] = {}
    for model in models:
        by_table.setdefault(model.Meta.table_name, []).append(model)
    for sharing in by_table.values():
        first = sharing[0]
        if not first.exists():
            first._get_connection().create_table(**_definition(sharing))
        # It exists by now: what is left of PynamoDB's own call is to wait and to turn TTL on.
        for model in sharing:
            model.create_table(wait=True)


def _definition(models: list[type[Model]]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    global_indexes: dict[str, Any] = {}
    local_indexes: dict[str, Any] = {}
    streams: list[str] = []
    for model in models:
        schema: Any = model._get_schema()
        for attribute in schema["attribute_definitions"]:
            attributes[attribute.get("AttributeName") or attribute["attribute_name"]] = attribute
        global_indexes.update((index["index_name"], index) for index in schema["global_secondary_indexes"])
        local_indexes.update((index["index_name"], index) for index in schema["local_secondary_indexes"])
        streams += filter(None, [getattr(model.Meta, "stream_view_type", None)])
    definition: dict[str, Any] = {
        "attribute_definitions": list(attributes.values()),
        "key_schema": models[0]._get_schema()["key_schema"],
        "global_secondary_indexes": list(global_indexes.values()),
        "local_secondary_indexes": list(local_indexes.values()),
        "billing_mode": PAY_PER_REQUEST_BILLING_MODE,
    }
    if streams:
        definition["stream_specification"] = {"stream_enabled": True, "stream_view_type": streams[0]}
    return definition
