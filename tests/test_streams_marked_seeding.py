"""Seeding counters that are kept by markers, on an engine that has streams."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from files import ALL, NameCount, Tag, name_count, raw, stored
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.commands import group
from pynacount.errors import CounterContention, DeclarationError
from pynacount.streams import StreamTally, migrate, run, seed
from pynacount.testing import create_tables
from writers import at_work

pytestmark = pytest.mark.real_engine

TAGS = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


def tagging(own: str, tag: str) -> None:
    raw().put_item(TableName="Taggings", Item={"tagging_id": {"S": own}, "tag": {"S": tag}})


def upload(own: str, name: str) -> None:
    raw().put_item(TableName="Uploads", Item={"upload_id": {"S": own}, "fileName": {"S": name}})


def items(table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = raw().scan(TableName=table, ConsistentRead=True)["Items"]
    return found


def values() -> dict[str, int | None]:
    return {ref.tag: number for ref, number in Tag.uses.values([Tag.ref(tag=tag) for tag in TAGS]).items()}


def counted() -> dict[str, int]:
    return dict.fromkeys(TAGS, 0) | Counter(item["tag"]["S"] for item in items("Taggings"))


def consume() -> None:
    run(StreamTally(Tag), idle=0.3)


@contextmanager
def writing(threads: int = 4) -> Iterator[list[int]]:
    """Writers that know nothing of the library, each with taggings of its own, and those from before."""
    done = [0] * threads

    def write(place: int, stop: threading.Event) -> None:
        chance = random.Random(place)
        while not stop.is_set():
            own = f"{chance.choice(('new', 'old'))}-{place}-{chance.randrange(25)}"
            if chance.random() < 0.6:
                tagging(own, chance.choice(TAGS))
            else:
                raw().delete_item(TableName="Taggings", Key={"tagging_id": {"S": own}})
            done[place] += 1

    with at_work(threads, write):
        yield done


def fill(many: int = 25) -> None:
    for place in range(4):
        for n in range(many):
            tagging(f"old-{place}-{n}", TAGS[n % len(TAGS)])


def test_seeding_under_four_writers_is_exact_while_the_consumer_is_stopped() -> None:
    fill()
    with writing() as done:
        time.sleep(0.3)
        outcomes = list(migrate([Tag.uses]))
        made = sum(done)
        while sum(done) < made + 100:  # and they go on
            time.sleep(0.01)
    assert [outcome.status for outcome in outcomes] == ["seeded"] * 3
    consume()
    assert values() == counted()
    assert not [i for i in items("Taggings") if i["tagging_id"]["S"].startswith("PYNACOUNT#")]


def test_a_consumer_that_goes_on_makes_it_give_up_and_never_wrong() -> None:
    fill()
    stop = threading.Event()
    consumer = threading.Thread(target=lambda: run(StreamTally(Tag), stop=stop.is_set, poll=0.01, batch_size=5))
    with writing():
        consumer.start()
        outcomes = list(migrate([Tag.uses]))
        stop.set()
        consumer.join()
        failed = [outcome.message for outcome in outcomes if outcome.status == "failed"]
        assert all("disable its event source mapping" in message for message in failed)
        again = list(migrate([Tag.uses], anew=True))
    assert {outcome.status for outcome in again} == {"seeded"}
    consume()
    assert values() == counted()


def test_anew_takes_the_shards_away_and_makes_as_many_again() -> None:
    fill(3)
    consume()
    Tag.uses.reshard(Tag.ref(tag="a"), 5)
    raw().update_item(
        TableName="Tags",
        Key={"PK": {"S": "TAG#a"}, "SK": {"S": "META#uses#1"}},
        UpdateExpression="ADD uses :n",
        ExpressionAttributeValues={":n": {"N": "70"}},
    )
    assert seed(Tag.uses, Tag.ref(tag="a")) == {Tag.ref(tag="a"): counted()["a"] + 70}
    assert seed(Tag.uses, Tag.ref(tag="a"), anew=True) == {Tag.ref(tag="a"): counted()["a"]}
    assert stored("Tags", PK="TAG#a", SK="META")["usesShards"] == {"N": "5"}
    consume()
    assert values() == counted()


def test_what_the_consumer_met_before_and_meets_again_counts_once() -> None:
    upload("1", "a"), upload("2", "a"), upload("3", "b")
    seed(NameCount.uploads, NameCount.ref(file_name="a"))
    upload("1", "b"), upload("4", "a")
    assert name_count("a") == 2
    for _ in range(2):
        run(StreamTally(NameCount), idle=0.2)
    assert (name_count("a"), name_count("b")) == (2, 2)


def test_a_record_that_is_counted_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from pynacount.streams import marked_seeder

    upload("1", "a")
    real = marked_seeder.finish

    def finish(*given: Any) -> Any:
        upload("2", "a")
        run(StreamTally(NameCount), idle=0.2)
        return real(*given)

    monkeypatch.setattr(marked_seeder, "finish", finish)
    with pytest.raises(CounterContention, match="disable its event source mapping"):
        seed(NameCount.uploads, NameCount.ref(file_name="a"))
    monkeypatch.undo()
    assert seed(NameCount.uploads, NameCount.ref(file_name="a")) == {NameCount.ref(file_name="a"): 2}


def test_the_command_seeds_them() -> None:
    upload("1", "a"), upload("2", "b")
    done = CliRunner().invoke(group, ["migrate", "files:NameCount", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout.splitlines()[-1])["seeded"] == 2, done.output
    assert (name_count("a"), name_count("b")) == (1, 1)


class Book(CountedModel):
    class Meta:
        table_name = "NameCounts"

    name = KeyAttribute("BOOK#{book}", hash_key=True, attr_name="name")
    lines = CounterField(missing="zero")


class Line(CountedModel):
    class Meta:
        table_name = "NumberedLines"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    line = NumberAttribute(hash_key=True)
    book = UnicodeAttribute(null=True)
    counted = CountedIn(Book.lines, by="stream")


def test_a_table_whose_key_is_a_number_takes_no_fence_and_that_is_told() -> None:
    create_tables(Line)
    with pytest.raises(DeclarationError, match="partition key is not text"):
        seed(Book.lines, Book.ref(book="x"))
    assert "linesFence" not in stored("NameCounts", name="BOOK#x")
