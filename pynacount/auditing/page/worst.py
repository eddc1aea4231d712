"""The few tallies that are furthest off."""

from __future__ import annotations

from collections.abc import Sequence

from pynacount.auditing.page.texts import key, number, text
from pynacount.tallies.results import Audited

SHOWN = 10


def side(found: Audited) -> str:
    """``low``, ``high`` or nothing: the class that colours a drift."""
    return "" if not found.drift else "low" if found.drift < 0 else "high"


def worst(rows: Sequence[Audited]) -> str:
    """A list of the first rows; ``rows`` has the worst first."""
    if not rows:
        return ""
    entries = "\n".join(
        f'<li><span class="drift {side(found)}">{number(found.drift, sign=True)}</span>'
        f'<span class="who"><code>{key(found.key)}</code> <span class="counter">{text(found.counter)}</span></span>'
        f'<span class="pair">tally <b>{number(found.tally)}</b>, count <b>{number(found.count)}</b></span></li>'
        for found in rows[:SHOWN]
    )
    return f"""\
<section class="card worst" aria-labelledby="worst-title">
<h2 id="worst-title">Furthest off</h2>
<ol>
{entries}
</ol>
</section>
"""
