"""The demonstration from beginning to end, part by part."""

from __future__ import annotations

from collections.abc import Generator

from pynacount.demo import attendance, likes
from pynacount.demo.models import Attendance, Event, Like, PlainEventItem, PlainPostItem, Post
from pynacount.demo.parts import Part, Standing, Verdict
from pynacount.testing import MotoEngine, create_tables


def play() -> Generator[Part, None, None]:
    """Run the demonstration on an engine of its own; it is in force until the generator is exhausted or closed.

    Raises ``ImportError``, with what to install, where moto is missing.
    """
    with MotoEngine():
        create_tables(Post, Like, Event, Attendance)
        yield attendance.seed_all()
        yield from likes.scenes()
        yield attendance.mend()
        yield verdict()


def verdict() -> Verdict:
    """Every parent's tally, and its children counted by PynamoDB's own query, without this library."""
    refs = {event: Event.ref(event=event) for event in attendance.EVENTS}
    tallies = Event.attendance_tally.values(refs.values(), consistent_read=True)
    events = [
        Standing(
            f"EVENT#{event}",
            tallies.get(ref),
            PlainEventItem.count(f"EVENT#{event}", PlainEventItem.sk.startswith("WOMAN#"), consistent_read=True),
        )
        for event, ref in refs.items()
    ]
    posts = [
        Standing(
            f"POST#{post_id}",
            likes.tally(post_id),
            PlainPostItem.count(f"POST#{post_id}", PlainPostItem.sk.startswith("LIKE#USER#"), consistent_read=True),
            deleted=post_id == likes.DELETED,
        )
        for post_id in (likes.POST, likes.DELETED)
    ]
    return Verdict((*events, *posts))
