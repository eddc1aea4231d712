"""A post and its likes, as the articles on DynamoDB have them, ready to be subclassed::

class Post(models.PostMeta):
    class Meta:
        table_name = "Social"

class Like(models.Like):
    class Meta:
        table_name = "Social"

    post = CountedIn(Post.like_tally)
"""

from __future__ import annotations

import time

from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount.fields import CounterField, KeyAttribute
from pynacount.model import CountedModel
from pynacount.relations import CountedIn, CountedSet


def _now() -> int:
    return int(time.time())


class PostMeta(CountedModel):
    """The META item of a post: ``PK = POST#a91f``, ``SK = META``, and its ``likeTally``."""

    post_id: str

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    author_id = UnicodeAttribute(null=True, attr_name="authorId")
    created_at = NumberAttribute(attr_name="createdAt", default_for_new=_now)
    like_tally = CounterField(attr_name="likeTally")
    likes = CountedSet["Like"]("Like", tally="like_tally")  # no annotation: a subclass may narrow it


class Like(CountedModel):
    """One user's like of one post: ``PK = POST#a91f``, ``SK = LIKE#USER#7c20``; ``likedAt`` in epoch seconds.

    A subclass says in which model's counter it counts: ``post = CountedIn(Post.like_tally)``.
    """

    post_id: str
    user_id: str

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#USER#{user_id}", range_key=True, attr_name="SK")
    liked_at = NumberAttribute(attr_name="likedAt", default_for_new=_now)
    post = CountedIn(PostMeta.like_tally)
