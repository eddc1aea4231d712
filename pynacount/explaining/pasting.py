"""A plan as text to paste: JSON, a boto3 snippet, a command of the AWS CLI."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from typing import Any

from botocore import xform_name

from pynacount.explaining.requests import Explained

FULL_GROUP = 99
"""Calls of the group for which a price in a group is given: the most children of one transaction."""
WIDTH = 80
"""Columns that the Python snippet is laid out for."""


def as_json(explained: Sequence[Explained]) -> str:
    """One JSON document: a list of the writes, each with the exact ``request`` and its price, ``wcu`` and ``rcu``.

    ``wcu_in_a_group`` is the price for each of 99 calls that share a request, where the counter commits in groups.
    """
    return json.dumps(
        [
            {
                "model": one.model,
                "does": one.verb,
                "operation": one.plan.operation,
                "wcu": one.plan.cost().wcu,
                "rcu": one.plan.cost().rcu,
                **({} if one.shared is None else {"wcu_in_a_group": one.wcu_in_group(FULL_GROUP)}),
                **({"note": one.note} if one.note else {}),
                "request": one.plan.request(),
            }
            for one in explained
        ],
        indent=2,
        default=_encoded,
        ensure_ascii=False,
    )


def as_cli(explained: Sequence[Explained]) -> str:
    """A command of the AWS CLI for each write, quoted for a POSIX shell."""
    return "\n\n".join(f"# {_title(one)}\n{_command(one)}" for one in explained)


def as_boto3(explained: Sequence[Explained]) -> str:
    """A Python program that sends the writes one after the other."""
    settings = dict.fromkeys(
        tuple((name, value) for name, value in (("region_name", one.region), ("endpoint_url", one.host)) if value)
        for one in explained
    )
    parts = ["import boto3"]
    for chosen in settings:
        arguments = "".join(f", {name}={value!r}" for name, value in chosen)
        # Models of several regions make for several clients, each before its own writes.
        parts.append(f"dynamodb = boto3.client('dynamodb'{arguments})")
        for one in explained:
            wanted = (("region_name", one.region), ("endpoint_url", one.host))
            if tuple((name, value) for name, value in wanted if value) == chosen:
                parts.append(f"# {_title(one)}\n{_call(one)}")
    return "\n\n".join(parts)


def _title(one: Explained) -> str:
    cost = one.plan.cost()
    units = ((cost.wcu, "WCU"), (cost.rcu, "RCU"))
    price = " and ".join(f"{number:g} {unit}" for number, unit in units if number)
    if one.shared is not None:
        price = f"{price}; in a group of {FULL_GROUP} (group_commit), {one.wcu_in_group(FULL_GROUP):g} each"
    article = "" if "." in one.model or "many" in one.verb else "a "  # a counter, Stats.plays; or a child's model
    verb = "create" if one.verb == "parent" else one.verb
    price = f"{price} for each batch" if one.verb == "stream" else price
    return ", ".join(filter(None, (f"{verb} of {article}{one.model}", price, one.note)))


def _command(one: Explained) -> str:
    request = json.dumps(one.plan.request(), default=_encoded, ensure_ascii=False)
    words = ["aws", "dynamodb", xform_name(one.plan.operation, "-"), "--cli-input-json", request]
    words += ["--region", one.region] if one.region else []
    words += ["--endpoint-url", one.host] if one.host else []
    return shlex.join(words)


def _call(one: Explained) -> str:
    arguments = "".join(f"    {name}={_literal(value, 4)},\n" for name, value in one.plan.request().items())
    return f"dynamodb.{xform_name(one.plan.operation)}(\n{arguments})"


def _literal(value: Any, indent: int) -> str:
    """A Python literal, broken over lines where it is too long for one."""
    plain = repr(value)
    if not isinstance(value, (dict, list)) or not value or indent + len(plain) <= WIDTH - 30:
        return plain
    inner = " " * (indent + 4)
    if isinstance(value, dict):
        lines = [f"{inner}{name!r}: {_literal(content, indent + 4)},\n" for name, content in value.items()]
        return "{\n" + "".join(lines) + " " * indent + "}"
    return "[\n" + "".join(f"{inner}{_literal(content, indent + 4)},\n" for content in value) + " " * indent + "]"


def _encoded(value: Any) -> str:
    """Bytes as DynamoDB's JSON has them."""
    return base64.b64encode(bytes(value)).decode("ascii")
