"""The table of the rows that need attention; the script of the page sorts and filters it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pynacount.amounts import Amount
from pynacount.auditing.page.census import Census
from pynacount.auditing.page.states import badge
from pynacount.auditing.page.texts import key, many, number, text
from pynacount.auditing.page.worst import side
from pynacount.tallies.results import Audited

NUMBERS = ("Tally", "Count", "Drift")
COLUMNS = ("Counter", "Key", "State", *NUMBERS, "Message")
LONG = 16
"""Characters from which on a number may be broken into lines."""


def table(worst: Sequence[Audited], others: Sequence[Audited], census: Census) -> str:
    """All rows that were kept, and how many were not."""
    rows = [*worst, *others]
    left_out = _left_out(len(worst), len(others), census)
    if not rows and not left_out:
        return ""
    heads = "".join(
        f'<th scope="col"{_kind(name)}><button type="button" disabled>{name}</button></th>' for name in COLUMNS
    )
    ranks = [
        _ranks(found.tally for found in rows),
        _ranks(found.count for found in rows),
        _ranks(found.drift for found in rows),
    ]
    body = "\n".join(
        _row(found, [rank.get(value) for rank, value in zip(ranks, _numbers(found), strict=True)]) for found in rows
    )
    return f"""\
<section class="card rows" aria-labelledby="rows-title">
<div class="bar">
<h2 id="rows-title">Needs attention</h2>
<label class="filter" hidden>Filter <input type="search" id="filter" autocomplete="off" spellcheck="false" \
placeholder="key, counter, state, &hellip;"></label>
<p class="shown" id="shown" role="status">{many(len(rows), "row")}</p>
</div>
{left_out}\
<div class="scroll">
<table id="rows">
<thead><tr>{heads}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>
<p class="aside" id="nothing" hidden>No row matches the filter.</p>
</section>
"""


def _left_out(worst: int, others: int, census: Census) -> str:
    drifted = census.wrong["drifted"]
    rest = census.wrong.total() - drifted
    parts = []
    if worst < drifted:
        parts.append(f"the {worst:,} furthest off of {drifted:,} that drifted")
    if others < rest:
        parts.append(f"the first {others:,} of {rest:,} in other states")
    if not parts:
        return ""
    return f'<p class="notice">Rows were left out to keep this page small. It lists {" and ".join(parts)}.</p>\n'


def _row(found: Audited, ranks: Iterable[int | None]) -> str:
    sides = ("", "", side(found))
    numbers = "".join(
        _number(number(value, sign=bool(colour)), rank, colour)
        for value, rank, colour in zip(_numbers(found), ranks, sides, strict=True)
    )
    return (
        f'<tr><td class="counter">{text(found.counter)}</td><td class="key"><code>{key(found.key)}</code></td>'
        f"<td>{badge(found.state)}</td>{numbers}"
        f'<td class="message">{text(found.message)}</td></tr>'
    )


def _number(shown: str, rank: int | None, colour: str) -> str:
    place = "" if rank is None else rank
    long = rank is not None and len(shown) >= LONG
    names = " ".join(filter(None, ("n", colour, "long" if long else "")))
    return f'<td class="{names}" data-rank="{place}">{shown.replace(",", ",<wbr>") if long else shown}</td>'


def _numbers(found: Audited) -> tuple[Amount | None, Amount | None, Amount | None]:
    return found.tally, found.count, found.drift


def _ranks(values: Iterable[Amount | None]) -> dict[Amount | None, int]:
    """The place of each number among them: the script's own numbers would take 2**53 and 2**53 + 1 for the same."""
    ordered = sorted({value for value in values if value is not None})
    return {value: place for place, value in enumerate(ordered)}


def _kind(name: str) -> str:
    return ' class="n" data-numbers' if name in NUMBERS else ""
