"""Parents whose children lie anywhere, seeded by a record of the parent, a scan of the children, a guarded set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pynacount.protocols.seeding import read, seed_recorded
from pynacount.steps import Protocol, Refusal, Send, Wait
from pynacount.tallies.aggregating import Recorded
from pynacount.tallies.children import child_tables
from pynacount.tallies.telling import PageSums

from .protocols import TABLE, Actor, Author, Note, discards, saves, uncounted
from .scenarios import Family, Scenario, parent, table

NOTES = Family("noteTally", "NOTE#", "AUTHOR#1", anywhere=True)


def author() -> Author:
    return Author(author_id="1")


def note(name: str) -> Callable[[], Note]:
    return lambda: Note(author_id="1", note_id=name)


def note_item(name: str) -> dict[str, Any]:
    return {"PK": f"NOTE#1#{name}", "SK": f"NOTE#{name}"}


def migrates(*names: str, scans_first: bool = False) -> Actor:
    """Seed the author as a migration does. A read stands for the scan's page with the author, and a query for each page
    that may have a note. ``scans_first``: the wrong way round."""

    def scan() -> Protocol[PageSums]:
        ((reader,),) = (one.readers for one in child_tables([Author.note_tally]))
        page = PageSums()
        for name in names:
            request = {
                "TableName": TABLE,
                "ConsistentRead": True,
                "KeyConditionExpression": "PK = :pk",
                "ExpressionAttributeValues": {":pk": {"S": f"NOTE#1#{name}"}},
            }
            answer = yield Send("Query", request)
            assert not isinstance(answer, Refusal)
            for item in answer["Items"]:
                reader.take(item, page)
        return page

    def protocol() -> Protocol[Any]:
        tally, key = Author.note_tally.tally, Author._counting.key_of(author())
        page = (yield from scan()) if scans_first else None
        item = yield from read(key, about=tally.label)
        if tally.attr_name in item:
            return None
        met = Recorded.of(tally, key, item)
        if met.marked:
            yield Wait(tally.settle)
        if page is None:
            page = yield from scan()
        return (yield from seed_recorded(tally, key, page.sums.get((tally.target, key), 0), met.item or {}))

    return protocol


UNSEEDED = table(parent(NOTES), note_item("a"))

SCENARIOS = (
    Scenario(
        "a scan of notes beside one added and one removed, by an author that was never seeded",
        NOTES,
        UNSEEDED,
        {"migrate": migrates("a", "b"), "add": saves(note("b")), "un": discards(note("a"))},
        adds={"b": ("add",)},
        removes={"a": ("un",)},
        lost_responses=0,
    ),
    Scenario(
        "a scan of notes with lost answers beside one added",
        NOTES,
        UNSEEDED,
        {"migrate": migrates("a", "b"), "add": saves(note("b"))},
        adds={"b": ("add",)},
        lost_responses=2,
    ),
    Scenario(
        "a scan of notes beside a backfill, of an author that was never seeded",
        NOTES,
        UNSEEDED,
        {"migrate": migrates("a", "b"), "backfill": uncounted(saves(note("b")))},
        adds={"b": ("backfill",)},
    ),
    Scenario(
        "a scan of notes beside a backfill and one added, of an author that is seeded",
        NOTES,
        table(parent(NOTES, noteTally=1), note_item("a")),
        {
            "migrate": migrates("a", "b", "c"),
            "backfill": uncounted(saves(note("b"))),
            "add": saves(note("c")),
        },
        adds={"b": ("backfill",), "c": ("add",)},
        lost_responses=0,
    ),
    Scenario(
        "two scans of notes beside a second backfill and one added",
        NOTES,
        table(parent(NOTES, noteTallyPending=1), note_item("a")),
        {
            "one": migrates("a", "b"),
            "two": migrates("a", "b"),
            "backfill": uncounted(saves(note("b"))),
            "un": discards(note("a")),
        },
        adds={"b": ("backfill",)},
        removes={"a": ("un",)},
        crashes=0,
        lost_responses=0,
    ),
    Scenario(
        "a scan of notes that finishes a repair, beside one removed",
        NOTES,
        table(parent(NOTES, noteTallyPending=1, noteTallyWas=7), note_item("a")),
        {"migrate": migrates("a"), "un": discards(note("a"))},
        removes={"a": ("un",)},
    ),
)
