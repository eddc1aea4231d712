"""Models with tallies in shards, which several tests share."""

from __future__ import annotations

from typing import Any

from pynamodb.attributes import UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute


class Meta:
    table_name = "Party"
    counted_deadline = 60
    max_pool_connections = 24


class Post(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally", shards=4, settle=0.05)
    likes: CountedSet[Any] = CountedSet("Like", tally="like_tally")


class Like(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(Post.like_tally)


class Thread(CountedModel):
    """A parent that takes its children along; they are parents in shards themselves."""

    Meta = Meta
    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    reply_tally = CounterField(attr_name="replyTally", shards=3, on_delete="cascade", settle=0)
    replies: CountedSet[Any] = CountedSet("Reply", tally="reply_tally")


class Reply(CountedModel):
    Meta = Meta
    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("REPLY#{reply_id}", range_key=True, attr_name="SK")
    thread = CountedIn(Thread.reply_tally)
    heart_tally = CounterField(attr_name="heartTally", shards=2, settle=0)
    hearts: CountedSet[Any] = CountedSet("Heart", tally="heart_tally")


class Heart(CountedModel):
    Meta = Meta
    pk = KeyAttribute("HEART#{thread_id}#{reply_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("USER#{user_id}", range_key=True, attr_name="SK")
    reply = CountedIn(Reply.heart_tally)


class Page(CountedModel):
    """Plain counters, one of them in shards."""

    Meta = Meta
    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STATS", range_key=True, attr_name="SK")
    title = UnicodeAttribute(null=True)
    views = CounterField(attr_name="views", shards=5, settle=0)
    clicks = CounterField(attr_name="clicks")


ALL = (Post, Like, Thread, Reply, Heart, Page)
