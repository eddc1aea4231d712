"""Counters kept from a stream, by records as Lambda hands them over."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner
from pynamodb.attributes import TTLAttribute, UnicodeAttribute

from files import (
    ALL,
    Event,
    FileCount,
    Like,
    NameCount,
    Post,
    Source,
    Upload,
    batch,
    event,
    events,
    file_count,
    name_count,
    number,
    raw,
    stored,
)
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.errors import DeclarationError, StreamRecordError, UncountedWrite
from pynacount.streams import BatchReport, Drift, Poisoned, StreamTally, Uncounted
from pynacount.testing import Fault, FaultInjector, record_requests


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


def files(**settings: Any) -> StreamTally:
    return StreamTally(FileCount.count, **settings)


def sent(handler: StreamTally, *batches: Any) -> list[str]:
    """The requests that some batches take, by their operation."""
    metas = [one.counter.owner.Meta for one in handler.keepings]
    with record_requests(connection_for(metas[0]).client) as requests:
        for one in batches:
            handler.handle(one)
    return [operation for operation, _ in requests]


# -- what a record counts for


def test_inserts_updates_and_deletes_move_the_count() -> None:
    stream = events()
    handler = StreamTally(Event)
    assert handler.lambda_handler(batch(stream.put(**event("a", 1, size=5)), stream.put(**event("a", 2, size=7)))) == {
        "batchItemFailures": []
    }
    handler.handle(batch(stream.put(**event("a", 2, size=1)), stream.put(**event("b", 1))))
    handler.handle(batch(stream.delete(**event("a", 1)), stream.put(**event("b", 1, hidden=True))))
    assert file_count("a") == 1 and number(stored("FileCounts", fileName="a"), "size") == 1
    assert file_count("b") == 0


def test_an_update_that_changes_the_parent_moves_both_counts() -> None:
    stream = Source("Uploads", "upload_id")
    handler = StreamTally(Upload)
    handler.handle(batch(stream.put(upload_id="1", fileName="a"), stream.put(upload_id="2", fileName="a")))
    handler.handle(batch(stream.put(upload_id="1", fileName="b"), stream.put(upload_id="3")))
    assert (name_count("a"), name_count("b")) == (1, 1)


def test_a_deletion_by_ttl_is_counted_as_any() -> None:
    stream = events()
    files().handle(batch(stream.put(**event("a", 1))))
    record = stream.delete(**event("a", 1))
    record["userIdentity"] = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    files().handle(batch(record))
    assert file_count("a") == 0


def test_an_item_that_is_no_child_counts_for_nothing() -> None:
    stream = events()
    assert sent(files(), batch(stream.put(PK="FILE#a", SK="META"), stream.put(PK="OTHER", SK="EVENT#1"))) == []


def test_what_its_key_tells_needs_no_image() -> None:
    Post(post_id="1").save()
    stream = Source("Board", "PK", "SK")
    record = stream.put(PK="POST#1", SK="LIKE#ada")
    del record["dynamodb"]["NewImage"]
    handler = StreamTally(Like)
    assert handler.handle(batch(record)).unseeded == 1


def test_functions_say_what_counts_where_nothing_is_declared() -> None:
    class Total(CountedModel):
        class Meta:
            table_name = "NameCounts"

        name = KeyAttribute("TOTAL#{user}", hash_key=True, attr_name="name")
        paid = CounterField(missing="zero", once_expires="ttl")

    handler = StreamTally(
        Total.paid, table="Orders", key=lambda item: {"user": item["user"]}, amount=lambda item: item["paid"]
    )
    stream = Source("Orders", "id")
    handler.handle(batch(stream.put(id="1", user="ada", paid=5), stream.put(id="2", user="ada", paid=7)))
    handler.handle(batch(stream.put(id="1", user="ada", paid=6)))
    assert number(stored("NameCounts", name="TOTAL#ada"), "paid") == 13


def test_a_seeder_s_fence_counts_for_nothing_whatever_the_sort_key_is() -> None:
    class Total(CountedModel):
        class Meta:
            table_name = "NameCounts"

        name = KeyAttribute("LINES#{file}", hash_key=True, attr_name="name")
        lines = CounterField(missing="zero")

    class Line(CountedModel):
        class Meta:
            table_name = "Lines"

        file = UnicodeAttribute(hash_key=True)
        place = UnicodeAttribute(range_key=True)
        total = CountedIn(Total.lines, by="stream")

    stream = Source("Lines", "file", "place")
    fence = {"file": "a", "place": "PYNACOUNT#FENCE#1-x"}
    StreamTally(Line).handle(batch(stream.put(file="a", place="1"), stream.put(file="a", place="2")))
    for record in (stream.put(**fence), stream.delete(**fence)):
        for image in ("NewImage", "OldImage"):
            record["dynamodb"].pop(image, None)
        assert StreamTally(Line).handle(batch(record)).moved == 0
    assert number(stored("NameCounts", name="LINES#a"), "lines") == 2


# -- declarations


def test_a_child_counted_by_stream_is_written_alone() -> None:
    with record_requests(connection_for(Event.Meta).client) as requests:
        Event(file_name="a", event_id="1").save()
        loaded = Event.get(file_name="a", event_id="1")
        loaded.hidden = True
        loaded.save()
        loaded.delete()
    assert [operation for operation, _ in requests] == ["PutItem", "UpdateItem", "DeleteItem"]
    assert file_count("a") is None


def test_a_parent_is_born_without_a_tally_that_a_stream_keeps() -> None:
    Post(post_id="1", body="hi").save()
    assert stored("Board", PK="POST#1", SK="META").keys() == {"PK", "SK", "body"}
    Post.get(post_id="1").delete()
    assert stored("Board", PK="POST#1", SK="META") == {}


def test_a_child_that_expires_can_be_counted_by_stream_and_not_by_transaction() -> None:
    def declare(by: Any, counter: CounterField) -> type[CountedModel]:
        class Session(CountedModel):
            class Meta:
                table_name = "Sessions"

            pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("SESSION#{session_id}", range_key=True, attr_name="SK")
            expires = TTLAttribute(null=True)
            file = CountedIn(counter, by=by)

        return Session

    class Seen(CountedModel):
        class Meta:
            table_name = "NameCounts"

        name = KeyAttribute("SEEN#{file_name}", hash_key=True, attr_name="name")
        sessions = CounterField(missing="zero")

    with pytest.raises(DeclarationError, match="TTL attribute"):
        declare("transaction", Seen.sessions)
    declare("stream", Seen.sessions)


def test_one_counter_is_kept_in_one_way() -> None:
    with pytest.raises(DeclarationError, match="Keep one counter in one way"):

        class Vote(CountedModel):
            class Meta:
                table_name = "Board"

            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
            post = CountedIn(Post.like_tally)


@pytest.mark.parametrize("settings", [{"on_delete": "cascade"}, {"missing": "defer"}, {"revision": "rev"}])
def test_what_speaks_of_transactions_is_refused_beside_a_stream(settings: Any) -> None:
    class Parent(CountedModel):
        class Meta:
            table_name = "Others"

        pk = KeyAttribute("PARENT#{parent_id}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("META", range_key=True, attr_name="SK")
        tally = CounterField(**settings)

    with pytest.raises(DeclarationError, match="leave"):

        class Child(CountedModel):
            class Meta:
                table_name = "Others"

            pk = KeyAttribute("PARENT#{parent_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("CHILD#{child_id}", range_key=True, attr_name="SK")
            parent = CountedIn(Parent.tally, by="stream")


def test_nothing_but_the_stream_moves_it() -> None:
    ref = FileCount.ref(file_name="a")
    with pytest.raises(UncountedWrite):
        FileCount.count.increment(ref)
    for verb in (FileCount.count.seed, FileCount.count.repair):
        with pytest.raises(DeclarationError, match="pynacount migrate"):
            verb(ref)
    with pytest.raises(DeclarationError, match="counts by stream"):
        Post.ref(post_id="1").likes.add(user_id="ada")
    assert Post.ref(post_id="1").likes.contains(user_id="ada") is False


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: StreamTally(), "was not told what to keep"),
        (lambda: StreamTally(UnicodeAttribute()), "must be given counters"),  # type: ignore[arg-type]
        (lambda: StreamTally(FileCount.count, once_by="luck"), "not known"),  # type: ignore[arg-type]
        (lambda: StreamTally(FileCount.count, table="Events", key=lambda item: {}), "leave key= out"),
        (lambda: CountedIn(FileCount.count, by="mail"), "not known"),  # type: ignore[arg-type]
    ],
)
def test_a_consumer_that_cannot_be_is_told_at_once(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()


def test_the_way_is_chosen_from_the_declaration() -> None:
    ways = {one.counter.label: one.way for one in StreamTally(Event, Upload, Like).keepings}
    assert ways == {
        "FileCount.count": "watermark",
        "FileCount.size": "watermark",
        "NameCount.uploads": "markers",
        "Post.like_tally": "watermark",
    }


# -- aggregation


def test_a_batch_of_one_file_is_one_write() -> None:
    stream = events()
    records = [stream.put(**event("a", n)) for n in range(100)]
    assert sent(files(), batch(more=records)) == ["UpdateItem"]
    assert file_count("a") == 100


def test_changes_that_count_for_nothing_write_nothing() -> None:
    stream = events()
    files().handle(batch(stream.put(**event("a", 1))))
    assert sent(files(), batch(stream.put(**event("a", 1, note="x")), stream.put(**event("a", 1, note="y")))) == []


def test_changes_that_cancel_out_move_the_watermark_alone_or_nothing() -> None:
    stream = events()
    files().handle(batch(stream.put(**event("a", 1))))
    both = batch(stream.put(**event("a", 2)), stream.delete(**event("a", 2)))
    assert sent(files(skip_cancelled=True), both) == ["GetItem"]
    assert sent(files(), both, both) == ["UpdateItem", "UpdateItem"]
    assert file_count("a") == 1


@pytest.mark.parametrize("skips", [True, False])
def test_what_cancels_out_is_counted_where_a_batch_before_ended_between(skips: bool) -> None:
    stream = events()
    records = stream.put(**event("a", 2)), stream.delete(**event("a", 2)), stream.put(**event("a", 3))
    for some in (records[:1], records[:2], records[2:]):
        files(skip_cancelled=skips).handle(batch(*some))
    assert file_count("a") == 1


@pytest.mark.parametrize("skips", [True, False])
def test_what_cancels_out_is_counted_where_some_of_its_markers_are_there(skips: bool) -> None:
    stream = Source("Uploads", "upload_id")
    StreamTally(Upload).handle(batch(stream.put(upload_id="1", fileName="a")))
    records = stream.put(upload_id="2", fileName="a"), stream.delete(upload_id="1")
    for some in (records[:1], records, records):
        StreamTally(Upload, skip_cancelled=skips).handle(batch(*some))
    assert name_count("a") == 1
    gone = batch(stream.put(upload_id="3", fileName="a"), stream.delete(upload_id="3"))
    assert sent(StreamTally(Upload, skip_cancelled=True), gone) == ["BatchGetItem"]


# -- once


def test_a_redelivered_an_overlapping_and_a_bisected_batch_count_once() -> None:
    stream = events()
    records = [stream.put(**event("a", n)) for n in range(8)]
    handler = files()
    for some in (records[:4], records[:4], records[:2], records[2:6], records[3:5], records[:8], records[6:]):
        handler.handle(batch(more=some))
    assert file_count("a") == 8


def test_markers_count_each_record_once_whatever_order_its_partitions_come_in() -> None:
    stream = Source("Uploads", "upload_id")
    records = [stream.put(upload_id=str(n), fileName="a") for n in range(8)]
    records += [stream.put(upload_id="3", fileName="b"), stream.put(upload_id="3", fileName="a")]
    handler = StreamTally(Upload)
    for some in (records[4:8], records[:4], records[2:6], records[8:], records[3:], records):
        handler.handle(batch(more=some))
    assert (name_count("a"), name_count("b")) == (8, None)


def test_more_markers_than_a_transaction_takes_go_in_several() -> None:
    stream = Source("Uploads", "upload_id")
    records = [stream.put(upload_id=str(n), fileName="a") for n in range(120)]
    handler = StreamTally(Upload)
    handler.handle(batch(more=records))
    handler.handle(batch(more=records))
    assert name_count("a") == 120


def test_a_batch_out_of_order_and_a_record_twice_in_it_count_once() -> None:
    stream = events()
    records = [stream.put(**event("a", n)) for n in range(4)]
    files().handle(batch(more=[records[2], records[0], records[2], records[3], records[1]]))
    files().handle(batch(more=records))
    assert file_count("a") == 4


def test_a_lost_answer_counts_once() -> None:
    stream = events()
    with FaultInjector(connection_for(FileCount.Meta).client) as injector:
        injector.next(Fault.LOST_RESPONSE)
        files().handle(batch(stream.put(**event("a", 1))))
    assert file_count("a") == 1


def test_a_watermark_of_a_former_stream_is_out_of_date() -> None:
    files().handle(batch(Source("Events", "PK", "SK", first=9_000).put(**event("a", 1))))
    later = Source("Events", "PK", "SK", label="2026-07-02T00:00:00")
    files().handle(batch(later.put(**event("a", 2))))
    assert file_count("a") == 2
    assert stored("FileCounts", fileName="a")["countUpto"]["S"].startswith("2026-07-02")


def test_a_marker_outlives_the_stream() -> None:
    stream = Source("Uploads", "upload_id")
    StreamTally(Upload).handle(batch(stream.put(upload_id="1", fileName="a")))
    markers = [item for item in raw().scan(TableName="NameCounts")["Items"] if "upto" in item]
    import time

    assert [int(item["ttl"]["N"]) - time.time() > 24 * 3600 for item in markers] == [True]


# -- failure


def test_a_throttled_counter_does_not_lose_its_neighbours() -> None:
    stream = events()
    records = [stream.put(**event(name, n)) for n, name in enumerate("abcab")]
    client = connection_for(FileCount.Meta).client

    def throttle(params: Any, **_: Any) -> None:
        if "b" in params["body"].decode().split('"fileName": {"S": "')[1][:1]:
            raise FileCount.DoesNotExist  # whatever: it cannot be written

    client.meta.events.register("before-call.dynamodb.UpdateItem", throttle)
    try:
        report = files().handle(batch(more=records))
    finally:
        client.meta.events.unregister("before-call.dynamodb.UpdateItem", throttle)
    assert (file_count("a"), file_count("b"), file_count("c")) == (2, None, 1)
    assert report.answer() == {"batchItemFailures": [{"itemIdentifier": records[1]["dynamodb"]["SequenceNumber"]}]}
    files().handle(batch(more=records[1:]))
    assert (file_count("a"), file_count("b"), file_count("c")) == (2, 2, 1)


def test_without_reports_a_failure_is_raised_after_the_neighbours_were_counted() -> None:
    raw().delete_table(TableName="NameCounts")
    handler = StreamTally(Event, Upload, report_failures=False)
    one, other = Source("Uploads", "upload_id"), events()
    with pytest.raises(Exception, match="create the table"):
        handler.handle(batch(one.put(upload_id="1", fileName="a"), other.put(**event("a", 1))))
    assert file_count("a") == 1


def test_counters_that_no_time_was_left_for_are_delivered_again() -> None:
    class Context:
        def get_remaining_time_in_millis(self) -> int:
            return -1

    stream = events()
    record = stream.put(**event("a", 1))
    assert files().lambda_handler(batch(record), Context()) == {
        "batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]
    }
    assert file_count("a") is None


def without_old_image(record: dict[str, Any]) -> Any:
    del record["dynamodb"]["OldImage"]
    record["dynamodb"]["StreamViewType"] = "NEW_IMAGE"
    return record


def changed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda record: {**record, **changes}


def body(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda record: {**record, "dynamodb": {**record["dynamodb"], **changes}}


POISONS: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("no OldImage", without_old_image, "is NEW_IMAGE and must be NEW_AND_OLD_IMAGES"),
    ("another table", changed(eventSourceARN="arn:aws:dynamodb:x:1:table/Other/stream/1"), "is of table Other"),
    ("no ARN of a stream", changed(eventSourceARN="arn:aws:kinesis:x"), "no DynamoDB stream's"),
    ("an unknown event", changed(eventName="UPSERT"), "eventName 'UPSERT'"),
    ("no body", changed(dynamodb=None), "without a 'dynamodb' part"),
    ("no record", lambda record: "text", "without a 'dynamodb' part"),
    ("no number", body(SequenceNumber=None), "SequenceNumber is None"),
    ("a strange number", body(SequenceNumber="1e5"), "text of 1 to 40 digits"),
    ("no keys", body(Keys={}), "has no Keys"),
    ("an image that is none", body(OldImage={"PK": "FILE#a"}), "no item in DynamoDB's JSON"),
]


@pytest.mark.parametrize(("damage", "said"), [poison[1:] for poison in POISONS], ids=[poison[0] for poison in POISONS])
def test_a_poisoned_record_goes_to_the_hook_or_is_raised(damage: Callable[[Any], Any], said: str) -> None:
    stream = events()
    first, middle = stream.put(**event("a", 1)), stream.put(**event("b", 1))
    poison, last = damage(stream.delete(**event("a", 1))), stream.put(**event("c", 1))
    told: list[Poisoned] = []
    with pytest.raises(StreamRecordError, match=said):
        files().handle(batch(first, middle, poison, last))
    assert (file_count("a"), file_count("b"), file_count("c")) == (1, 1, None)
    report = files(on_poisoned=told.append).handle(batch(first, middle, poison, last))
    assert (file_count("a"), file_count("b"), file_count("c")) == (1, 1, 1)
    assert said in told[0].error.msg and report.poisoned == told and told[0].record == poison


def test_a_number_that_is_stored_as_text_is_poison() -> None:
    with pytest.raises(StreamRecordError, match="cannot be counted"):
        StreamTally(Event.weighs).handle(batch(events().put(**event("a", 1, size="5"))))


def test_an_empty_batch_is_no_work_and_no_event_at_all_is_told() -> None:
    assert files().handle({"Records": []}) == BatchReport()
    for strange in ({}, {"Records": "x"}, None, []):
        with pytest.raises(StreamRecordError, match="no Records"):
            files().handle(strange)


def test_below_the_minimum_it_is_applied_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Drift] = []
    stream = events()
    gone = stream.put(**event("a", 1)), stream.delete(**event("a", 1))
    with caplog.at_level(logging.WARNING, "pynacount.streams"):
        assert files(on_drift=told.append).handle(batch(gone[1])).drifts == told
    assert file_count("a") == -1
    assert (told[0].counter, told[0].number, told[0].by, told[0].bound) == ("FileCount.count", -1, -1, 0)
    assert "has drifted" in caplog.text


def test_below_the_minimum_it_is_told_by_markers_too() -> None:
    told: list[Drift] = []
    stream = Source("Uploads", "upload_id")
    stream.put(upload_id="1", fileName="a"), stream.put(upload_id="2", fileName="a")
    gone = batch(stream.delete(upload_id="1"), stream.delete(upload_id="2"))
    StreamTally(NameCount.uploads, on_drift=told.append).handle(gone)
    StreamTally(NameCount.uploads, on_drift=told.append).handle(gone)
    assert name_count("a") == -2 and [drift.number for drift in told] == [-2]


def test_a_parent_that_is_gone_is_not_made_and_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Uncounted] = []
    stream = Source("Board", "PK", "SK")
    StreamTally(Like, on_uncounted=told.append).handle(batch(stream.put(PK="POST#1", SK="LIKE#ada")))
    assert stored("Board", PK="POST#1", SK="META") == {}
    assert [(lost.counter, lost.by) for lost in told] == [("Post.like_tally", 1)]
    StreamTally(Like, creates=True).handle(batch(stream.put(PK="POST#1", SK="LIKE#bob")))
    assert stored("Board", PK="POST#1", SK="META")["likeTallyMoved"] == {"N": "1"}


# -- explained


def test_explain_shows_the_way_and_its_price() -> None:
    def shown(target: str, *given: str) -> dict[str, Any]:
        done = CliRunner().invoke(group, ["explain", target, *given, "--only", "stream"])
        assert done.exit_code == 0, done.output
        (found,) = json.loads(done.stdout)
        return dict(found)

    by_watermark = shown("files:FileCount.count", "file_name=a")
    assert (by_watermark["operation"], by_watermark["wcu"]) == ("UpdateItem", 1)
    assert by_watermark["note"] == "by watermark, as its records all come from one partition of Events"
    by_markers = shown("files:NameCount.uploads", "file_name=a")
    assert (by_markers["operation"], by_markers["wcu"]) == ("TransactWriteItems", 4)
    assert "by markers" in by_markers["note"] and "many partitions" in by_markers["note"]


def test_explain_shows_the_child_as_one_plain_write() -> None:
    done = CliRunner().invoke(group, ["explain", "files:FileCount.count", "file_name=a", "event_id=1"])
    assert [(w["does"], w["operation"], w["wcu"]) for w in json.loads(done.stdout)] == [
        ("create", "PutItem", 1),
        ("delete", "DeleteItem", 1),
        ("stream", "UpdateItem", 1),
    ]


def test_a_counter_kept_from_a_stream_is_inspected_and_audited_and_not_repaired() -> None:
    Post(post_id="1").save()
    Like(post_id="1", user_id="ada").save()
    raw().update_item(
        TableName="Board",
        Key={"PK": {"S": "POST#1"}, "SK": {"S": "META"}},
        UpdateExpression="SET likeTally = :two",
        ExpressionAttributeValues={":two": {"N": "2"}},
    )
    done = CliRunner().invoke(group, ["audit", "files:Post", "--json"])
    assert done.exit_code == 1 and '"drifted"' in done.stdout, done.output
    assert CliRunner().invoke(group, ["inspect", "files:Post", "post_id=1"]).exit_code == 1
    refused = CliRunner().invoke(group, ["repair", "files:Post"])
    assert refused.exit_code == 2 and "pynacount migrate files:Post.like_tally --anew" in refused.output
