"""What an inspection says in words and in JSON, apart from how it is laid out."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from functools import singledispatch
from typing import Any

from pynacount.amounts import Amount
from pynacount.inspecting.parts import Child, Family, FamilyEnd, Parent, Part, Price, Standing, Summary


def verdict(standing: Standing) -> str:
    """One word for a tally beside its count."""
    if standing.moving:
        return "moving"
    if standing.failed:
        return "unknown"
    if standing.drift is not None:
        return "DRIFT" if standing.drift else "ok"
    return "ok" if standing.state == "present" else standing.state


def notes(standing: Standing, parent: Parent) -> list[str]:
    """What there is to say of a tally beside its numbers."""
    ref = f"{parent.model}.ref({', '.join(f'{name}={value!r}' for name, value in parent.variables.items())})"
    said = {
        "present": "",
        "zero": "absent, which this counter takes for 0",
        "unseeded": f"never counted: the first write of a child counts it, or {standing.counter}.seed({ref})",
        "repairing": "being counted anew: absent until its children are counted",
        "closed": "closed by a cascade that has not finished, so no child comes or goes; call delete() again",
        "unreadable": f"{standing.attr_name} is stored as something else than a number; remove the attribute, and "
        f"it is seeded from its children",
        "missing": "children without a parent" if standing.count else "",
    }
    found = [said[standing.state]]
    if standing.was is not None:
        found.append(f"{standing.attr_name}Was keeps {standing.was}, from before it was counted anew")
    if standing.pending is not None:
        found.append(f"{standing.attr_name}Pending is {standing.pending}: children were written uncounted")
    if standing.moving:
        found.append(
            f"its children come and go: no two of {standing.looks} looks were alike; look again when it is quiet"
        )
    elif standing.drift and standing.looks > 1:
        found.append(f"the same in the last two of {standing.looks} looks")
    return [note for note in [*found, standing.problem] if note]


def price_of(price: Price) -> str:
    """The price of the next child, as a sentence."""
    if price.wcu is None:
        return f"The next {price.model} cannot be priced: {price.problem}"
    items = "1 item" if price.items == 1 else f"{price.items} items"
    by = "by the sizes of what is stored" if price.like else "by its key alone: none is stored yet"
    return f"The next {price.model} costs {price.wcu:g} WCU: {items} in one transaction, {by}."


def plain(value: Mapping[str, Any]) -> str:
    """An attribute value without its types, in one line, control characters escaped."""
    return printable(str(_plain(value)))


def printable(text: str) -> str:
    """A text that cannot move the cursor: what is not printable is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _plain(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    match kind:
        case "M":
            return {name: _plain(inner) for name, inner in content.items()}
        case "L":
            return [_plain(inner) for inner in content]
        case "B":
            return f"{len(content)} bytes"
        case "NULL":
            return None
        case "SS" | "NS":
            return sorted(content)
        case "BS":
            return f"{len(content)} binary values"
    return content


# -- JSON


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
        "looks": part.looks,
        "problem": part.problem or None,
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
        "children": part.children,
        "more": part.more,
        "strays": part.strays,
    }


def _number(amount: Amount | None) -> int | float | None:
    return float(amount) if isinstance(amount, Decimal) else amount
