"""Counters kept from a stream whose number is in shards."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from files import ALL, FileCount, Source, Tag, Tagging, batch, number, raw, stored
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.errors import DeclarationError
from pynacount.explaining.requests import Explained, explain
from pynacount.streams import StreamTally, Uncounted, run
from pynacount.tallies import reshard
from pynacount.testing import Fault, FaultInjector, record_requests


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


def taggings() -> Source:
    return Source("Taggings", "tagging_id")


def parent(tag: str = "a") -> dict[str, Any]:
    return stored("Tags", PK=f"TAG#{tag}", SK="META")


def parts(tag: str = "a") -> list[int]:
    """What each shard holds."""
    items = raw().scan(TableName="Tags", ConsistentRead=True)["Items"]
    own = {i["SK"]["S"]: i for i in items if i["PK"]["S"] == f"TAG#{tag}" and i["SK"]["S"].startswith("META#uses#")}
    return [int(own[key]["uses"]["N"]) for key in sorted(own)]


def value(tag: str = "a") -> int | None:
    return Tag.uses.value(Tag.ref(tag=tag), consistent_read=True)


def test_each_batch_moves_one_shard_and_all_together_are_the_number() -> None:
    stream, handler = taggings(), StreamTally(Tagging)
    batches = [batch(more=[stream.put(tagging_id=f"{n}-{i}", tag="a") for i in range(5)]) for n in range(12)]
    for one in batches:
        handler.handle(one)
    assert parent()["usesShards"] == {"N": "3"} and "uses" not in parent()
    assert len(parts()) == 3 and min(parts()) > 0 and sum(parts()) == 60 == value()
    for one in (*batches, batch(*batches[0]["Records"][2:], *batches[1]["Records"][:2])):
        assert handler.handle(one).written == 0
    handler.handle(batch(*(stream.delete(tagging_id=f"{n}-0") for n in range(12))))
    assert value() == 48
    assert Tag.uses.values([Tag.ref(tag="a"), Tag.ref(tag="b")]) == {Tag.ref(tag="a"): 48}


def test_a_batch_is_one_transaction_of_its_markers_and_one_shard() -> None:
    stream, handler = taggings(), StreamTally(Tagging)
    handler.handle(batch(stream.put(tagging_id="0", tag="a")))
    with record_requests(connection_for(Tag.Meta).client) as sent:
        handler.handle(batch(stream.put(tagging_id="1", tag="a"), stream.put(tagging_id="2", tag="a")))
    ((operation, request),) = sent
    writes = [write["Update"] for write in request["TransactItems"]]
    assert operation == "TransactWriteItems" and len(writes) == 3
    assert writes[2]["Key"]["SK"]["S"].startswith("META#uses#")
    assert writes[2]["ConditionExpression"] == "attribute_exists(uses)"


def test_it_follows_a_reshard_up_down_and_onto_the_parent() -> None:
    stream, handler = taggings(), StreamTally(Tagging)
    ref, made = Tag.ref(tag="a"), 0
    for to in (5, 2, 7, 1, 3, 1):
        for _ in range(6):
            made += 1
            handler.handle(batch(stream.put(tagging_id=str(made), tag="a")))
        Tag.uses.reshard(ref, to)
        assert value() == made
        assert len(parts()) == (to if to > 1 else 0)
    handler.handle(batch(stream.delete(tagging_id="1")))
    assert number(parent(), "uses") == made - 1 == value()


def test_code_that_declares_no_shards_follows_too() -> None:
    class PlainTag(CountedModel):
        __module__ = "before"  # the program of before

        class Meta(Tag.Meta):
            pass

        pk = KeyAttribute("TAG#{tag}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("META", range_key=True, attr_name="SK")
        uses = CounterField(missing="zero", once_expires="ttl")

    stream = Source("Others", "id")
    handlers = [
        StreamTally(counter, table="Others", key=lambda item: {"tag": item["tag"]}, once_by="markers")
        for counter in (PlainTag.uses,)
    ]
    handlers[0].handle(batch(stream.put(id="1", tag="a")))  # it starts on the item itself
    own = taggings()
    StreamTally(Tagging).handle(batch(own.put(tagging_id="1", tag="a")))
    assert number(parent(), "uses") == 2
    Tag.uses.reshard(Tag.ref(tag="a"), 3)
    handlers[0].handle(batch(stream.put(id="2", tag="a")))
    StreamTally(Tagging).handle(batch(own.put(tagging_id="2", tag="a")))
    assert "uses" not in parent() and sum(parts()) == 4


def test_a_lost_answer_counts_once_in_shards() -> None:
    stream = taggings()
    for n in range(2):  # the first makes the shards
        with FaultInjector(connection_for(Tag.Meta).client) as injector:
            injector.next(Fault.LOST_RESPONSE)
            StreamTally(Tagging).handle(batch(stream.put(tagging_id=str(n), tag="a")))
    assert value() == 2


def test_a_parent_that_is_gone_is_told_and_takes_its_shards_along() -> None:
    told: list[Uncounted] = []
    stream = taggings()
    handler = StreamTally(Tagging, creates=False, on_uncounted=told.append)
    Tag(tag="a").save()
    assert parts() == []  # born without
    handler.handle(batch(stream.put(tagging_id="1", tag="a")))
    assert value() == 1 and Tag.get(tag="a").uses is None
    Tag.get(tag="a").delete()
    assert parent() == {} and parts() == []
    handler.handle(batch(stream.put(tagging_id="2", tag="a")))
    assert [(lost.counter, lost.by) for lost in told] == [("Tag.uses", 1)] and parts() == []


def test_a_shard_that_somebody_deleted_is_told_and_delivered_again() -> None:
    stream, handler = taggings(), StreamTally(Tagging)
    handler.handle(batch(stream.put(tagging_id="1", tag="a")))
    for place in range(3):
        raw().delete_item(TableName="Tags", Key={"PK": {"S": "TAG#a"}, "SK": {"S": f"META#uses#{place}"}})
    report = handler.handle(batch(stream.put(tagging_id="2", tag="a")))
    assert "is not there" in report.failed[0].error.msg and len(report.answer()["batchItemFailures"]) == 1


def test_it_is_audited_inspected_and_resharded_by_the_commands() -> None:
    stream, handler = taggings(), StreamTally(Tagging)
    for n in range(6):
        Tagging(tagging_id=str(n), tag="a").save()
        handler.handle(batch(stream.put(tagging_id=str(n), tag="a")))
    runner = CliRunner()
    done = runner.invoke(group, ["audit", "files:Tag", "--json"])
    assert done.exit_code == 0 and '"ok": 1' in done.stdout, done.output
    shown = runner.invoke(group, ["inspect", "files:Tag", "tag=a"])
    assert "sum of 3 shards" in shown.output, shown.output
    assert runner.invoke(group, ["reshard", "files:Tag", "--to", "2"]).exit_code == 0
    assert len(parts()) == 2 and value() == 6
    raw().update_item(
        TableName="Tags",
        Key={"PK": {"S": "TAG#a"}, "SK": {"S": "META#uses#0"}},
        UpdateExpression="ADD uses :n",
        ExpressionAttributeValues={":n": {"N": "3"}},
    )
    assert runner.invoke(group, ["audit", "files:Tag", "--json"]).exit_code == 1


def test_explain_names_the_shard() -> None:
    done = CliRunner().invoke(group, ["explain", "files:Tag.uses", "tag=a", "--only", "stream"])
    (found,) = json.loads(done.stdout)
    assert found["operation"] == "TransactWriteItems" and found["wcu"] == 4
    assert "by markers" in found["note"] and "one of 3 shards" in found["note"]


def test_a_watermark_is_on_one_item() -> None:
    class Folder(CountedModel):
        class Meta(Tag.Meta):
            pass

        pk = KeyAttribute("FOLDER#{folder}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("META", range_key=True, attr_name="SK")
        files = CounterField(missing="zero", shards=3, settle=0, once_expires="ttl")

    class Filed(CountedModel):
        class Meta:
            table_name = "Filed"

        pk = KeyAttribute("FOLDER#{folder}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("FILE#{name}", range_key=True, attr_name="SK")
        folder_of = CountedIn(Folder.files, by="stream")

    with pytest.raises(DeclarationError, match="Leave shards out; or keep it by"):
        StreamTally(Filed)
    stream = Source("Filed", "PK", "SK")
    StreamTally(Filed, once_by="markers").handle(batch(stream.put(PK="FOLDER#x", SK="FILE#1")))
    assert Folder.files.value(Folder.ref(folder="x")) == 1
    (shown,) = (one for one in explain([Folder.files], {"folder": "x"}) if one.verb == "stream")
    assert isinstance(shown, Explained) and "by markers, as it is in shards" in shown.note
    with pytest.raises(DeclarationError, match="not declared in shards"):
        FileCount.count.reshard(FileCount.ref(file_name="a"), 2)


def test_a_watermark_that_meets_shards_writes_nothing_and_says_so() -> None:
    raw().put_item(TableName="FileCounts", Item={"fileName": {"S": "a"}, "countShards": {"N": "3"}})
    stream = Source("Events", "PK", "SK")
    report = StreamTally(FileCount.count).handle(batch(stream.put(PK="FILE#a", SK="EVENT#1")))
    assert "bring it back onto its item" in report.failed[0].error.msg
    assert stored("FileCounts", fileName="a").keys() == {"fileName", "countShards"}


@pytest.mark.real_engine
def test_real_records_counted_by_two_consumers_while_it_is_resharded_are_exact() -> None:
    """Writers, two consumers that race with batches cut otherwise, and somebody who goes on resharding."""
    stop, tags = threading.Event(), ("a", "b")
    troubles: list[BaseException] = []

    def consume(size: int) -> None:
        run(StreamTally(Tagging), stop=stop.is_set, poll=0.02, batch_size=size)

    def spread() -> None:
        chance = random.Random(1)
        try:
            while not stop.is_set():
                for one in reshard([Tag.uses], chance.choice((1, 2, 3, 5))):
                    assert one.status in ("resharded", "failed"), one  # failed: it never stood still; nothing is lost
        except BaseException as trouble:
            troubles.append(trouble)

    def write(place: int) -> None:
        chance = random.Random(place)
        for _ in range(150):
            own = f"{place}-{chance.randrange(40)}"
            if chance.random() < 0.7:
                item = {"tagging_id": {"S": own}, "tag": {"S": chance.choice(tags)}}
                raw().put_item(TableName="Taggings", Item=item)
            else:
                raw().delete_item(TableName="Taggings", Key={"tagging_id": {"S": own}})

    others = [threading.Thread(target=consume, args=(size,)) for size in (7, 10)] + [threading.Thread(target=spread)]
    writers = [threading.Thread(target=write, args=(place,)) for place in range(4)]
    for thread in (*others, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in others:
        thread.join()
    assert not troubles
    run(StreamTally(Tagging), idle=0.5)
    true = Counter(item["tag"]["S"] for item in raw().scan(TableName="Taggings", ConsistentRead=True)["Items"])
    assert {tag: value(tag) for tag in tags} == dict(true)
