"""What is refused about a stream, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from files import ALL, Event, FileCount, NameCount, Upload, batch, event, events
from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute
from pynacount.errors import DeclarationError, StreamRecordError, UncountedWrite
from pynacount.streams import StreamTally


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None]) -> None:
    tables(*ALL)


# -- a watermark where records come from several partitions


@pytest.mark.parametrize("of", [NameCount.uploads, Upload, Upload.named, NameCount])
def test_a_watermark_is_refused_where_the_records_come_from_many_partitions(of: Any) -> None:
    with pytest.raises(DeclarationError, match=r"many partitions of Uploads.*NameCount\.uploads.*Leave once_by out"):
        StreamTally(of, once_by="watermark")


def test_a_watermark_is_refused_where_the_records_come_from_several_tables() -> None:
    class Both(CountedModel):
        class Meta:
            table_name = "NameCounts"

        name = KeyAttribute("BOTH#{file_name}", hash_key=True, attr_name="name")
        found = CounterField(missing="zero")

    class OneTable(CountedModel):
        class Meta:
            table_name = "OneTable"

        pk = KeyAttribute("FILE#{file_name}", hash_key=True)
        both = CountedIn(Both.found, by="stream")

    class OtherTable(CountedModel):
        class Meta:
            table_name = "OtherTable"

        pk = KeyAttribute("FILE#{file_name}", hash_key=True)
        both = CountedIn(Both.found, by="stream")

    with pytest.raises(DeclarationError, match=r"from the tables OneTable, OtherTable"):
        StreamTally(OneTable, once_by="watermark")
    assert StreamTally(OneTable, OtherTable).keepings[0].way == "markers"


def test_a_watermark_is_taken_where_one_partition_has_all_the_records_or_a_function_says_it() -> None:
    class Spent(CountedModel):
        class Meta:
            table_name = "NameCounts"

        name = KeyAttribute("SPENT#{user}", hash_key=True, attr_name="name")
        total = CounterField(missing="zero")

    assert StreamTally(Event, once_by="watermark").keepings[0].way == "watermark"
    told = StreamTally(Spent.total, table="Orders", key=lambda order: {"user": order["user"]}, once_by="watermark")
    assert told.keepings[0].way == "watermark"


# -- records that cannot be counted


def test_a_record_that_lost_its_image_on_the_way_is_not_blamed_on_the_view_type() -> None:
    record = events().put(**event("a", 1))
    del record["dynamodb"]["NewImage"]
    with pytest.raises(
        StreamRecordError, match=r"has no NewImage: .* is NEW_AND_OLD_IMAGES, so .*whole records"
    ) as told:
        StreamTally(FileCount.count).handle(batch(record))
    assert "must be" not in str(told.value)


@pytest.mark.parametrize(("view", "said"), [("KEYS_ONLY", "KEYS_ONLY"), (None, "of another view type")])
def test_a_stream_of_another_view_type_is_told_which_one_it_must_be(view: str | None, said: str) -> None:
    record = events().put(**event("a", 1))
    del record["dynamodb"]["NewImage"]
    record["dynamodb"]["StreamViewType"] = view
    with pytest.raises(StreamRecordError, match=rf"Events is {said} and must be NEW_AND_OLD_IMAGES"):
        StreamTally(FileCount.count).handle(batch(record))


def test_an_attribute_of_another_type_is_told_by_the_type_that_is_stored() -> None:
    record = events().put(**event("a", 1), size="9")
    with pytest.raises(StreamRecordError, match=r"'size' is stored as S, and declared as N"):
        StreamTally(FileCount.size).handle(batch(record))


# -- who moves it


@pytest.mark.parametrize("counter", [FileCount.count, NameCount.uploads])
def test_an_increment_of_a_streams_counter_advises_nothing_that_is_refused(counter: CounterField) -> None:
    ref: Any = counter.owner.ref(file_name="a")
    with pytest.raises(UncountedWrite, match=r"stream alone moves it.*pynacount audit files:") as told:
        counter.increment(ref)
    assert "seed(ref)" not in str(told.value)
