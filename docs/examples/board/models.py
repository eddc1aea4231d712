"""One table. A post's likes and comments lie in its partition, a group's members in the group's."""

from __future__ import annotations

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models

SEATS = 3


class Settings:
    table_name = "Board"
    region = "eu-central-1"
    counted_deadline = 5
    max_pool_connections = 32


class Post(models.PostMeta):
    class Meta(Settings):
        pass

    comment_tally = CounterField(attr_name="commentTally")
    likes: CountedSet[Like] = CountedSet("board.models:Like", tally="like_tally")
    comments: CountedSet[Comment] = CountedSet("board.models:Comment", tally="comment_tally")


class Like(models.Like):
    class Meta(Settings):
        pass

    post = CountedIn(Post.like_tally)


class Comment(CountedModel):
    class Meta(Settings):
        pass

    post_id: str
    comment_id: str
    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("COMMENT#{comment_id}", range_key=True, attr_name="SK")
    author_id = UnicodeAttribute(attr_name="authorId")
    text = UnicodeAttribute()
    written_at = NumberAttribute(attr_name="writtenAt")
    post = CountedIn(Post.comment_tally)


class Entry(CountedModel):
    """A line of the feed: written with its post, and read newest first."""

    class Meta(Settings):
        pass

    post_id: str
    pk = KeyAttribute("FEED", hash_key=True, attr_name="PK")
    sk = KeyAttribute("AT#{at}#{post_id}", range_key=True, attr_name="SK")
    author_id = UnicodeAttribute(attr_name="authorId")
    body = UnicodeAttribute()


class Group(CountedModel):
    class Meta(Settings):
        pass

    group_id: str
    pk = KeyAttribute("GROUP#{group_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    name = UnicodeAttribute()
    member_tally = CounterField(attr_name="memberTally", maximum=SEATS)
    members: CountedSet[Member] = CountedSet("Member", tally="member_tally")


class Member(CountedModel):
    class Meta(Settings):
        pass

    group_id: str
    user_id: str
    pk = KeyAttribute("GROUP#{group_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("MEMBER#{user_id}", range_key=True, attr_name="SK")
    group = CountedIn(Group.member_tally)


TABLES = (Post, Like, Comment, Entry, Group, Member)
GROUP = "walkers"
