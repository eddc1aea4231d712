"""The first part: a table that was never counted, and its tallies beside the published totals.

Source: Allison Davis, Burleigh B. Gardner and Mary R. Gardner, *Deep South* (University of Chicago Press, 1941),
the attendance of 18 women at 14 social events.
"""

from __future__ import annotations

import csv
from importlib import resources

from pynacount.demo.calling import call
from pynacount.demo.models import Event, PlainEventItem
from pynacount.demo.parts import SeededEvent, Seeding

PUBLISHED = (3, 3, 6, 4, 8, 8, 10, 14, 12, 5, 4, 6, 3, 3)
"""How many women came to the events E1 to E14, as published."""
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


def seed_all() -> Seeding:
    """Load the table, then seed every event."""
    rows = attendances()
    load(rows)
    refs = {event: Event.ref(event=event) for event in EVENTS}
    before = {event: Event.attendance_tally.value(ref) for event, ref in refs.items()}
    first = EVENTS[0]
    shown = call(
        f'Event.attendance_tally.seed(Event.ref(event="{first}"))',
        lambda: Event.attendance_tally.seed(refs[first]),
        expected=PUBLISHED[0],
    )
    for event in EVENTS[1:]:
        Event.attendance_tally.seed(refs[event])
    after = Event.attendance_tally.values(refs.values(), consistent_read=True)
    return Seeding(
        women=len({woman for woman, _ in rows}),
        attendances=len(rows),
        first=shown,
        events=tuple(
            SeededEvent(event, before[event], after.get(refs[event]), published)
            for event, published in zip(EVENTS, PUBLISHED, strict=True)
        ),
    )
