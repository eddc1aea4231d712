"""What an inspection finds, as objects of JSON."""

from __future__ import annotations

import base64
from decimal import Decimal
from functools import singledispatch
from typing import Any

from pynacount.amounts import Amount
from pynacount.inspecting.parts import Child, Family, FamilyEnd, Parent, Part, PlainSum, Price, Summary
from pynacount.inspecting.texts import verdict
from pynacount.protocols.standings import Standing


def encoded(value: Any) -> str:
    """Bytes as DynamoDB's JSON has them; for ``json.dumps(default=...)``."""
    return base64.b64encode(bytes(value)).decode("ascii")


@singledispatch
def record(part: Part) -> dict[str, Any] | None:
    """The part as an object of JSON, by its ``type``; None for one that only lays out others."""
    raise TypeError(part)


@record.register
def _(part: Parent) -> dict[str, Any]:
    return {
        "type": "parent",
        "model": part.model,
        "table": part.key.table,
        "key": part.key.wire(),
        "exists": part.item is not None,
        "size": part.size,
        "item": part.item,
    }


@record.register
def _(part: Standing) -> dict[str, Any]:
    return {
        "type": "tally",
        "counter": part.counter,
        "attribute": part.attr_name,
        "state": part.state,
        "verdict": verdict(part),
        "tally": _number(part.tally),
        "count": _number(part.count),
        "drift": _number(part.drift),
        "was": _number(part.was),
        "pending": _number(part.pending),
        "shards": part.layout.shards,
        "retiring": part.layout.upto - part.layout.shards,
        "looks": part.looks,
        "problem": part.problem or None,
    }


@record.register
def _(part: PlainSum) -> dict[str, Any]:
    return {
        "type": "plain",
        "counter": part.counter,
        "attribute": part.attr_name,
        "tally": _number(part.tally),
        "beside": _number(part.beside),
        "shards": part.layout.shards,
        "retiring": part.layout.upto - part.layout.shards,
    }


@record.register
def _(part: Family) -> dict[str, Any] | None:
    if not part.problem:
        return None
    return {"type": "children", "model": part.model, "counters": list(part.counters), "problem": part.problem}


@record.register
def _(part: Child) -> dict[str, Any]:
    return {
        "type": "child",
        "model": part.model,
        "key": part.key.wire(),
        "counts": {name: _number(amount) for name, amount in part.counts.items()},
        "size": part.size,
        "item": part.item,
        "problem": part.problem or None,
    }


@record.register
def _(part: FamilyEnd) -> None:
    return None


@record.register
def _(part: Price) -> dict[str, Any]:
    return {
        "type": "price",
        "model": part.model,
        "wcu": part.wcu,
        "items": part.items,
        "operation": part.operation or None,
        "streamed": part.streamed,
        "by": "stored child" if part.like else "key",
        "problem": part.problem or None,
    }


@record.register
def _(part: Summary) -> dict[str, Any]:
    return {
        "type": "summary",
        "clean": part.clean,
        "exists": part.exists,
        "drifted": list(part.drifted),
        "wrong": list(part.wrong),
        "unknown": list(part.unknown),
        "children": part.children,
        "more": part.more,
        "strays": part.strays,
    }


def _number(amount: Amount | None) -> int | float | None:
    return float(amount) if isinstance(amount, Decimal) else amount
