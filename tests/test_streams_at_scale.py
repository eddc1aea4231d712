"""Streams of DynamoDB Local, delivered with trouble, and consumers that race."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deliveries import Deliveries, Fragile, article, changes
from files import ALL, FileCount, Source, Upload, batch, file_count, raw
from pynacount.connections import connection_for
from pynacount.streams import Delivered, StreamTally, run
from pynacount.testing import record_requests

FILES = 500

CHANGES = int(os.environ.get("PYNACOUNT_STREAM_CHANGES", "3000"))
"""How many changes the two great tests make. The promise is of 20,000, which took one machine nine minutes."""


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


def items(table: str) -> list[dict[str, Any]]:
    return [
        i for page in raw().get_paginator("scan").paginate(TableName=table, ConsistentRead=True) for i in page["Items"]
    ]


def write(table: str, requests: list[tuple[str, dict[str, Any]]]) -> None:
    """Write in order, in batches that touch no item twice."""
    waiting: dict[str, dict[str, Any]] = {}

    def flush() -> None:
        if waiting:
            answer = raw().batch_write_item(RequestItems={table: list(waiting.values())})
            assert not answer["UnprocessedItems"]
            waiting.clear()

    for place, request in requests:
        if place in waiting or len(waiting) == 25:
            flush()
        waiting[place] = request
    flush()


def fill(
    table: str, many: int, item: Callable[[int, str, str], dict[str, Any]], key: Callable[[int, str], Any]
) -> None:
    """Make the changes of a seeded chance, each item's in order, by four writers."""
    chance = random.Random(7)
    lanes: list[list[tuple[str, dict[str, Any]]]] = [[] for _ in range(4)]
    files: dict[int, str] = {}
    for step, (verb, number, file) in enumerate(changes(chance, many, FILES, 1.2)):
        if verb == "delete":
            request = {"DeleteRequest": {"Key": key(number, files.pop(number))}}
        else:
            if verb == "insert" or table == "Uploads":
                files[number] = str(file)
            request = {"PutRequest": {"Item": item(number, files[number], str(step))}}
        lanes[number % 4].append((str(number), request))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda lane: write(table, lane), lanes))


def fill_events(many: int) -> None:
    fill(
        "Events",
        many,
        lambda n, file, note: {
            "PK": {"S": f"FILE#{file}"},
            "SK": {"S": f"EVENT#{n}"},
            "note": {"S": note},
            "hidden": {"BOOL": int(note) % 10 == 9},
        },
        lambda n, file: {"PK": {"S": f"FILE#{file}"}, "SK": {"S": f"EVENT#{n}"}},
    )


def fill_uploads(many: int) -> None:
    fill(
        "Uploads",
        many,
        lambda n, file, note: {"upload_id": {"S": str(n)}, "fileName": {"S": file}, "note": {"S": note}},
        lambda n, file: {"upload_id": {"S": str(n)}},
    )


def race(make: Callable[[], Fragile], sizes: tuple[int, int] = (100, 83)) -> tuple[list[Deliveries], list[Delivered]]:
    """Two consumers of one stream, whose batches are cut otherwise."""
    handlers = [Deliveries(make(), seed) for seed in (1, 2)]
    results: list[Any] = [None, None]

    def consume(place: int) -> None:
        deliveries = handlers[place]
        results[place] = run(deliveries.tally, handler=deliveries, batch_size=sizes[place], idle=0.5, poll=0.1)

    threads = [threading.Thread(target=consume, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert None not in results
    return handlers, results


def check_trouble(handlers: list[Deliveries]) -> None:
    for deliveries in handlers:
        assert min(deliveries.met.values()) > 0, deliveries.met


def counts(table: str, key: str, name: str) -> dict[str, int]:
    return {i[key]["S"]: int(i[name]["N"]) for i in items(table) if name in i and i[name]["N"] != "0"}


@pytest.mark.real_engine
def test_changes_delivered_with_trouble_to_two_consumers_are_exact_by_watermark() -> None:
    fill_events(CHANGES)
    handlers, _ = race(lambda: Fragile(FileCount.count))
    check_trouble(handlers)
    true = Counter(i["PK"]["S"].removeprefix("FILE#") for i in items("Events") if not i["hidden"]["BOOL"])
    assert counts("FileCounts", "fileName", "count") == dict(true)


@pytest.mark.real_engine
def test_changes_delivered_with_trouble_to_two_consumers_are_exact_by_markers() -> None:
    fill_uploads(CHANGES if "PYNACOUNT_STREAM_CHANGES" in os.environ else CHANGES // 3)
    handlers, _ = race(lambda: Fragile(Upload), (25, 21))  # so many batches that no kind of trouble is left out
    check_trouble(handlers)
    true = Counter(f"NAME#{i['fileName']['S']}" for i in items("Uploads"))
    assert counts("NameCounts", "name", "uploads") == dict(true)


# -- by records made by hand, on any engine


def records_of(many: int, files: int, exponent: float = 1.2) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Records of the article's table of events, and how many events carry each name in the end."""
    stream, where = Source("Events", "PK", "SK"), dict[int, str]()
    records = []
    for step, (verb, number, file) in enumerate(changes(random.Random(3), many, files, exponent)):
        if verb == "insert":
            where[number] = str(file)
        name = where[number]
        key = {"PK": f"FILE#{name}", "SK": f"EVENT#{number}"}
        if verb == "delete":
            del where[number]
            records.append(stream.delete(**key))
        else:
            records.append(stream.put(**key, fileName=name, note=str(step)))
    return records, Counter(where.values())


def deliver(deliveries: Deliveries, records: list[dict[str, Any]]) -> None:
    """As the runner does, from a list."""
    from pynacount.streams.reading import in_batches
    from pynacount.streams.running import _Feed

    feed = _Feed(deliveries, True, 3, None, lambda: False)
    for some in in_batches(records, 50):
        feed.deliver(some)


class Article(Fragile):
    """The article's handler in the place of ours, so that it meets the same deliveries."""

    def lambda_handler(self, event: Any, context: Any = None) -> Any:
        article(raw(), "FileCounts", self.die_before)(event)


def test_the_article_s_handler_is_wrong_on_the_same_deliveries_and_ours_is_right() -> None:
    records, true = records_of(600, 30)
    deliver(Deliveries(Fragile(FileCount.count), seed=5), records)
    assert counts("FileCounts", "fileName", "count") == dict(true)
    raw().delete_table(TableName="FileCounts")
    FileCount.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
    deliver(Deliveries(Article(FileCount.count), seed=5), records)
    found = counts("FileCounts", "fileName", "count")
    wrong = [name for name in true if found.get(name) != true[name]]
    assert len(wrong) > len(true) / 2


def test_the_article_s_handler_stands_still_at_zero() -> None:
    stream = Source("Events", "PK", "SK")
    there = stream.put(PK="FILE#a", SK="EVENT#1", fileName="a")
    gone = stream.delete(PK="FILE#a", SK="EVENT#1")
    handler = article(raw(), "FileCounts")
    handler(batch(there, gone))
    with pytest.raises(Exception, match="conditional request failed"):
        handler(batch(gone))  # delivered again; and again, until the record expires
    StreamTally(FileCount.count).handle(batch(there, gone, gone))
    assert file_count("a") == 0


@pytest.mark.parametrize(("exponent", "skips"), [(1.1, False), (1.0, True)])
def test_a_thousand_records_over_500_files_take_at_most_450_writes(exponent: float, skips: bool) -> None:
    """Where the article's take 800, one for each insert and delete. By Zipf's own exponent, 1, it takes 468, of which
    35 only say that changes cancelled each other out; they are reads then."""
    records, true = records_of(1_000, FILES, exponent)
    tally = StreamTally(FileCount.count, skip_cancelled=skips)
    with record_requests(connection_for(FileCount.Meta).client) as sent:
        for start in range(0, 1_000, 100):
            tally.handle(batch(more=records[start : start + 100]))
    writes = Counter(operation for operation, _ in sent)
    reads = writes.pop("GetItem", 0)
    assert writes.keys() == {"UpdateItem"} and writes.total() <= 450
    assert 0 < reads < 50 if skips else not reads
    assert counts("FileCounts", "fileName", "count") == dict(true)
