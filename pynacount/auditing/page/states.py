"""The counts by state, each with what it means."""

from __future__ import annotations

from pynacount.auditing.page.census import Census
from pynacount.tallies.results import AuditState

MEANINGS: dict[AuditState, str] = {
    "ok": "Tally and count are equal.",
    "drifted": "They differ, and did so again at another look.",
    "orphaned": "There are children and no parent.",
    "closed": "A cascade began to delete the parent and was not finished.",
    "repairing": "A repair took the tally away and was not finished.",
    "unreadable": "The tally is stored as something else than a number.",
    "unknown": "A child cannot be counted.",
    "moving": "Children came and went at every look, so it could not be told.",
    "unseeded": "There is no tally yet.",
}


def badge(state: AuditState) -> str:
    """The state with its colour."""
    return f'<span class="state {state}">{state}</span>'


def states(census: Census) -> str:
    """A table of the states that occur; ``ok`` and ``drifted`` always do, unless there is nothing."""
    if not census.states:
        return ""
    rows = "\n".join(
        f'<tr><th scope="row">{badge(state)}</th><td class="n">{census.states[state]:,}</td><td>{meaning}</td></tr>'
        for state, meaning in MEANINGS.items()
        if census.states[state] or state in ("ok", "drifted")
    )
    return f"""\
<section class="card states" aria-labelledby="states-title">
<h2 id="states-title">States</h2>
<table>
<thead><tr><th scope="col">State</th><th scope="col" class="n">Tallies</th><th scope="col">Meaning</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</section>
"""
