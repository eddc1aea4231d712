"""The first part: a table that was never counted, and its tallies beside the published totals.

Source: Allison Davis, Burleigh B. Gardner and Mary R. Gardner, *Deep South* (University of Chicago Press, 1941),
the attendance of 18 women at 14 social events.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib import resources

from pynamodb.expressions.operand import Path

from pynacount.demo.calling import call
from pynacount.demo.models import Event, PlainEventItem
from pynacount.demo.parts import Call, Scene, SeededEvent, Seeding
from pynacount.keys import ItemKey
from pynacount.tallies import audit, migrate, repair

PUBLISHED = (3, 3, 6, 4, 8, 8, 10, 14, 12, 5, 4, 6, 3, 3)
"""How many women came to the events E1 to E14, as published."""
OVERWRITTEN = {"E1": 7, "E9": 10}
"""Events, and what a script makes their tallies."""
EVENTS = tuple(f"E{number}" for number in range(1, 15))


def attendances() -> list[tuple[str, str]]:
    """The rows of the table: woman, event."""
    text = resources.files("pynacount.data").joinpath("southern-women.csv").read_text("utf-8")
    return [(row["woman"], row["event"]) for row in csv.DictReader(text.splitlines())]


def load(rows: list[tuple[str, str]]) -> None:
    """Write events and attendances as an application did before it knew of tallies: nothing is counted."""
    with PlainEventItem.batch_write() as batch:
        for event in EVENTS:
            batch.save(PlainEventItem(f"EVENT#{event}", "META"))
        for woman, event in rows:
            batch.save(PlainEventItem(f"EVENT#{event}", f"WOMAN#{woman}"))


def mend() -> Scene:
    """A script writes behind the library's back; an audit finds it, and a repair mends it."""
    before = Event.attendance_tally.value(Event.ref(event="E1"), consistent_read=True)
    for event, number in OVERWRITTEN.items():
        PlainEventItem(f"EVENT#{event}", "META").update(actions=[Path("attendanceTally").set(number)])
    found = [_audit(f"E1 {OVERWRITTEN['E1']}, not 3; E9 {OVERWRITTEN['E9']}, not 12")]
    wrong = [one for one in audit([Event.attendance_tally], workers=1) if one.wrong]
    mended = call(
        "list(repair([Event.attendance_tally], audit([Event.attendance_tally])))",
        lambda: "; ".join(
            f"{_event(done.key)} {done.was} -> {done.now} by {done.by}"
            for done in repair([Event.attendance_tally], wrong, workers=1)
        ),
        expected=f"E1 {OVERWRITTEN['E1']} -> 3 by fence; E9 {OVERWRITTEN['E9']} -> 12 by fence",
    )
    one_repair = mended.requests[: len(mended.requests) // 2]
    return Scene(
        title="A number that a script overwrote",
        why="An update by boto3 knows of no rule. An audit reads the table once and looks at what differs again. A "
        "repair takes the tally away, so that nobody comes or goes, counts, and sets it; shown for one event.",
        calls=(*found, replace(mended, requests=one_repair), _audit("nothing")),
        before=before,
        after=Event.attendance_tally.value(Event.ref(event="E1"), consistent_read=True),
        expected_after=PUBLISHED[0],
    )


def _audit(expected: str) -> Call:
    def wrong() -> str:
        found = sorted(audit([Event.attendance_tally], workers=1), key=lambda one: str(one.key))
        return "; ".join(f"{_event(one.key)} {one.tally}, not {one.count}" for one in found if one.wrong) or "nothing"

    made = call("[one for one in audit([Event.attendance_tally]) if one.wrong]", wrong, expected=expected)
    return replace(made, requests=())  # too many to show


def _event(key: ItemKey) -> str:
    return str(key.values[0][1]).removeprefix("EVENT#")


def seed_all() -> Seeding:
    """Load the table, then seed every event in one pass."""
    rows = attendances()
    load(rows)
    refs = {event: Event.ref(event=event) for event in EVENTS}
    before = {event: Event.attendance_tally.value(ref) for event, ref in refs.items()}
    shown = call(
        "list(migrate([Event.attendance_tally]))",
        lambda: f"{len(list(migrate([Event.attendance_tally], workers=1)))} events seeded",
        expected=f"{len(EVENTS)} events seeded",
    )
    after = Event.attendance_tally.values(refs.values(), consistent_read=True)
    return Seeding(
        women=len({woman for woman, _ in rows}),
        attendances=len(rows),
        call=shown,
        events=tuple(
            SeededEvent(event, before[event], after.get(refs[event]), published)
            for event, published in zip(EVENTS, PUBLISHED, strict=True)
        ),
    )
