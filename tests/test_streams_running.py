"""Feeding a handler from a stream, as Lambda does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from files import ALL, Event, FileCount, events, file_count, raw
from files import event as event_of
from pynacount.commands import group
from pynacount.errors import DeclarationError
from pynacount.streams import GivenUp, StreamTally, run
from pynacount.streams.reading import Stream
from pynacount.streams.running import _Feed


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


# -- delivery, of records made by hand


def feed(handler: Callable[[dict[str, Any]], Any], records: Sequence[Any], **settings: Any) -> tuple[_Feed, list[Any]]:
    """What the runner delivers of one batch, by the records' places."""
    places = {record["dynamodb"]["SequenceNumber"]: place for place, record in enumerate(records)}
    seen: list[list[int]] = []

    def noting(event: dict[str, Any]) -> Any:
        seen.append([places[record["dynamodb"]["SequenceNumber"]] for record in event["Records"]])
        return handler(event)

    made = {"bisect": True, "max_attempts": 2, "on_discarded": None, "stop": lambda: False, **settings}
    one = _Feed(noting, **made)
    one.deliver(records)
    return one, seen


def four() -> list[Any]:
    stream = events()
    return [stream.put(**event_of("a", number)) for number in range(4)]


def failing(number: str) -> Callable[[dict[str, Any]], Any]:
    def handler(event: dict[str, Any]) -> Any:
        if any(record["dynamodb"]["SequenceNumber"] == number for record in event["Records"]):
            raise ValueError("poison")

    return handler


def answering(*numbers: Any) -> Callable[[dict[str, Any]], Any]:
    answers = iter(numbers)
    return lambda event: {"batchItemFailures": [{"itemIdentifier": n} for n in next(answers, ())]}


def test_a_batch_that_raises_is_cut_until_the_poison_is_alone_and_passed_over() -> None:
    records = four()
    told: list[GivenUp] = []
    one, seen = feed(failing(records[2]["dynamodb"]["SequenceNumber"]), records, on_discarded=told.append)
    assert seen == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [2], [3]]
    assert [lost.records for lost in told] == [(records[2],)] and one.delivered.discarded == 1


def test_without_bisecting_the_whole_batch_comes_again() -> None:
    records = four()
    _, seen = feed(failing(records[2]["dynamodb"]["SequenceNumber"]), records, bisect=False)
    assert seen == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_an_answer_that_names_failures_is_delivered_again_from_the_lowest_on() -> None:
    records = four()
    numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
    assert feed(answering([numbers[3], numbers[1]]), records)[1] == [[0, 1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize(
    "strange", [{"batchItemFailures": [{}]}, {"batchItemFailures": [{"itemIdentifier": ""}]}, "no"]
)
def test_an_answer_that_cannot_be_read_says_that_all_failed(strange: Any) -> None:
    answers = iter([strange])
    assert feed(lambda event: next(answers, None), four())[1] == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_what_fails_for_good_is_passed_over_record_by_record() -> None:
    records = four()
    numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
    one, seen = feed(answering([numbers[1]], [numbers[1]], [numbers[1]]), records)
    assert seen[-1] == [2, 3] and one.delivered.discarded == 1


# -- shards


class Shards:
    """An endpoint with shards made by hand."""

    def __init__(self, **shards: tuple[str | None, list[str]]) -> None:
        self.shards, self.read = shards, list[str]()

    def describe_stream(self, **request: Any) -> Any:
        found = [
            {"ShardId": name, "SequenceNumberRange": {}, **({"ParentShardId": parent} if parent else {})}
            for name, (parent, _) in self.shards.items()
        ]
        return {"StreamDescription": {"Shards": found}}

    def get_shard_iterator(self, ShardId: str, **request: Any) -> Any:
        return {"ShardIterator": ShardId}

    def get_records(self, ShardIterator: str, **request: Any) -> Any:
        self.read.append(ShardIterator)
        numbers = self.shards[ShardIterator][1]
        return {"Records": [{"dynamodb": {"SequenceNumber": number}} for number in numbers]}


def test_a_shard_is_read_after_all_of_its_parent() -> None:
    client = Shards(child=("parent", ["3"]), parent=("gone", ["1", "2"]), grandchild=("child", []))
    stream = Stream(client, "arn")
    stream.look()
    order = []
    while ready := stream.readable():
        order.append([shard.shard_id for shard in ready])
        for shard in ready:
            stream.read(shard)
    assert order == [["parent"], ["child"], ["grandchild"]]


# -- the whole, on an engine that has streams


@pytest.mark.real_engine
def test_the_runner_keeps_a_counter_from_the_table_s_own_stream() -> None:
    for number in range(5):
        Event(file_name="a", event_id=str(number)).save()
    Event.get(file_name="a", event_id="1").delete()
    delivered = run(StreamTally(FileCount.count), idle=0, batch_size=4)
    assert file_count("a") == 4 and (delivered.batches, delivered.records) == (2, 6)
    assert run(StreamTally(FileCount.count), idle=0).records == 6 and file_count("a") == 4


@pytest.mark.real_engine
def test_the_command_says_what_it_did() -> None:
    Event(file_name="a", event_id="1").save()
    done = CliRunner().invoke(group, ["stream", "files:FileCount", "--idle", "0", "--json"])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["batch", "summary"]
    assert lines[-1]["records"] == 1 and lines[-1]["discarded"] == 0 and file_count("a") == 1


def test_the_command_tells_a_target_without_streams() -> None:
    done = CliRunner().invoke(group, ["stream", "video:Room"])
    assert done.exit_code == 2 and "no counter that is kept from a stream" in done.output


@pytest.mark.real_engine
def test_a_table_without_a_stream_is_told() -> None:
    raw().update_table(TableName="Events", StreamSpecification={"StreamEnabled": False})
    with pytest.raises(DeclarationError, match="the table Events has no stream"):
        run(StreamTally(FileCount.count), idle=0)
