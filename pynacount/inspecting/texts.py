"""What an inspection says in words, apart from how they are laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pynacount.inspecting.parts import Parent, PlainSum, Price
from pynacount.protocols.standings import Standing
from pynacount.shards import shard_key


def verdict(standing: Standing) -> str:
    """One word for a tally beside its count."""
    if standing.moving:
        return "moving"
    if standing.failed or standing.unknown:
        return "unknown"
    if standing.drift is not None:
        return "DRIFT" if standing.drift else "ok" if standing.state == "present" else standing.state
    return standing.state


def notes(standing: Standing, parent: Parent) -> list[str]:
    """What there is to say of a tally beside its numbers."""
    ways = parent.ways[standing.counter]
    said = {
        "present": "",
        "zero": "absent, which this counter takes for 0",
        "unseeded": f"never counted: {ways.seed}",
        "repairing": "being counted anew: absent until its children are counted",
        "closed": "closed by a cascade that has not finished, so no child comes or goes; call delete() again",
        "unreadable": f"{standing.attr_name} is stored as something else than a number: {ways.mend}",
        "missing": "children without a parent" if standing.count else "",
    }
    found = [said[standing.state], *_of_shards(standing, parent, "")]
    if standing.was is not None:
        found.append(f"{standing.attr_name}Was keeps {standing.was}, from before it was counted anew")
    if standing.pending is not None:
        found.append(f"{standing.attr_name}Pending is there: children were written uncounted, or it was repaired")
    if standing.moving:
        found.append(
            f"its children come and go: no two of {standing.looks} looks were alike; look again when it is quiet"
        )
    elif standing.drift and standing.looks > 1:
        found.append(f"the same in the last two of {standing.looks} looks: {ways.mend}")
    if standing.unknown and not standing.failed:
        found.append(f"not compared with a count: {ways.compare}")
    return [note for note in [*found, standing.problem] if note]


def sum_of(part: PlainSum, parent: Parent) -> str:
    """Where a plain counter is that is in shards."""
    beside = f", and of {part.beside} on the item itself, beside them" if part.beside else ""
    return "".join(_of_shards(part, parent, beside))


def _of_shards(standing: Standing | PlainSum, parent: Parent, beside: str) -> list[str]:
    """Where the parts of a tally are that is in shards."""
    layout = standing.layout
    if layout.shards == 1:
        return []
    first, last = (shard_key(parent.key, standing.attr_name, place) for place in (0, layout.upto - 1))
    where = f"the sum of {layout.upto} shards, {first.values[1][1]} to {last.values[1][1]}" + beside
    if layout.upto == layout.shards:
        return [where]
    again = f"pynacount reshard --to {layout.shards} brings it to its end, if none is running"
    return [f"{where}, which are being brought into {layout.shards}; {again}"]


def price_of(price: Price) -> str:
    """The price of the next child, as a sentence."""
    if price.wcu is None:
        return f"The next {price.model} cannot be priced: {price.problem}"
    items = "1 item" if price.items == 1 else f"{price.items} items"
    by = "by the sizes of what is stored" if price.like else "by its key alone: none is stored yet"
    how = f"{items} in one transaction" if price.operation == "TransactWriteItems" else "one plain write"
    apart = " The consumer of the stream writes apart." if price.streamed else ""
    return f"The next {price.model} costs {price.wcu:g} WCU: {how}, {by}.{apart}"


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
