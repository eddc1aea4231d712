"""Models with plain counters, which several tests share; and a look at the table behind the library."""

from __future__ import annotations

from functools import partial
from typing import Any

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, VersionAttribute

import behind
from behind import raw
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.connections import connection_for


class Meta:
    table_name = "Video"
    counted_deadline = 20


class Stats(CountedModel):
    """An item of plain counters."""

    Meta = Meta
    pk = KeyAttribute("VID#{video_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STATS#TOTAL", range_key=True, attr_name="SK")
    title = UnicodeAttribute(null=True, attr_name="name")  # a word that DynamoDB reserves
    plays = CounterField(attr_name="play_count")
    skips = CounterField()
    hours = CounterField(missing="zero")
    seats = CounterField(minimum=0, maximum=3)


class Stock(CountedModel):
    """How many of a thing there are to sell. A table with a hash key alone keeps its markers behind it."""

    class Meta:
        table_name = "Stock"
        counted_deadline = 20

    item_id = UnicodeAttribute(hash_key=True)
    left = CounterField(minimum=0, once_days=1, once_expires="ttl")
    sold = CounterField(once_key="SOLD#{once}")


class Room(CountedModel):
    """Guests are counted in it, and it has a plain counter and a version beside."""

    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    size = NumberAttribute(null=True)
    version = VersionAttribute()
    guest_tally = CounterField(attr_name="guestTally", minimum=0, maximum=2, settle=0)
    weight_tally = CounterField(attr_name="weightTally", maximum=10, settle=0)
    views = CounterField()
    guests: CountedSet[Any] = CountedSet("Guest", tally="guest_tally")


class Guest(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ROOM#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("GUEST#{name}", range_key=True, attr_name="SK")
    weight = NumberAttribute(default=1)
    waves = CounterField()
    room = CountedIn(Room.guest_tally)
    weighs = CountedIn(Room.weight_tally, amount="weight")


ALL = (Stats, Stock, Room, Guest)


def client() -> Any:
    """The library's own, for faults and for records."""
    return connection_for(Meta).client


item = partial(behind.item, "Video")
put = partial(behind.put, "Video")


def items() -> int:
    """How many items there are in the table."""
    count: int = raw().scan(TableName="Video", Select="COUNT", ConsistentRead=True)["Count"]
    return count
