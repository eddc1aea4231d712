"""Seeding parents whose children lie anywhere: recorded, summed up by a scan of the children's table, and set."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, uncounted
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.errors import CounterNotSeeded, DeclarationError, StateError
from pynacount.keys import ItemKey
from pynacount.tallies import Seeded, Tracking, migrate
from pynacount.tallies.aggregating import Recorded, SummedPages, SummedScan, Sums
from pynacount.tallies.children import child_tables
from pynacount.tallies.progress import Position, State
from pynacount.testing import Fault, FaultInjector, record_requests
from social import Meta, before, item, items, put, raw, right_before


class Author(CountedModel):
    """Whoever writes notes and comments; no index finds what they wrote."""

    Meta = Meta
    pk = KeyAttribute("AUTHOR#{author_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    text_tally = CounterField(attr_name="textTally", settle=0.01)
    star_tally = CounterField(attr_name="starTally", settle=0.01)
    own_tally = CounterField(attr_name="ownTally")


class Badge(CountedModel):
    """In the author's own partition."""

    Meta = Meta
    pk = KeyAttribute("AUTHOR#{author_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("BADGE#{badge_id}", range_key=True, attr_name="SK")
    author = CountedIn(Author.own_tally)


class Note(CountedModel):
    Meta = Meta
    pk = KeyAttribute("NOTE#{note_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    writer = UnicodeAttribute(null=True)
    stars = NumberAttribute(null=True)
    hidden = BooleanAttribute(null=True)
    text = CountedIn(Author.text_tally, author_id="writer", when=lambda note: not note.hidden, reads=("hidden",))
    rated = CountedIn(Author.star_tally, author_id="writer", amount="stars")


class Comment(CountedModel):
    """In a table of its own, with plain keys."""

    class Meta:
        table_name = "Comments"
        counted_deadline = 20

    comment_id = UnicodeAttribute(hash_key=True)
    author_id = UnicodeAttribute(null=True)
    text = CountedIn(Author.text_tally)


class Shelf(CountedModel):
    """Several in one partition."""

    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SHELF#{number:int}", range_key=True, attr_name="SK")
    book_tally = CounterField(attr_name="bookTally", settle=0.01)


class Book(CountedModel):
    Meta = Meta
    pk = KeyAttribute("BOOK#{book_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    room = UnicodeAttribute(null=True)
    shelf = NumberAttribute(null=True)
    stands_on = CountedIn(Shelf.book_tally, room_id="room", number="shelf")


class Ticket(CountedModel):
    """A parent that is keyed by a number."""

    class Meta:
        table_name = "Tickets"

    number = NumberAttribute(hash_key=True)
    reply_tally = CounterField(attr_name="replyTally")


class Reply(CountedModel):
    class Meta:
        table_name = "Replies"

    reply_id = UnicodeAttribute(hash_key=True)
    ticket = NumberAttribute(null=True)
    to = CountedIn(Ticket.reply_tally, number="ticket")


MODELS = (Author, Badge, Note, Comment, Shelf, Book, Ticket, Reply)
Tables = Callable[..., None]


@pytest.fixture(autouse=True)
def town(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames or "tables" in request.fixturenames:
        request.getfixturevalue("tables")(*MODELS)


def put_note(name: str, writer: str, **attributes: Any) -> None:
    put(f"NOTE#{name}", "META", writer={"S": writer}, **attributes)


def put_comment(name: str, author: str) -> None:
    raw().put_item(TableName="Comments", Item={"comment_id": {"S": name}, "author_id": {"S": author}})


def legacy(notes: dict[str, int]) -> None:
    """Authors and their notes, as a program wrote them that knew no tally."""
    for author, many in notes.items():
        put(f"AUTHOR#{author}", "META")
        for index in range(many):
            put_note(f"{author}{index}", author, stars={"N": "2"})


def stored(author: str, name: str = "textTally") -> str | None:
    value = (item(f"AUTHOR#{author}", "META") or {}).get(name)
    return None if value is None else value["N"]


def by_author(outcomes: list[Seeded]) -> dict[str, Any]:
    return {str(one.key.values[0][1]).removeprefix("AUTHOR#"): one.tally for one in outcomes}


def seed_all(*counters: CounterField, **options: Any) -> list[Seeded]:
    return list(migrate(counters or (Author.text_tally,), workers=1, **options))


def test_children_by_foreign_key_in_two_tables_are_summed_exactly(tables: Tables) -> None:
    legacy({"ada": 3, "bob": 0})
    put_note("h", "ada", hidden={"BOOL": True})
    put("NOTE#nobody", "META")
    put_note("other", "cyd")  # who is no author
    put_note("odd", "a#b")  # which can be nobody's id
    put("POST#writer", "META", writer={"N": "7"})  # another model's item
    put_comment("1", "ada")
    put_comment("2", "bob")
    outcomes = seed_all()
    assert by_author(outcomes) == {"ada": 4, "bob": 1}
    assert {one.status for one in outcomes} == {"seeded"}
    assert (stored("ada"), stored("bob"), stored("cyd")) == ("4", "1", None)
    assert seed_all() == []


@pytest.mark.parametrize("segments", [1, 4])
def test_several_counters_share_the_scans_and_local_ones_go_with_the_first(tables: Tables, segments: int) -> None:
    legacy({"ada": 2, "bob": 1})
    put("AUTHOR#ada", "BADGE#b")
    put_note("half", "bob", stars={"N": "0.5"}, hidden={"BOOL": True})
    track = Tracking()
    with record_requests(connection_for(Meta).client) as sent:
        counters = (Author.text_tally, Author.star_tally, Author.own_tally)
        outcomes = seed_all(*counters, segments=segments, tracking=track)
    told = sorted((one.counter, str(one.key.values[0][1]), one.tally) for one in outcomes)
    assert told == [
        ("Author.own_tally", "AUTHOR#ada", 1),
        ("Author.own_tally", "AUTHOR#bob", 0),
        ("Author.star_tally", "AUTHOR#ada", 4),
        ("Author.star_tally", "AUTHOR#bob", Decimal("2.5")),
        ("Author.text_tally", "AUTHOR#ada", 2),
        ("Author.text_tally", "AUTHOR#bob", 1),
    ]
    scans = [request for operation, request in sent if operation == "Scan"]
    assert len(scans) == track.pages == 3 * segments  # of the parents, of the notes, of the comments
    assert (track.segments, track.segments_done) == (3 * segments, 3 * segments)
    assert all(request["ConsistentRead"] for request in scans)
    assert track.items == 2 * 7  # the town, twice; there are no comments


def test_several_parents_of_one_partition_are_told_apart(tables: Tables) -> None:
    for number in (1, 2):
        put("ROOM#r", f"SHELF#{number}")
    for index, shelf in enumerate([1, 1, 2, 3]):
        put(f"BOOK#{index}", "META", room={"S": "r"}, shelf={"N": str(shelf)})
    found = {one.key.values[1][1]: one.tally for one in seed_all(Shelf.book_tally)}
    assert found == {"SHELF#1": 2, "SHELF#2": 1}


def test_parents_may_be_keyed_by_numbers(tables: Tables) -> None:
    for number in ("7", "7.5", "1E+50"):
        raw().put_item(TableName="Tickets", Item={"number": {"N": number}})
    for index, ticket in enumerate(["7.0", "7.5", "7", "1E50", "8"]):
        raw().put_item(TableName="Replies", Item={"reply_id": {"S": str(index)}, "ticket": {"N": ticket}})
    found = {Decimal(one.key.values[0][1]): one.tally for one in seed_all(Ticket.reply_tally)}
    assert found == {Decimal(7): 2, Decimal("7.5"): 1, Decimal("1E50"): 1}
    assert Ticket.reply_tally.value(Ticket.ref(number=7)) == 2


def test_fractions_add_up_exactly_in_any_order(tables: Tables) -> None:
    put("AUTHOR#ada", "META")
    for index, stars in enumerate(["1E37", "0.1", "0.2", "-1E37", "1E100", "-1E100"]):
        put_note(str(index), "ada", stars={"N": stars})
    assert by_author(seed_all(Author.star_tally)) == {"ada": Decimal("0.3")}


def test_a_sum_that_dynamodb_cannot_hold_is_told(tables: Tables) -> None:
    legacy({"bob": 1})
    put("AUTHOR#ada", "META")
    put_note("big", "ada", stars={"N": "1E100"})
    put_note("small", "ada", stars={"N": "0.1"})
    outcomes = {one.key.values[0][1]: one for one in seed_all(Author.star_tally)}
    assert outcomes["AUTHOR#ada"].status == "failed"
    assert "significant digits" in outcomes["AUTHOR#ada"].message
    assert (stored("ada", "starTally"), stored("bob", "starTally")) == (None, "2")


def test_a_dry_run_counts_and_writes_nothing(tables: Tables, tmp_path: Path) -> None:
    legacy({"ada": 2, "bob": 1})
    there = items()
    track = Tracking()
    outcomes = seed_all(dry_run=True, state=tmp_path / "state", tracking=track)
    assert ({one.status for one in outcomes}, by_author(outcomes)) == ({"planned"}, {"ada": 2, "bob": 1})
    assert items() == there
    assert track.write_units == 2
    assert not (tmp_path / "state").exists()


class TestMarks:
    def test_a_parent_with_a_mark_is_waited_for_and_seeded(self, tables: Tables, monkeypatch: Any) -> None:
        waits: list[float] = []
        monkeypatch.setattr("pynacount.commit.time.sleep", waits.append)
        Author(author_id="ada").save()
        Author(author_id="bob").save()
        with uncounted():
            Note(note_id="1", writer="ada").save()
        outcomes = seed_all()
        assert by_author(outcomes) == {"ada": 1}
        assert 0.01 in waits
        assert (stored("ada"), stored("bob")) == ("1", "0")

    @pytest.mark.parametrize("mark", [{"textTallyPending": {"N": "1"}}, {}])
    def test_a_repair_that_was_not_finished_is_finished(self, tables: Tables, mark: dict[str, Any]) -> None:
        put("AUTHOR#ada", "META", textTallyWas={"N": "9"}, **mark)
        put_note("1", "ada")
        assert by_author(seed_all()) == {"ada": 1}
        assert item("AUTHOR#ada", "META") == {"textTally": {"N": "1"}, **mark}

    @pytest.mark.parametrize("marked", [False, True])
    def test_children_written_uncounted_during_the_scan_are_noticed(self, tables: Tables, marked: bool) -> None:
        legacy({"ada": 1, "bob": 1})
        if marked:
            with uncounted():
                Note(note_id="first", writer="ada").save()

        def backfill() -> None:
            with uncounted():
                Note(note_id="new", writer="ada").save()

        with right_before(b'textTally\\" = ?' if not marked else b"SET textTally", backfill):
            outcomes = {one.key.values[0][1]: one for one in seed_all()}
        assert outcomes["AUTHOR#ada"].status == "failed"
        assert "children were written uncounted during the scan; run it again" in outcomes["AUTHOR#ada"].message
        assert (stored("ada"), stored("bob")) == (None, "1")
        assert by_author(seed_all()) == {"ada": 3 if marked else 2}

    def test_a_parent_that_is_seeded_or_goes_meanwhile_is_no_failure(self, tables: Tables) -> None:
        legacy({"ada": 1, "bob": 1, "cyd": 1, "dan": 1})

        def others() -> None:
            assert len(seed_all()) == 4
            raw().delete_item(TableName="Town", Key={"PK": {"S": "AUTHOR#bob"}, "SK": {"S": "META"}})
            put("AUTHOR#cyd", "META", textTallyClosed={"BOOL": True})

        with before("BatchExecuteStatement", others):
            outcomes = {str(one.key.values[0][1]): one.status for one in seed_all()}
        assert outcomes == {
            "AUTHOR#ada": "seeded",
            "AUTHOR#bob": "gone",
            "AUTHOR#cyd": "closed",
            "AUTHOR#dan": "seeded",
        }
        assert item("AUTHOR#bob", "META") is None

    def test_a_parent_that_is_being_deleted_is_named_and_left(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTallyClosed={"BOOL": True})
        for dry_run in (True, False):
            (outcome,) = seed_all(dry_run=dry_run)
            assert (outcome.status, stored("ada")) == ("closed", None)

    def test_people_are_refused_until_it_is_seeded_and_counted_from_then_on(self, tables: Tables) -> None:
        legacy({"ada": 1})

        def click() -> None:
            with pytest.raises(CounterNotSeeded, match=r"pynacount migrate .*Author\.text_tally"):
                Note(note_id="new", writer="ada").save()

        with before("BatchExecuteStatement", click):
            seed_all(Author.text_tally, Author.star_tally)
        Note(note_id="new", writer="ada", stars=1).save()
        assert (stored("ada"), stored("ada", "starTally")) == ("2", "3")


class TestUnreadable:
    def test_a_child_that_cannot_be_read_keeps_its_parent_unseeded_and_no_other(self, tables: Tables) -> None:
        legacy({"ada": 1, "bob": 1})
        put_note("bad", "ada", stars={"S": "five"})
        outcomes = {str(one.key.values[0][1]): one for one in seed_all(Author.star_tally)}
        assert (outcomes["AUTHOR#ada"].status, outcomes["AUTHOR#bob"].status) == ("failed", "seeded")
        assert "NOTE#bad" in outcomes["AUTHOR#ada"].message
        assert (stored("ada", "starTally"), stored("bob", "starTally")) == (None, "2")

    def test_what_one_counter_cannot_read_does_not_trouble_another(self, tables: Tables) -> None:
        legacy({"ada": 1})
        put_note("bad", "ada", stars={"S": "five"})
        outcomes = {one.counter: one for one in seed_all(Author.star_tally, Author.text_tally)}
        assert (outcomes["Author.star_tally"].status, outcomes["Author.text_tally"].tally) == ("failed", 2)

    def test_a_child_that_does_not_tell_its_parent_leaves_all_that_may_be_it(self, tables: Tables) -> None:
        legacy({"ada": 1, "bob": 1})
        put("NOTE#bad", "META", writer={"N": "5"})
        (outcome,) = seed_all()
        assert (outcome.status, outcome.key.values[0]) == ("failed", ("S", "NOTE#bad"))
        assert "may be any of the 2 that have no tally" in outcome.message
        assert (stored("ada"), stored("bob")) == (None, None)
        result = CliRunner().invoke(group, ["migrate", "test_migrating_elsewhere:Author.text_tally", "--workers", "1"])
        assert result.exit_code == 1
        assert "PK='NOTE#bad' SK='META': failed" in " ".join(result.stdout.split())
        put_note("bad", "bob")
        assert by_author(seed_all()) == {"ada": 1, "bob": 2}

    def test_it_troubles_nobody_where_all_have_their_tally(self, tables: Tables) -> None:
        legacy({"ada": 1})
        seed_all()
        put("NOTE#bad", "META", writer={"N": "5"})
        assert seed_all() == []

    def test_a_tally_that_is_no_number_is_told(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTally={"S": "many"})
        (outcome,) = seed_all()
        assert (outcome.status, "which is no number" in outcome.message) == ("failed", True)


class TestState:
    @pytest.mark.parametrize(
        "place", ["Scan 0", "Scan 1", "Scan 2", "BatchExecuteStatement 0", "BatchExecuteStatement 1"]
    )
    def test_interrupted_in_any_phase_it_goes_on_and_is_exact(self, tables: Tables, tmp_path: Path, place: str) -> None:
        notes = {f"a{index:02}": index % 3 for index in range(30)}
        legacy(notes)
        state, (operation, nth) = tmp_path / "state", place.split()
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(*[None] * int(nth), operation=operation)
            injector.next_error("ResourceNotFoundException", "no", operation=operation)
            with pytest.raises(Exception, match="ResourceNotFound"):
                seed_all(state=state)
            assert injector.pending == 0
        with record_requests(connection_for(Meta).client) as sent:
            seed_all(state=state)
        assert {author: stored(author) for author in notes} == {a: str(many) for a, many in notes.items()}
        scans = sum(operation == "Scan" for operation, _ in sent)
        assert scans == {"Scan 0": 3, "Scan 1": 2, "Scan 2": 1}.get(place, 0)
        with record_requests(connection_for(Meta).client) as sent:
            assert seed_all(state=state) == []
        assert sent == []  # all was read to its end

    def test_a_scan_of_children_goes_on_in_its_midst(self, tables: Tables, tmp_path: Path) -> None:
        put("AUTHOR#ada", "META")
        for index in range(6):
            put_note(str(index), "ada", filler={"S": "x" * 390_000})
        state, client = tmp_path / "state", connection_for(Meta).client
        undisturbed = Tracking()
        seed_all(dry_run=True, tracking=undisturbed)
        parents = (undisturbed.pages - 1) // 2  # and as many of the notes; one of the comments
        with FaultInjector(client) as injector:
            injector.next(*[None] * (parents + 1), operation="Scan")
            injector.next_error("AccessDeniedException", "no", operation="Scan")
            with pytest.raises(Exception, match="AccessDenied"):
                seed_all(state=state)
        track = Tracking()
        assert by_author(seed_all(state=state, tracking=track)) == {"ada": 6}
        assert track.pages == undisturbed.pages - parents - 1

    def test_a_limit_counts_the_recorded_and_the_next_run_counts_anew(self, tables: Tables, tmp_path: Path) -> None:
        legacy({f"a{index}": 1 for index in range(5)})
        state = tmp_path / "state"
        assert len(seed_all(state=state, limit=2)) == 2
        put_note("late", next(f"a{index}" for index in range(5) if stored(f"a{index}") is None))
        assert sorted(one.tally or 0 for one in seed_all(state=state)) == [1, 1, 2]

    def test_after_an_interruption_behind_a_limit_no_later_parent_misses_its_children(
        self, tables: Tables, tmp_path: Path
    ) -> None:
        legacy({f"a{index}": 1 for index in range(5)})
        state = tmp_path / "state"
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(None, None, operation="Scan")
            injector.next_error("AccessDeniedException", "no", operation="Scan")
            with pytest.raises(Exception, match="AccessDenied"):
                seed_all(state=state, limit=2)
        assert len(seed_all(state=state, limit=3)) == 3
        assert len(seed_all(state=state)) == 2
        assert {stored(f"a{index}") for index in range(5)} == {"1"}

    def test_two_runs_cannot_add_up_in_one_file(self, tables: Tables, tmp_path: Path) -> None:
        legacy({"ada": 1})
        running = migrate([Author.text_tally], workers=1, state=tmp_path / "state")
        next(running)
        with pytest.raises(StateError, match="is in use by another run; give each run a file of its own"):
            seed_all(state=tmp_path / "state")
        running.close()
        seed_all(state=tmp_path / "state")

    @pytest.mark.parametrize("fault", [Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.LOST_RESPONSE])
    def test_faults_slow_it_down_and_change_nothing(self, tables: Tables, fault: Fault) -> None:
        legacy({"ada": 1, "bob": 2})
        track = Tracking()
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(fault, None, fault, None, fault, fault)
            outcomes = seed_all(tracking=track)
        assert ({one.status for one in outcomes}, by_author(outcomes)) == ({"seeded"}, {"ada": 1, "bob": 2})
        assert sum(track.retries.values()) == 4

    def test_without_the_right_to_partiql_it_writes_one_by_one(self, tables: Tables) -> None:
        legacy({f"a{index}": 1 for index in range(30)})
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="BatchExecuteStatement")
            assert len(seed_all()) == 30
        assert {stored(f"a{index}") for index in range(30)} == {"1"}


class TestWaysOut:
    def test_a_segment_alone_tells_nothing(self, tables: Tables) -> None:
        with record_requests(connection_for(Meta).client) as sent:
            with pytest.raises(DeclarationError, match=r"Author\.text_tally: .*\(Note\).*without a segment"):
                list(migrate([Author.own_tally, Author.text_tally], segments=2, segment=0))
            result = CliRunner().invoke(group, ["migrate", "test_migrating_elsewhere:Author", "--segment", "1/2"])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert {operation for operation, _ in sent} <= {"DescribeTable"}

    def test_a_query_for_each_parent_needs_an_index(self, tables: Tables) -> None:
        with pytest.raises(DeclarationError, match=r"declare an index on them.*index="):
            seed_all(by="query")

    def test_one_parent_alone_names_the_migration(self, tables: Tables) -> None:
        legacy({"ada": 1})
        with pytest.raises(CounterNotSeeded, match=r"pynacount migrate test_migrating_elsewhere:Author\.text_tally"):
            Author.text_tally.seed(Author.ref(author_id="ada"))

    def test_a_repair_is_refused_before_its_fence(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTally={"N": "9"})
        with pytest.raises(CounterNotSeeded, match=r"is not repaired.*Declare an index on them.*index="):
            Author.text_tally.repair(Author.ref(author_id="ada"))
        assert item("AUTHOR#ada", "META") == {"textTally": {"N": "9"}}
        Comment(comment_id="1", author_id="ada").save()
        assert stored("ada") == "10"

    def test_a_writer_that_meets_an_unfinished_repair_is_told_at_once(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTallyPending={"N": "1"}, textTallyWas={"N": "9"})
        with pytest.raises(CounterNotSeeded, match="pynacount migrate"):
            Comment(comment_id="1", author_id="ada").save()


@pytest.mark.real_engine
def test_it_is_exact_while_people_go_on_writing(tables: Tables) -> None:
    notes = {f"a{index:02}": index % 7 for index in range(40)}
    legacy(notes)
    stop: list[bool] = []

    def write(seed: int) -> dict[str, int]:
        dice, told = random.Random(seed), dict.fromkeys(notes, 0)
        number = 0
        while not stop:
            author = f"a{dice.randrange(40):02}"
            number += 1
            note = Note(note_id=f"new{seed}-{number}", writer=author, stars=1)
            try:
                note.save()
            except CounterNotSeeded:
                continue
            told[author] += 1
            if dice.random() < 0.4:
                note.delete()
                told[author] -= 1
        return told

    with ThreadPoolExecutor(4) as pool:
        people = [pool.submit(write, seed) for seed in range(4)]
        outcomes = list(migrate([Author.text_tally, Author.star_tally], workers=2))
        while not all(stored(author) and stored(author, "starTally") for author in notes):
            outcomes += migrate([Author.text_tally, Author.star_tally], workers=2)
        time.sleep(0.3)
        stop.append(True)
        told = [person.result() for person in people]
    assert {one.status for one in outcomes} == {"seeded"}
    counts = {author: many + sum(each[author] for each in told) for author, many in notes.items()}
    assert {author: int(stored(author) or -1) for author in notes} == counts
    assert sum(counts.values()) > sum(notes.values())  # some were let in


CHILD = """
import sys
from pynacount.connections import connection_for
from pynacount.tallies import migrate
from test_migrating_elsewhere import Author, Meta

def page(**_):
    with open(sys.argv[2], "a") as pages:
        pages.write("page\\n")

connection_for(Meta).client.meta.events.register("after-call.dynamodb.Scan", page)
for seeded in migrate([Author.text_tally], workers=1, state=sys.argv[1], rcu_per_second=float(sys.argv[3])):
    pass
"""


@pytest.mark.real_engine
def test_killed_at_random_moments_it_ends_exact(tables: Tables, tmp_path: Path) -> None:
    filler = {"S": "x" * 100_000}
    notes = {f"a{index}": index % 4 for index in range(20)}
    for author, many in notes.items():
        put(f"AUTHOR#{author}", "META")
        for index in range(many):
            put_note(f"{author}{index}", author, filler=filler)
    state, pages = tmp_path / "state", tmp_path / "pages"
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])

    def start(rate: float) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", CHILD, str(state), str(pages), str(rate)]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})

    def read() -> int:
        return len(pages.read_text().split()) if pages.exists() else 0

    dice, stood = random.Random(7), []
    for _ in range(3):
        before, child = read(), start(300)  # a page costs 256 units: it is held up for most of a second behind each
        while read() < before + 2 and child.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.random() / 2)
        assert child.poll() is None
        child.kill()
        child.wait()
        stood.append(pages_of_children(state))
    assert any(stood), "it was never killed in the midst of the children"
    assert start(1e9).wait(60) == 0
    assert {author: stored(author) for author in notes} == {author: str(many) for author, many in notes.items()}


def pages_of_children(state: Path) -> int:
    """How many segments of children stand behind a page."""
    with closing(sqlite3.connect(state)) as base:
        return int(base.execute("SELECT count(*) FROM segments WHERE segment >= 1").fetchone()[0])


# -- the sums alone

TARGET = Author.text_tally.tally.target


def author_key(number: int) -> ItemKey:
    return ItemKey("Town", ("PK", "SK"), (("S", f"AUTHOR#{number}"), ("S", "META")))


def notes_of(writers: list[int]) -> list[dict[str, Any]]:
    return [
        {"PK": {"S": f"NOTE#{index}"}, "SK": {"S": "META"}, "writer": {"S": str(writer)}}
        for index, writer in enumerate(writers)
    ]


@given(
    st.lists(st.integers(0, 4), max_size=20),
    st.lists(st.integers(1, 6), min_size=20, max_size=20),
    st.lists(st.sampled_from(["goes on", "dies before it is saved", "dies behind it"]), min_size=20),
    st.booleans(),
)
def test_however_the_pages_fall_and_wherever_it_dies_the_sums_are_the_counts(
    writers: list[int], sizes: list[int], fates: list[str], only_recorded: bool
) -> None:
    (table, *_) = child_tables([Author.text_tally])
    items_, fates = notes_of(writers), [*fates]
    with TemporaryDirectory() as folder:

        def opened() -> Iterator[tuple[State, Sums, SummedScan]]:
            while True:
                state = State(Path(folder) / "state", {})
                sums = Sums(state, only_recorded=only_recorded)
                yield state, sums, SummedScan(sums, state, 2)
                state.close()

        files = opened()
        state, sums, scan = next(files)
        sums.record([Recorded(TARGET, author_key(number), {}, number > 0) for number in (0, 1, 2)])
        while not (position := scan.position(0)).done:
            start = int(position.start["at"]["N"]) if position.start else 0
            size = sizes[start % len(sizes)]
            pages = SummedPages(scan, 0, table.readers)
            assert list(pages.take(items_[start : start + size])) == []
            fate = fates.pop() if fates else "goes on"
            if fate != "dies before it is saved":
                end = start + size
                done = end >= len(items_)
                scan.save(0, Position(None if done else {"at": {"N": str(end)}}, None if done else "", done))
            if fate != "goes on":
                state, sums, scan = next(files)
        found = {one.key: one.total for one in sums.first(100)}
        state.close()
    kept = {0, 1, 2} if only_recorded else {0, 1, 2} | set(writers)
    assert found == {author_key(number): writers.count(number) for number in kept}


def test_the_sums_of_parents_that_were_never_recorded_tell_so(tmp_path: Path) -> None:
    state = State(None, {})
    sums = Sums(state, only_recorded=False)
    scan = SummedScan(sums, state, 0)
    (table, *_) = child_tables([Author.text_tally])
    list(SummedPages(scan, 0, table.readers).take(notes_of([1, 2, 2])))
    scan.save(0, Position(None, None, True))
    marks = {"textTallyPending": {"N": "5"}, "textTallyWas": {"N": "9"}}
    sums.record([Recorded(TARGET, author_key(1), marks, True)])
    first, second = sums.first(10)
    assert (first.item, first.total) == (marks, 1)
    assert (second.item, second.total) == (None, 2)
    assert sums.first(10, after=first) == [second]
    state.close()


def test_a_page_that_cannot_be_written_leaves_neither_its_sums_nor_its_position(tmp_path: Path) -> None:
    state = State(tmp_path / "state", {})
    sums = Sums(state)
    sums.record([Recorded(TARGET, author_key(1), {})])
    scan = SummedScan(sums, state, 0)
    (table, *_) = child_tables([Author.text_tally])
    list(SummedPages(scan, 0, table.readers).take(notes_of([1])))
    with state.transaction() as base:
        base.execute("CREATE TRIGGER full BEFORE INSERT ON segments BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    with pytest.raises(StateError, match="cannot be written: disk is full"):
        scan.save(0, Position(None, None, True))
    assert (sums.first(1)[0].total, scan.position(0).done) == (0, False)
    state.close()
