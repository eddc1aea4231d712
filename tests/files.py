"""Models whose counters are kept from a stream, which several tests share; and records as Lambda hands them over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from behind import raw
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute

LABEL = "2026-07-01T00:00:00.000"


class Deadline:
    counted_deadline = 5


class FileCount(CountedModel):
    """The article's table: how many events carry a file's name. Nobody else writes it."""

    class Meta(Deadline):
        table_name = "FileCounts"

    file_name = UnicodeAttribute(hash_key=True, attr_name="fileName")
    count = CounterField(missing="zero")
    size = CounterField(missing="zero")


class Event(CountedModel):
    """Events of one file lie in one partition: counted by a watermark."""

    class Meta(Deadline):
        table_name = "Events"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    pk = KeyAttribute("FILE#{file_name}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("EVENT#{event_id}", range_key=True, attr_name="SK")
    note = UnicodeAttribute(null=True)
    size = NumberAttribute(null=True)
    hidden = BooleanAttribute(null=True)
    file = CountedIn(FileCount.count, by="stream", when=lambda event: not event.hidden, reads=("hidden",))
    weighs = CountedIn(FileCount.size, by="stream", amount="size")


class NameCount(CountedModel):
    class Meta(Deadline):
        table_name = "NameCounts"

    name = KeyAttribute("NAME#{file_name}", hash_key=True, attr_name="name")
    uploads = CounterField(missing="zero", once_expires="ttl")


class Upload(CountedModel):
    """Uploads of one file lie anywhere: counted by markers."""

    class Meta(Deadline):
        table_name = "Uploads"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    upload_id = UnicodeAttribute(hash_key=True)
    file_name = UnicodeAttribute(attr_name="fileName", null=True)
    note = UnicodeAttribute(null=True)
    named = CountedIn(NameCount.uploads, by="stream")


class Post(CountedModel):
    """A parent with attributes of its own, beside its children, on a table that was live."""

    class Meta(Deadline):
        table_name = "Board"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally")
    likes: CountedSet[Any] = CountedSet("Like", tally="like_tally")


class Like(CountedModel):
    """What it counts for is told by its key alone."""

    class Meta(Deadline):
        table_name = "Board"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(Post.like_tally, by="stream")


class Tag(CountedModel):
    """Kept by markers, in shards."""

    class Meta(Deadline):
        table_name = "Tags"

    pk = KeyAttribute("TAG#{tag}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    uses = CounterField(missing="zero", shards=3, settle=0, once_expires="ttl")


class Tagging(CountedModel):
    class Meta(Deadline):
        table_name = "Taggings"
        stream_view_type = "NEW_AND_OLD_IMAGES"

    tagging_id = UnicodeAttribute(hash_key=True)
    tag = UnicodeAttribute(null=True)
    tagged = CountedIn(Tag.uses, by="stream")


ALL = (FileCount, Event, NameCount, Upload, Post, Like, Tag, Tagging)


def stored(table: str, **key: str) -> dict[str, Any]:
    """An item as it is stored; empty where there is none."""
    wire = {name: {"S": value} for name, value in key.items()}
    item: dict[str, Any] = raw().get_item(TableName=table, Key=wire, ConsistentRead=True).get("Item", {})
    return item


def number(item: Mapping[str, Any], name: str) -> int | None:
    value = item.get(name)
    return None if value is None else int(value["N"])


def file_count(name: str) -> int | None:
    return number(stored("FileCounts", fileName=name), "count")


def name_count(name: str) -> int | None:
    return number(stored("NameCounts", name=f"NAME#{name}"), "uploads")


class Source:
    """The stream of one table, made by hand: each change gives the record that DynamoDB would write."""

    def __init__(self, table: str, *keys: str, first: int = 1, label: str = LABEL) -> None:
        self.table, self.keys, self.label = table, keys, label
        self.numbers = count(first)
        self.items: dict[Any, dict[str, Any]] = {}

    def put(self, **attributes: Any) -> dict[str, Any]:
        item = {name: wire(value) for name, value in attributes.items()}
        place = tuple(str(item[name]) for name in self.keys)
        before = self.items.get(place)
        self.items[place] = item
        return self.record("INSERT" if before is None else "MODIFY", item, before, item)

    def delete(self, **key: str) -> dict[str, Any]:
        place = tuple(str(wire(key[name])) for name in self.keys)
        before = self.items.pop(place)
        return self.record("REMOVE", before, before, None)

    def record(self, event: str, keys: Any, before: Any, after: Any) -> dict[str, Any]:
        sequence = f"{next(self.numbers) * 100:021}"
        body: dict[str, Any] = {
            "ApproximateCreationDateTime": 1782864000.0,
            "Keys": {name: keys[name] for name in self.keys},
            "SequenceNumber": sequence,
            "SizeBytes": 100,
            "StreamViewType": "NEW_AND_OLD_IMAGES",
        }
        if before is not None:
            body["OldImage"] = before
        if after is not None:
            body["NewImage"] = after
        return {
            "eventID": f"id-{sequence}",
            "eventName": event,
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "awsRegion": "us-east-1",
            "dynamodb": body,
            "eventSourceARN": f"arn:aws:dynamodb:us-east-1:123456789012:table/{self.table}/stream/{self.label}",
        }


def wire(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def events() -> Source:
    return Source("Events", "PK", "SK")


def event(name: str, number: int | str, **attributes: Any) -> dict[str, Any]:
    return {"PK": f"FILE#{name}", "SK": f"EVENT#{number}", **attributes}


def batch(*records: Mapping[str, Any], more: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    return {"Records": [*records, *more]}
