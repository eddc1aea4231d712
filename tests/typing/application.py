"""An application, as its developers would write it: what their type checker is told."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from typing_extensions import assert_type

from pynacount import (
    CountedIn,
    CountedModel,
    CountedSet,
    CounterField,
    KeyAttribute,
    errors,
    models,
    transaction,
    uncounted,
)
from pynacount.plan import Plan
from pynacount.relations import BoundSet
from pynacount.sizes import Cost


class Post(CountedModel):
    class Meta:
        table_name = "TypedSocial"
        counted_deadline = 5.0

    post_id: str

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    version = VersionAttribute()
    like_tally = CounterField(attr_name="likeTally")
    star_tally = CounterField(attr_name="starTally", missing="zero")
    likes: CountedSet[Like] = CountedSet("Like", tally="like_tally")


class Like(CountedModel):
    class Meta:
        table_name = "TypedSocial"

    post_id: str
    user_id: str

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    liked_at = NumberAttribute(attr_name="likedAt", default=0)
    stars = NumberAttribute(default=1)
    hidden = BooleanAttribute(default=False)
    post = CountedIn(Post.like_tally, when=lambda like: not like.hidden, reads=("hidden",))
    starred = CountedIn(Post.star_tally, amount="stars")


class BlogPost(models.PostMeta):
    class Meta:
        table_name = "TypedBlog"

    title = UnicodeAttribute(null=True)


class BlogLike(models.Like):
    class Meta:
        table_name = "TypedBlog"

    post = CountedIn(BlogPost.like_tally)


TABLES = (Post, Like, BlogPost, BlogLike)


def counters() -> None:
    assert_type(Post.like_tally, CounterField)
    Post(post_id="a", body="hi").save()
    post = Post.get(post_id="a")
    assert_type(post, Post)
    assert_type(post.like_tally, "int | None")
    assert_type(post.pk, str)
    assert_type(post.post_id, str)
    assert_type(Post.like_tally.value(Post.ref(post_id="a")), "int | None")
    assert_type(Post.like_tally.values([post]), "dict[Post, int | None]")
    assert_type(Post.like_tally.seed(post), int)


def sets() -> None:
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    assert_type(post, Post)
    assert_type(Post.likes, CountedSet[Like])
    assert_type(post.likes, BoundSet[Like])
    assert_type(post.likes.add(user_id="u", stars=3), bool)
    assert_type(post.likes.contains(user_id="u"), bool)
    for like in post.likes:
        assert_type(like, Like)
        assert_type(like.user_id, str)
        assert_type(like.stars, float)
    assert_type(iter(post.likes), Iterator[Like])
    assert_type(post.likes.recount(), int)
    assert_type(post.likes.discard(user_id="u"), bool)
    post.likes.add(user_id="u")
    post.likes.remove(user_id="u")


def ready_made() -> None:
    BlogPost(post_id="a", title="hi").save()
    assert_type(BlogPost.like_tally, CounterField)
    assert_type(BlogPost.get(post_id="a").like_tally, "int | None")
    assert_type(BlogPost.get("POST#a", "META").title, str)
    like = BlogLike(post_id="a", user_id="u")
    assert_type(like.user_id, str)
    like.save()
    assert_type(BlogLike.ref(post_id="a", user_id="u"), BlogLike)


def plans() -> None:
    plan = Like(post_id="a", user_id="u").plan_save()
    assert_type(plan, Plan)
    assert_type(plan.cost(), Cost)
    assert_type(plan.cost().wcu, float)
    assert_type(plan.cost().items, int)
    assert plan.request()["TransactItems"]
    assert_type(Like(post_id="a", user_id="u").plan_delete(), Plan)


def several_writes() -> None:
    with transaction() as tx:
        tx.save(Post(post_id="a"))
        tx.save(Like(post_id="a", user_id="u"), condition=Like.sk.does_not_exist())
        assert_type(tx.plan(), Plan)
    with transaction() as tx:
        tx.update(Post.get(post_id="a"), actions=[Post.body.set("hello")])
        tx.delete(Like.get(post_id="a", user_id="u"))
    with transaction() as tx:
        tx.check(Post.ref(post_id="a"), Post.body == "hello")
    with uncounted() as block:
        Like(post_id="a", user_id="u").save()
    assert len(block.unseeded) == 1


def mistakes_at_run_time() -> None:
    try:
        Post.ref(post_id="gone").likes.add(user_id="u")
    except errors.ParentMissing as error:
        assert_type(error, errors.ParentMissing)
    try:
        Post.ref(post_id="a#b")
    except errors.KeyTemplateError as error:
        assert isinstance(error, ValueError)


def amounts() -> Decimal:
    total = Post.star_tally.value(Post.ref(post_id="a"))
    return Decimal(total or 0)


PROGRAMS = (counters, sets, ready_made, plans, several_writes, mistakes_at_run_time)
