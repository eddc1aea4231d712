"""What the audit comes to, in one line and a second one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pynacount.auditing.page.census import Census
from pynacount.auditing.page.texts import many


@dataclass(frozen=True, slots=True)
class Headline:
    """``mood`` is what its mark shows."""

    mood: Literal["good", "bad", "warn", "none"]
    text: str
    more: str


STOPPED = (
    "This audit was stopped: it is no proof that the rest is right, and tallies that seemed wrong may not have been "
    "looked at again."
)


def headline(census: Census, *, stopped: bool = False) -> Headline:
    """The headline of these counts; ``stopped``: the audit did not come to its end."""
    if not stopped:
        return _whole(census)
    found = _whole(census)
    if found.mood in ("good", "none"):
        return Headline("warn", "Stopped before its end", f"{found.text} so far. {found.more} {STOPPED}")
    return Headline(found.mood, f"Stopped before its end: {found.text}", f"{found.more} {STOPPED}")


def _whole(census: Census) -> Headline:
    total, wrong = census.states.total(), census.wrong.total()
    drifted = census.states["drifted"]
    others = ", ".join(f"{count:,} {state}" for state, count in census.wrong.most_common() if state != "drifted")
    if not total:
        return Headline("none", "Nothing was audited", "The audit came upon no tally.")
    if drifted:
        has = "has" if drifted == 1 else "have"
        more = f"Also: {others}." if others else "Nothing else needs attention."
        return Headline("bad", f"{drifted:,} of {many(total, 'tally')} {has} drifted", more)
    if wrong:
        need = "needs" if wrong == 1 else "need"
        return Headline("warn", f"No drift, but {many(wrong, 'tally')} {need} attention", f"{others}, of {total:,}.")
    rest = ", ".join(f"{count:,} {state}" for state, count in census.states.most_common() if state != "ok")
    more = f"The others need no attention: {rest}." if rest else "Every tally equals its count."
    return Headline("good", "No drift", f"{census.states['ok']:,} of {many(total, 'tally')} ok. {more}")
