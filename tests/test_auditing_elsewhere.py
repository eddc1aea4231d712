"""Auditing parents whose children only a scan finds: one scan for all of them, a second for those that differ."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, uncounted
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.errors import DeclarationError
from pynacount.protocols.standings import Standing
from pynacount.tallies import Audited, Tracking, audit, migrate, repair
from pynacount.tallies.aggregating import Sums
from pynacount.tallies.auditing_elsewhere import compared
from pynacount.tallies.suspects import is_right
from pynacount.testing import Fault, FaultInjector, record_requests
from social import Meta, before, items, put, raw
from test_migrating_elsewhere import MODELS, Author, Comment, Note, Shelf, put_comment, put_note

Tables = Callable[..., None]


class Shop(CountedModel):
    """Never had a sale before its tally."""

    Meta = Meta
    pk = KeyAttribute("SHOP#{shop_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    sale_tally = CounterField(attr_name="saleTally", missing="zero", settle=0.01)
    gift_tally = CounterField(attr_name="giftTally", on_delete="leave", settle=0.01)


class Sale(CountedModel):
    Meta = Meta
    pk = KeyAttribute("SALE#{sale_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    shop = UnicodeAttribute(null=True)
    sold = CountedIn(Shop.sale_tally, shop_id="shop")
    given = CountedIn(Shop.gift_tally, shop_id="shop")


@pytest.fixture(autouse=True)
def town(request: pytest.FixtureRequest) -> None:
    if "engine" in request.fixturenames or "tables" in request.fixturenames:
        request.getfixturevalue("tables")(*MODELS)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before the second scan, which are not waited for."""
    found: list[float] = []
    monkeypatch.setattr("pynacount.tallies.auditing_elsewhere.time.sleep", found.append)
    return found


def author(name: str, tally: int | str | None = None, notes: int = 0, **marks: Any) -> None:
    """An author and notes of theirs, written behind the library's back."""
    stored = {} if tally is None else {"textTally": {"N": str(tally)}}
    put(f"AUTHOR#{name}", "META", **stored, **marks)
    for index in range(notes):
        put_note(f"{name}{index}", name)


def delete(pk: str) -> None:
    raw().delete_item(TableName="Town", Key={"PK": {"S": pk}, "SK": {"S": "META"}})


def told(*counters: CounterField, **options: Any) -> dict[str, Audited]:
    found = list(audit(counters or [Author.text_tally], workers=1, **options))
    by_key = {str(one.key.values[0][1]).partition("#")[2]: one for one in found}
    assert len(by_key) == len(found)
    return by_key


def state_of(found: Audited) -> tuple[Any, ...]:
    return found.state, found.tally, found.count, found.wrong


@contextmanager
def scans(act: Callable[[int], None], nth: set[int]) -> Iterator[None]:
    """Somebody else acts just before these scans of the library are sent; it is called with the number, from 0."""
    events, seen = connection_for(Meta).client.meta.events, iter(range(1000))
    happened: set[int] = set()

    def happen(**_: Any) -> None:
        number = next(seen)
        if number in nth:
            happened.add(number)
            act(number)

    events.register("before-call.dynamodb.Scan", happen)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb.Scan", happen)
    assert happened == nth


PARENTS, NOTES, COMMENTS, NOTES_AGAIN, COMMENTS_AGAIN = range(5)
"""The scans of an audit of ``text_tally`` by one worker, in a table of one page."""


class TestStates:
    def test_right_drifted_and_unseeded_parents_are_told_apart(self, tables: Tables) -> None:
        author("right", 2, 2)
        put_comment("1", "mixed")
        author("mixed", 3, 2)
        author("high", 5, 2)
        author("low", -1, 2)
        author("new", None, 3)
        author("none", None, 0, textTallyPending={"N": "4"})
        put_note("hidden", "right", hidden={"BOOL": True})
        put_note("nobody", "a#b")  # which can be nobody's id
        put("NOTE#without", "META")
        found = told()
        assert {name: state_of(one) for name, one in found.items()} == {
            "right": ("ok", 2, 2, False),
            "mixed": ("ok", 3, 3, False),
            "high": ("drifted", 5, 2, True),
            "low": ("drifted", -1, 2, True),
            "new": ("unseeded", None, 3, False),
            "none": ("unseeded", None, 0, False),
        }
        assert (found["high"].drift, found["low"].drift, found["high"].message) == (3, -3, "")

    def test_children_without_a_parent_are_orphaned(self, tables: Tables) -> None:
        put_note("1", "gone")
        put_comment("1", "gone")
        put_note("2", "hid", hidden={"BOOL": True})
        found = told()
        assert {name: state_of(one) for name, one in found.items()} == {"gone": ("orphaned", None, 2, True)}
        assert "save the parent, or delete the children" in found["gone"].message

    def test_an_unfinished_cascade_and_an_unfinished_repair_are_named(self, tables: Tables) -> None:
        author("closed", None, 1, textTallyClosed={"BOOL": True})
        author("fenced", None, 2, textTallyWas={"N": "5"}, textTallyPending={"N": "1"})
        found = told()
        assert state_of(found["closed"]) == ("closed", None, 1, True)
        assert state_of(found["fenced"]) == ("repairing", 5, 2, True)
        assert "delete() again" in found["closed"].message
        assert "run pynacount migrate test_migrating_elsewhere:Author.text_tally" in found["fenced"].message

    @pytest.mark.parametrize("value", [{"S": "many"}, {"B": b"\xff"}, {"L": [{"N": "1"}]}])
    def test_a_tally_that_is_no_number_is_named_and_the_way_out_is_one(
        self, tables: Tables, value: dict[str, Any]
    ) -> None:
        author("ada", None, 1, textTally=value)
        found = told()["ada"]
        assert state_of(found) == ("unreadable", None, 1, True)
        assert "remove it, and run pynacount migrate test_migrating_elsewhere:Author.text_tally" in found.message
        author("ada")
        assert [one.tally for one in migrate([Author.text_tally], workers=1)] == [1]
        assert told()["ada"].state == "ok"

    def test_an_absent_number_of_a_zero_counter_is_0(self, tables: Tables) -> None:
        for name, books in (("none", 0), ("two", 2)):
            put(f"SHOP#{name}", "META")
            for index in range(books):
                put(f"SALE#{name}{index}", "META", shop={"S": name})
        found = told(Shop.sale_tally)
        assert state_of(found["none"]) == ("ok", 0, 0, False)
        assert state_of(found["two"]) == ("drifted", 0, 2, True)

    def test_children_that_were_left_on_purpose_are_nothing_wrong(self, tables: Tables) -> None:
        put("SALE#1", "META", shop={"S": "gone"})
        assert state_of(told(Shop.gift_tally)["gone"]) == ("orphaned", None, 1, False)

    def test_fractions_are_compared_exactly(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", starTally={"N": "0.3"})
        put("AUTHOR#bob", "META", starTally={"N": "0.3"})
        for index, stars in enumerate(["1E37", "0.1", "0.2", "-1E37"]):
            put_note(f"a{index}", "ada", stars={"N": stars})
        put_note("b", "bob", stars={"N": "0.31"})
        found = told(Author.star_tally)
        assert state_of(found["ada"]) == ("ok", Decimal("0.3"), Decimal("0.3"), False)
        assert (found["bob"].state, found["bob"].drift) == ("drifted", Decimal("-0.01"))

    def test_several_parents_of_one_partition_are_told_apart(self, tables: Tables) -> None:
        for number, tally in ((1, "2"), (2, "2")):
            put("ROOM#r", f"SHELF#{number}", bookTally={"N": tally})
        for index, shelf in enumerate([1, 1, 2, 3]):
            put(f"BOOK#{index}", "META", room={"S": "r"}, shelf={"N": str(shelf)})
        found = {one.key.values[1][1]: state_of(one) for one in audit([Shelf.book_tally], workers=1)}
        assert found == {
            "SHELF#1": ("ok", 2, 2, False),
            "SHELF#2": ("drifted", 2, 1, True),
            "SHELF#3": ("orphaned", None, 1, True),
        }

    def test_what_the_library_counted_is_right(self, tables: Tables) -> None:
        for name in ("ada", "bob"):
            Author(author_id=name).save()
        for index, name in enumerate(["ada", "ada", "bob"]):
            Note(note_id=str(index), writer=name, stars=index + 1).save()
            Comment(comment_id=str(index), author_id=name).save()
        note = Note.get("NOTE#0", "META")
        note.writer = "bob"
        note.save()
        found = list(audit([Author.text_tally, Author.star_tally, Author.own_tally], workers=2))
        assert {one.state for one in found} == {"ok"}
        assert {(one.counter, one.key.values[0][1]): one.tally for one in found} == {
            ("Author.text_tally", "AUTHOR#ada"): 3,
            ("Author.text_tally", "AUTHOR#bob"): 3,
            ("Author.star_tally", "AUTHOR#ada"): 2,
            ("Author.star_tally", "AUTHOR#bob"): 4,
            ("Author.own_tally", "AUTHOR#ada"): 0,
            ("Author.own_tally", "AUTHOR#bob"): 0,
        }


class TestUnreadable:
    def test_a_child_that_cannot_be_read_is_named_and_troubles_no_other_parent(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", starTally={"N": "2"})
        put("AUTHOR#bob", "META", starTally={"N": "2"})
        put_note("bad", "ada", stars={"S": "five"})
        put_note("good", "bob", stars={"N": "2"})
        with record_requests(connection_for(Meta).client) as sent:
            found = told(Author.star_tally)
        assert (state_of(found["ada"]), "NOTE#bad" in found["ada"].message) == (("unknown", 2, None, True), True)
        assert state_of(found["bob"]) == ("ok", 2, 2, False)
        assert [operation for operation, _ in sent] == ["Scan"] * 2  # another scan would meet it again

    def test_one_that_comes_meanwhile_is_named_too(self, tables: Tables) -> None:
        author("ada", 5, 1)
        with scans(lambda _: put("NOTE#bad", "META", writer={"S": "ada"}, hidden={"S": "x"}), {NOTES_AGAIN}):
            found = told()["ada"]
        assert (found.state, "NOTE#bad" in found.message) == ("unknown", True)

    def test_one_without_a_parent_is_named(self, tables: Tables) -> None:
        put_note("bad", "gone", stars={"S": "five"})
        found = told(Author.star_tally)["gone"]
        assert (state_of(found), "NOTE#bad" in found.message) == (("unknown", None, None, True), True)

    def test_a_sum_that_dynamodb_cannot_hold_is_told(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", starTally={"N": "1"})
        put_note("big", "ada", stars={"N": "1E100"})
        put_note("small", "ada", stars={"N": "0.1"})
        found = told(Author.star_tally)["ada"]
        assert (found.state, "significant digits" in found.message) == ("unknown", True)

    def test_a_child_that_does_not_tell_its_parent_is_named_and_the_others_are_compared(self, tables: Tables) -> None:
        author("ada", 2, 2)
        author("bob", 5, 2)
        put("NOTE#bad", "META", writer={"N": "5"})
        found = told()
        assert {name: state_of(one) for name, one in found.items()} == {
            "ada": ("ok", 2, 2, False),
            "bob": ("drifted", 5, 2, True),
            "bad": ("unknown", None, None, True),
        }
        assert "NOTE#bad" in found["bad"].message
        assert "cannot be sure of any count of Author.text_tally" in found["bad"].message


class TestSeveral:
    def test_several_counters_share_the_scans_and_local_ones_go_with_the_first(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTally={"N": "1"}, starTally={"N": "9"}, ownTally={"N": "1"})
        put("AUTHOR#ada", "BADGE#b")
        put_note("1", "ada", stars={"N": "2"})
        track = Tracking()
        with record_requests(connection_for(Meta).client) as sent:
            counters = [Author.text_tally, Author.star_tally, Author.own_tally]
            found = list(audit(counters, workers=1, segments=3, tracking=track))
        assert sorted((one.counter, state_of(one)) for one in found) == [
            ("Author.own_tally", ("ok", 1, 1, False)),
            ("Author.star_tally", ("drifted", 9, 2, True)),
            ("Author.text_tally", ("ok", 1, 1, False)),
        ]
        # The parents, the notes, the comments; and again the notes, since stars are counted on them alone.
        assert [(o, r.get("TableName")) for o, r in sent if o == "Scan"] == [
            ("Scan", table) for table in ("Town", "Town", "Comments", "Town") for _ in range(3)
        ]
        assert (track.segments, track.segments_done, track.looks) == (12, 12, 2)

    def test_where_nothing_is_suspect_nothing_is_read_twice(self, tables: Tables, pauses: list[float]) -> None:
        author("ada", 2, 2)
        author("bob", None, 1)
        with record_requests(connection_for(Meta).client) as sent:
            assert {one.state for one in told().values()} == {"ok", "unseeded"}
        assert [(operation, request["TableName"]) for operation, request in sent] == [
            ("Scan", "Town"),
            ("Scan", "Town"),
            ("Scan", "Comments"),
        ]
        assert pauses == []

    def test_nothing_is_written(self, tables: Tables) -> None:
        author("ada", 5, 2)
        author("new", None, 2)
        put_note("1", "gone")
        there = items()
        with record_requests(connection_for(Meta).client) as sent:
            told()
        assert items() == there
        assert {operation for operation, _ in sent} == {"Scan", "GetItem"}
        assert all(request["ConsistentRead"] for _, request in sent)

    def test_however_many_differ_few_are_kept_at_a_time(
        self, tables: Tables, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
    ) -> None:
        monkeypatch.setattr("pynacount.tallies.aggregating.BATCH", 3)
        sizes: list[int] = []
        first = Sums.first

        def measured(self: Sums, *args: Any) -> Any:
            some = first(self, *args)
            sizes.append(len(some))
            return some

        monkeypatch.setattr(Sums, "first", measured)
        for index in range(10):
            author(f"p{index}", index % 2, 1)
        found = told()
        assert [one.state for one in found.values()].count("drifted") == 5
        assert len(found) == 10
        assert max(sizes) == 3
        assert pauses == [0.01]  # one pause for all of them

    def test_closing_the_iterator_stops_it(self, tables: Tables) -> None:
        for index in range(5):
            author(f"p{index}", 5, 1)
        found = audit([Author.text_tally], workers=1)
        next(found)
        found.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "pynacount-scan"]

    @pytest.mark.parametrize("fault", [Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.LOST_RESPONSE])
    def test_faults_slow_it_down_and_change_nothing(self, tables: Tables, fault: Fault) -> None:
        author("ada", 5, 1)
        author("bob", 1, 1)
        track = Tracking()
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(fault, None, fault, None, None, fault, None, fault)
            found = told(tracking=track)
        assert {name: one.state for name, one in found.items()} == {"ada": "drifted", "bob": "ok"}
        assert sum(track.retries.values()) == 4


class TestWhileItIsLive:
    @pytest.mark.parametrize("scan", [NOTES, COMMENTS])
    def test_a_note_between_the_scans_is_no_drift(self, tables: Tables, scan: int) -> None:
        Author(author_id="ada").save()
        with scans(lambda _: Note(note_id="new", writer="ada").save(), {scan}):
            found = told()["ada"]
        # The second of them finds what the scan of the notes has passed by: a tally of 0, as it was read, and no note.
        many = 1 if scan == NOTES else 0
        assert state_of(found) == ("ok", many, many, False)

    def test_a_note_during_the_second_scan_hides_no_right_number(self, tables: Tables) -> None:
        Author(author_id="ada").save()

        def write(number: int) -> None:
            Note(note_id=str(number), writer="ada").save()

        with scans(write, {NOTES, NOTES_AGAIN}):
            assert state_of(told()["ada"]) == ("ok", 2, 2, False)

    def test_a_drift_is_told_where_others_write_meanwhile(self, tables: Tables) -> None:
        author("ada", 5, 1)
        author("bob", 0, 0)
        with scans(lambda number: Note(note_id=str(number), writer="bob").save(), {NOTES, NOTES_AGAIN}):
            assert {name: one.state for name, one in told().items()} == {"ada": "drifted", "bob": "ok"}

    @pytest.mark.parametrize("scan", [NOTES, NOTES_AGAIN, COMMENTS_AGAIN])
    def test_a_parent_whose_tally_moved_between_its_reads_is_moving(self, tables: Tables, scan: int) -> None:
        author("ada", 5, 1)
        with scans(lambda _: Note(note_id="new", writer="ada").save(), {scan}):
            found = told()["ada"]
        assert (found.state, found.wrong) == ("moving", True)
        assert "came and went while their table was scanned" in found.message

    def test_a_number_that_was_right_when_the_second_scan_began_is_right(self, tables: Tables) -> None:
        Author(author_id="ada").save()
        with scans(lambda number: Note(note_id=str(number), writer="ada").save(), {NOTES, COMMENTS_AGAIN}):
            assert state_of(told()["ada"]) == ("ok", 1, 1, False)

    def test_a_drift_that_is_another_at_the_second_scan_is_moving(self, tables: Tables) -> None:
        author("ada", 5, 1)
        with scans(lambda _: put_comment("slow", "ada"), {COMMENTS_AGAIN}):
            assert told()["ada"].state == "moving"

    def test_one_that_came_and_one_that_went_behind_a_scan_are_no_drift(self, tables: Tables) -> None:
        Author(author_id="ada").save()
        Comment(comment_id="old", author_id="ada").save()

        def swap(_: int) -> None:  # what the scan of the notes passed by comes, and what it has not met goes
            Note(note_id="new", writer="ada").save()
            Comment.get("old").delete()

        with scans(swap, {COMMENTS}):
            assert state_of(told()["ada"]) == ("ok", 1, 1, False)

    def test_a_parent_that_is_gone_is_not_told_of(self, tables: Tables) -> None:
        for name in ("ada", "bob"):
            author(name, 2, 1)

        def remove(number: int) -> None:
            name = {NOTES: "ada", NOTES_AGAIN: "bob"}[number]
            delete(f"NOTE#{name}0")
            delete(f"AUTHOR#{name}")

        with scans(remove, {NOTES, NOTES_AGAIN}):
            assert told() == {}

    def test_a_parent_that_goes_behind_the_scan_of_its_children_is_not_told_of(self, tables: Tables) -> None:
        author("ada", 5, 1)
        with scans(lambda _: delete("AUTHOR#ada"), {COMMENTS_AGAIN}):
            assert told() == {}

    @pytest.mark.parametrize(
        ("attributes", "state"),
        [
            ({"textTallyClosed": {"BOOL": True}}, "closed"),
            ({"textTallyWas": {"N": "5"}}, "repairing"),
            ({"textTally": {"S": "5"}}, "unreadable"),
            (None, "orphaned"),
        ],
    )
    def test_what_a_parent_has_become_is_told_if_it_stays_so(
        self, tables: Tables, attributes: dict[str, Any] | None, state: str
    ) -> None:
        author("ada", 5, 1)

        def change() -> None:
            delete("AUTHOR#ada") if attributes is None else put("AUTHOR#ada", "META", **attributes)

        with before("GetItem", change):
            assert told()["ada"].state == state

    @pytest.mark.parametrize("mark", ["textTallyClosed", "textTallyWas"])
    def test_a_cascade_or_a_repair_that_has_only_begun_is_not_told(self, tables: Tables, mark: str) -> None:
        author("ada", 5, 1)
        with scans(lambda _: put("AUTHOR#ada", "META", **{mark: {"N": "5"}}), {NOTES_AGAIN}):
            assert told()["ada"].state == "moving"

    def test_a_parent_that_is_new_is_not_told_to_be_missing(self, tables: Tables) -> None:
        def sign_up(_: int) -> None:
            Author(author_id="new").save()
            Note(note_id="1", writer="new").save()

        with scans(sign_up, {NOTES}):
            assert state_of(told()["new"]) == ("ok", 1, 1, False)

    def test_a_repair_that_ends_meanwhile_is_not_told(self, tables: Tables) -> None:
        author("ada", None, 1, textTallyWas={"N": "9"}, textTallyPending={"N": "1"})
        with before("GetItem", lambda: author("ada", 1)):
            assert state_of(told()["ada"]) == ("ok", 1, 1, False)

    def test_a_parent_that_is_unseeded_meanwhile_is_unseeded(self, tables: Tables) -> None:
        author("ada", 9, 1)

        def backfill(_: int) -> None:
            with uncounted():
                Note(note_id="new", writer="ada").save()

        with scans(backfill, {NOTES_AGAIN}):
            assert state_of(told()["ada"]) == ("unseeded", None, 2, False)


class TestWaysOut:
    @pytest.mark.parametrize(
        ("options", "instead"),
        [
            ({"refs": [Author.ref(author_id="ada")]}, r"one run without refs \(--key\)"),
            ({"sample": 3}, "one run without a sample"),
            ({"segments": 2, "segment": 0}, "one run without a segment"),
        ],
    )
    def test_a_part_of_the_table_is_refused_before_anything_is_read(
        self, tables: Tables, options: dict[str, Any], instead: str
    ) -> None:
        with (
            record_requests(connection_for(Meta).client) as sent,
            pytest.raises(DeclarationError, match=rf"Author\.text_tally: .*\(Note\).*{instead}.*index="),
        ):
            told(Author.own_tally, Author.text_tally, **options)
        assert sent == []
        assert told(Author.own_tally, **options | ({"refs": []} if "refs" in options else {})) == {}

    def test_a_query_for_each_parent_needs_an_index(self, tables: Tables) -> None:
        with (
            record_requests(connection_for(Meta).client) as sent,
            pytest.raises(DeclarationError, match=r"declare an index on them.*index="),
        ):
            told(by="query")
        assert sent == []

    def test_a_repair_of_what_was_found_is_refused(self, tables: Tables) -> None:
        author("ada", 5, 1)
        with pytest.raises(DeclarationError, match=r"declare an index on them.*index="):
            list(repair([Author.text_tally], told().values()))

    def test_the_way_out_of_a_drift_mends_it(self, tables: Tables) -> None:
        author("ada", 5, 1)
        assert told()["ada"].state == "drifted"
        author("ada")
        list(migrate([Author.text_tally], workers=1))
        assert told()["ada"].state == "ok"


class TestCommand:
    def run(self, target: str, *arguments: str) -> Result:
        target = f"test_migrating_elsewhere:{target}"
        return CliRunner().invoke(group, ["audit", target, "--workers", "1", *arguments])

    def test_it_says_how_to_mend_what_no_repair_takes(self, tables: Tables) -> None:
        author("ada", 5, 1)
        result = self.run("Author.text_tally")
        assert result.exit_code == 1
        assert "pynacount repair" not in result.stdout
        assert result.stdout.splitlines()[-1] == (
            "no repair takes Author.text_tally, since only a scan finds its children: declare an index on them; or, "
            "while nobody writes, remove textTally where it drifted and run pynacount migrate "
            "test_migrating_elsewhere:Author.text_tally"
        )

    def test_it_names_the_counter_to_repair_beside_those_that_no_repair_takes(self, tables: Tables) -> None:
        put("AUTHOR#ada", "META", textTally={"N": "5"}, starTally={"N": "0"}, ownTally={"N": "5"})
        result = self.run("Author")
        assert result.exit_code == 1
        *_, hint, other = result.stdout.splitlines()
        assert hint == "mend them: pynacount repair test_migrating_elsewhere:Author.own_tally"
        assert "no repair takes Author.text_tally" in other

    def test_a_child_that_does_not_tell_its_parent_is_shown(self, tables: Tables) -> None:
        put("NOTE#bad", "META", writer={"N": "5"})
        result = self.run("Author.text_tally")
        assert result.exit_code == 1
        assert "Author.text_tally PK='NOTE#bad' SK='META'" in result.stdout

    @pytest.mark.parametrize(
        "arguments", [["--key", "author_id=ada"], ["--sample", "3"], ["--segment", "1/2"], ["--by", "query"]]
    )
    def test_what_cannot_be_audited_in_part_is_refused_in_one_line(self, tables: Tables, arguments: list[str]) -> None:
        with record_requests(connection_for(Meta).client) as sent:
            result = self.run("Author", *arguments)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert 'CountedIn(..., index="...")' in result.stderr
        assert "Scan" not in [operation for operation, _ in sent]


@pytest.mark.real_engine
def test_under_traffic_it_finds_every_drift_that_stands_still_and_nothing_else(tables: Tables) -> None:
    names = [f"p{index:02}" for index in range(60)]
    quiet = names[::6]
    for index, name in enumerate(names):
        Author(author_id=name).save()
        for number in range(30 if index % 6 > 3 else index % 4):
            Note(note_id=f"{name}-{number}", writer=name).save()
    wrong = {name: (-3, -1, 1, 4)[index % 4] for index, name in enumerate(quiet)}
    for name, drift in wrong.items():
        raw().update_item(
            TableName="Town",
            Key={"PK": {"S": f"AUTHOR#{name}"}, "SK": {"S": "META"}},
            UpdateExpression="ADD textTally :d",
            ExpressionAttributeValues={":d": {"N": str(drift)}},
        )
    # Some only gain notes and some only lose them: whatever moves, moves the tally.
    gaining = [name for index, name in enumerate(names) if index % 6 in (1, 2, 3)]
    losing = [f"{name}-{number}" for index, name in enumerate(names) if index % 6 > 3 for number in range(30)]
    stop: list[bool] = []

    def write(seed: int) -> int:
        dice, number, mine = random.Random(seed), 0, losing[seed::4]
        dice.shuffle(mine)
        while not stop:
            number += 1
            Note(note_id=f"new{seed}-{number}", writer=dice.choice(gaining)).save()
            if mine and dice.random() < 0.3:
                Note.get(f"NOTE#{mine.pop()}", "META").delete()
        return number

    with ThreadPoolExecutor(4) as pool:
        people = [pool.submit(write, seed) for seed in range(4)]
        try:
            runs = [told() for _ in range(5)]
        finally:
            stop.append(True)
        assert all(person.result() > 20 for person in people)
    for found in runs:
        assert {name: one.drift for name, one in found.items() if one.state == "drifted"} == wrong
        assert {one.state for name, one in found.items() if name not in wrong} <= {"ok", "moving"}
        assert found.keys() == set(names)
    assert {one.state for name, one in told().items() if name not in wrong} == {"ok"}


# -- the comparison alone


def standing(state: Any, tally: int | None, count: int) -> Standing:
    return Standing("c", "n", state, tally, None, None, count)


@given(
    st.integers(-2, 2),
    st.lists(st.sampled_from([-1, 1]), max_size=3),
    st.lists(st.sampled_from([-1, 1]), max_size=3),
    st.data(),
)
def test_a_tally_that_moved_at_all_is_never_told_to_have_drifted(
    drift: int, then: list[int], later: list[int], data: st.DataObject
) -> None:
    """A scan sees any of the children that came and went while it ran. A drift that is told is the true one."""
    start = 10

    def seen(moves: list[int]) -> int:
        return sum(move for move in moves if data.draw(st.booleans()))

    middle = start + sum(then)
    first = standing("present", start + drift, start + seen(then))
    count = middle + seen(later)
    before_ = standing("present", middle + drift, count)
    after = standing("present", middle + drift + sum(later), count)
    found = compared(first, before_, after)
    assert found is not None
    if not then and not later:
        assert (found.drift, found.moving) == (drift, False)
    if sum(then) or sum(later):
        assert found.moving or is_right(found)
