"""Models of a small social application, which several tests share; and a look at the table behind the library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex

import behind
from behind import raw
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models
from pynacount.connections import connection_for


class Meta:
    table_name = "Town"
    counted_deadline = 20


class Post(models.PostMeta):
    Meta = Meta


class Like(models.Like):
    Meta = Meta
    post = CountedIn(Post.like_tally)


class User(CountedModel):
    """Whoever writes reviews; what is given is found by an index."""

    Meta = Meta
    pk = KeyAttribute("USER#{user_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    given_tally = CounterField(attr_name="givenTally", settle=0)


class Product(CountedModel):
    """A parent with three numbers, and a version."""

    Meta = Meta
    pk = KeyAttribute("PRODUCT#{product_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    title = UnicodeAttribute(null=True)
    version = VersionAttribute()
    review_tally = CounterField(attr_name="reviewTally")
    shown_tally = CounterField(attr_name="count")  # a word that DynamoDB reserves
    star_tally = CounterField(attr_name="star-sum")
    reviews: CountedSet[Any] = CountedSet("Review", tally="review_tally")
    shown: CountedSet[Any] = CountedSet("Review", tally="shown_tally")
    starred: CountedSet[Any] = CountedSet("Review", tally="star_tally")


class ByAuthor(GlobalSecondaryIndex[Any]):
    class Meta:
        index_name = "by-author"
        projection = AllProjection()

    author_id = UnicodeAttribute(hash_key=True, attr_name="authorId")


class Review(CountedModel):
    """Counted in its product: once, once while it is shown, and by its stars; and in its author."""

    Meta = Meta
    pk = KeyAttribute("PRODUCT#{product_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("REVIEW#{number:int}", range_key=True, attr_name="SK")
    author_id = UnicodeAttribute(attr_name="authorId", null=True)
    stars = NumberAttribute(null=True)
    hidden = BooleanAttribute(default=False)
    text = UnicodeAttribute(null=True)
    by_author = ByAuthor()
    counted = CountedIn(Product.review_tally)
    seen = CountedIn(Product.shown_tally, when=lambda review: not review.hidden, reads=("hidden",))
    rated = CountedIn(Product.star_tally, amount="stars")
    given = CountedIn(User.given_tally, user_id="author_id", index="by-author")


class Album(CountedModel):
    """Takes its photos along when it is deleted."""

    Meta = Meta
    pk = KeyAttribute("ALBUM#{album_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    title = UnicodeAttribute(null=True)
    photo_tally = CounterField(attr_name="photoTally", on_delete="cascade", settle=0)
    photos: CountedSet[Any] = CountedSet("Photo", tally="photo_tally")


class Photo(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ALBUM#{album_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("PHOTO#{photo_id}", range_key=True, attr_name="SK")
    album = CountedIn(Album.photo_tally)


class Board(CountedModel):
    """Leaves its pins behind when it is deleted."""

    Meta = Meta
    pk = KeyAttribute("BOARD#{board_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    pin_tally = CounterField(attr_name="pinTally", on_delete="leave", settle=0)
    pins: CountedSet[Any] = CountedSet("Pin", tally="pin_tally")


class Pin(CountedModel):
    Meta = Meta
    pk = KeyAttribute("BOARD#{board_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("PIN#{pin_id}", range_key=True, attr_name="SK")
    board = CountedIn(Board.pin_tally)


ALL = (Post, Like, User, Product, Review, Album, Photo, Board, Pin)


def items(prefix: str = "") -> dict[tuple[str, str], dict[str, Any]]:
    """The table, by its keys; only the partitions that begin with ``prefix``."""
    pages = raw().get_paginator("scan").paginate(TableName="Town", ConsistentRead=True)
    found = [item for page in pages for item in page["Items"]]
    return {(item["PK"]["S"], item["SK"]["S"]): item for item in found if item["PK"]["S"].startswith(prefix)}


item = partial(behind.item, "Town")
put = partial(behind.put, "Town")


def number(pk: str, name: str) -> str | None:
    """A tally as it is stored on a META item; None where it is absent."""
    value = (item(pk, "META") or {}).get(name)
    return None if value is None else value["N"]


def unseed(pk: str, *names: str) -> None:
    """Take tallies away, as if they had never been."""
    for name in names:
        raw().update_item(
            TableName="Town",
            Key={"PK": {"S": pk}, "SK": {"S": "META"}},
            UpdateExpression="REMOVE #name",
            ExpressionAttributeNames={"#name": name},
        )


@contextmanager
def before(operation: str, act: Callable[[], Any], meta: Any = Meta) -> Iterator[None]:
    """Somebody else acts at the last moment: just before the library's next request of this kind is sent."""
    events = connection_for(meta).client.meta.events
    event = f"before-call.dynamodb.{operation}"
    waiting = [act]

    def happen(**_: Any) -> None:
        if waiting:
            waiting.pop()()

    events.register(event, happen)
    try:
        yield
    finally:
        events.unregister(event, happen)
    assert not waiting, f"no {operation} was sent"


@contextmanager
def right_before(text: bytes, happens: Callable[[], Any], meta: Any = Meta) -> Iterator[None]:
    """Let something happen once, right before the first request that has this in its body is sent."""
    done: list[bool] = []

    def interrupt(request: Any, **_: Any) -> None:
        if not done and text in request.body:
            done.append(True)
            happens()

    events = connection_for(meta).client.meta.events
    events.register_first("before-send.dynamodb", interrupt, "right-before")
    try:
        yield
    finally:
        events.unregister("before-send.dynamodb", interrupt, "right-before")
    assert done
