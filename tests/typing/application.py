"""An application, as its developers would write it: what their type checker is told.

``tests/test_typing.py`` also runs the ``PROGRAMS``, and compares what ``assert_type`` is given with what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Comparison
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import BatchWrite
from typing_extensions import assert_type

from pynacount import (
    CountedIn,
    CountedModel,
    CountedSet,
    CounterField,
    KeyAttribute,
    errors,
    models,
    streams,
    testing,
    transaction,
    uncounted,
)
from pynacount.bulk import Added, Discarded, Failed
from pynacount.connections import connection_for
from pynacount.feed import Page, PageRow
from pynacount.idempotency import idempotency_key, new_id
from pynacount.keys import ItemKey
from pynacount.plan import Plan
from pynacount.pool import Incremented
from pynacount.protocols.repairing import Repair
from pynacount.relations import BoundSet
from pynacount.sizes import Cost
from pynacount.streams import (
    BatchReport,
    Delivered,
    Drift,
    GivenUp,
    Poisoned,
    StreamTally,
    Uncounted,
    run,
    seed,
)
from pynacount.tallies import Audited, Repaired, Seeded, Spread, Tracking, audit, migrate, read_audit, repair, reshard
from pynacount.transactions import Transaction
from pynacount.writing.blocks import Uncounted as UncountedBlock


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
    star_tally = CounterField(attr_name="starTally", missing="zero", group_commit=2.5)
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


class Writer(CountedModel):
    class Meta:
        table_name = "TypedForum"

    name: str

    pk = KeyAttribute("WRITER#{name}", hash_key=True, attr_name="PK", escape=True, delimiter="#/")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    reply_tally = CounterField("replyTally", missing="seed", on_delete="leave", lazy_seed_limit=100, settle=0.0)
    points = CounterField(missing="defer", on_delete="cascade", shards=4)


class ByWriter(GlobalSecondaryIndex[Any]):  # type: ignore[no-untyped-call]  # PynamoDB leaves it untyped
    class Meta:
        index_name = "by-writer"
        projection = AllProjection()

    writer = UnicodeAttribute(hash_key=True)


class Reply(CountedModel):
    """It counts in replies, its own kind, and in its writer."""

    class Meta:
        table_name = "TypedForum"

    number: int

    pk = KeyAttribute("REPLY#{number:int}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    writer = UnicodeAttribute()
    useful = BooleanAttribute(default=True)
    weight = NumberAttribute(default=1)
    by_writer = ByWriter()
    author = CountedIn(Writer.reply_tally, when="useful", index="by-writer", name="writer")
    score = CountedIn(Writer.points, amount=lambda reply: reply.weight, reads=["weight"], name="writer")


class Note(CountedModel):
    """Neither a parent nor a child."""

    class Meta:
        table_name = "TypedForum"

    note_id: str

    pk = KeyAttribute("NOTE#{note_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")


class WriterPage(Writer):
    """Its children's model is known here, so the set is typed by it, with no annotation."""

    class Meta(Writer.Meta):
        pass

    replies = CountedSet(Reply, tally="reply_tally")


class BlogPost(models.PostMeta):
    class Meta:
        table_name = "TypedBlog"

    title = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally", settle=0.0, revision="likeTallyRev")
    likes: CountedSet[BlogLike] = CountedSet("BlogLike", tally="like_tally")


class BlogLike(models.Like):
    class Meta:
        table_name = "TypedBlog"

    post = CountedIn(BlogPost.like_tally)


class Stock(CountedModel):
    class Meta:
        table_name = "TypedShop"

    item_id: str

    pk = KeyAttribute("ITEM#{item_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STOCK", range_key=True, attr_name="SK")
    note = UnicodeAttribute(null=True)
    left = CounterField(minimum=0, maximum=10, once_key=("ONCE#{once}", "{item_id}"), once_days=7, once_expires="ttl")
    sold = CounterField()


TABLES = (Stock, Post, Like, Writer, Reply, Note, BlogPost, BlogLike)


def keys() -> None:
    Post("POST#a", "META", body="hi").save()
    assert_type(Post.pk, KeyAttribute)
    assert_type(Post.pk == "POST#a", Comparison)
    post = Post(post_id="b")
    assert_type(post.pk, str)
    assert_type(post.sk, str)
    assert_type(post.post_id, str)
    assert_type(post.key_variables(), dict[str, Any])
    assert_type(Post.get("POST#a", "META"), Post)
    assert_type(Post.get("POST#a", "META", consistent_read=True, attributes_to_get=["body"]).body, str)
    assert_type(Post.get(post_id="a"), Post)
    assert_type(Post.ref("POST#a", "META"), Post)
    assert_type(Post.ref(post_id="a").post_id, str)
    assert_type(Reply(number=7, writer="ada").number, int)
    assert_type(Writer(name="a/b").name, str)


def counters() -> None:
    Post(post_id="a", body="hi").save()
    assert_type(Post.like_tally, CounterField)
    assert_type(Post.like_tally > 3, Comparison)
    post = Post.get(post_id="a")
    ref = Post.ref(post_id="a")
    assert_type(post.like_tally, int | None)
    assert_type(post.star_tally, int | None)
    assert_type(Post.like_tally.value(ref), int | None)
    assert_type(Post.like_tally.value(post, consistent_read=True), int | None)
    assert_type(Post.like_tally.values([post, ref]), dict[Post, int | None])
    assert_type(Post.like_tally.values({ref}, consistent_read=True)[ref], int | None)
    assert_type(Post.like_tally.seed(post), int)
    if post.like_tally is not None:
        assert_type(post.like_tally + 1, int)


def plain_counters() -> None:
    ref = Stock.ref(item_id="a")
    assert_type(Stock.left.increment(ref), int)
    assert_type(Stock.left.increment(ref, 5, style="set", set={"note": "new"}, also={"sold": 1}), int)
    assert_type(Stock.left.decrement(ref, by=2, once="order-17"), int)
    assert_type(Stock.left.compare_and_set(ref, expected=4, new=5), bool)
    assert_type(Stock.sold.compare_and_set(ref, None, 0), bool)
    assert_type(Stock.left.plan_increment(ref, -1, once="order-18"), Plan)
    assert_type(Stock.left.plan_compare_and_set(ref, 5, 4).cost(), Cost)
    try:
        Stock.left.increment(Stock.get(item_id="a"), 100)
    except errors.CounterBoundError as full:
        assert_type(full.bound, str)
        assert full.value == 5 and full.limit == 10


def unseeded_counters() -> None:
    with uncounted():
        Post(post_id="a").save()
    post = Post.get(post_id="a")
    assert post.like_tally is None
    assert_type(Post.like_tally.value(post), int | None)
    assert_type(Post.like_tally.values([post]), dict[Post, int | None])


def repairs() -> None:
    BlogPost(post_id="a").save()
    ref = BlogPost.ref(post_id="a")
    done = BlogPost.like_tally.repair(ref)
    assert_type(done, Repair)
    assert_type(done.was, int | None)
    assert_type(done.now, int)
    assert_type(done.by, Literal["fence", "revision", "seed"])
    assert_type(BlogPost.like_tally.repair(BlogPost.get(post_id="a"), fence=True), Repair)
    assert_type(BlogPost.like_tally.reshard(ref, 1).now, int | None)
    assert_type(BlogPost.like_tally.reshard(BlogPost.get(post_id="a"), 1).was, int | None)


def shards_of_a_table() -> None:
    Post(post_id="a").save()
    ref = Post.ref(post_id="a")
    assert_type(Post.like_tally.reshard(ref, 8).now, int | None)
    track = Tracking()
    for one in reshard([Post.like_tally], 2, workers=1, segments=1, rcu_per_second=50.0, tracking=track, dry_run=True):
        assert_type(one, Spread)
        assert_type(one.counter, str)
        assert_type(one.key, ItemKey)
        assert_type(one.status, Literal["resharded", "planned", "gone", "unseeded", "failed"])
        assert_type(one.was, int | None)
        assert_type(one.now, int | None)
        assert_type(one.message, str)
    reshard([Post.like_tally], 2, refs=[ref]).close()


def seeds_of_a_table() -> None:
    with uncounted():
        BlogPost(post_id="a").save()
    track = Tracking()
    seeded = migrate([BlogPost.like_tally], workers=1, segments=2, limit=5, tracking=track, dry_run=True)
    for one in seeded:
        assert_type(one, Seeded)
        assert_type(one.status, Literal["seeded", "planned", "closed", "gone", "failed"])
        assert_type(one.tally, int | Decimal | None)
    assert_type(track.read_units, float)


def audits_of_a_table() -> None:
    BlogPost(post_id="a").save()
    counters = [BlogPost.like_tally]
    for found in audit(counters, workers=1, by="query", tracking=Tracking()):
        assert_type(found, Audited)
        assert_type(found.tally, int | Decimal | None)
        assert_type(found.count, int | Decimal | None)
        assert_type(found.drift, int | Decimal | None)
    (one,) = audit(counters, refs=[BlogPost.ref(post_id="a")])
    assert one.state == "ok"
    audit(counters, sample=5).close()


def repairs_of_a_table() -> None:
    BlogPost(post_id="a").save()
    key = '"key": {"PK": "POST#a", "SK": "META"}'
    line = f'{{"kind": "parent", "counter": "BlogPost.like_tally", {key}, "state": "drifted"}}'
    counters = [BlogPost.like_tally]
    audited = read_audit(counters, [line])
    assert_type(audited, Iterator[Audited])
    track = Tracking()
    for done in repair(counters, audited, workers=1, dry_run=False, sweep=True, tracking=track):
        assert_type(done, Repaired)
        assert_type(done.counter, str)
        assert_type(done.key, ItemKey)
        assert_type(done.status, Literal["repaired", "unchanged", "planned", "swept", "gone", "left", "failed"])
        assert_type(done.was, int | Decimal | None)
        assert_type(done.now, int | Decimal | None)
        assert_type(done.by, Literal["fence", "revision", "seed", "sweep"] | None)
        assert_type(done.when, datetime)
        assert_type(done.waited, float)
        assert_type(done.message, str)
    for row in read_audit(counters, [line.encode()], name="audit.jsonl"):
        assert_type(row.drift, int | Decimal | None)
        assert_type(row.wrong, bool)
    assert_type(track.retries, dict[str, int])


class UserTotals(CountedModel):
    class Meta:
        table_name = "TypedTotals"

    user_id: str

    pk = KeyAttribute("USER#{user_id}", hash_key=True, attr_name="PK")
    uploads = CounterField(missing="zero")
    bytes_ = CounterField(attr_name="bytes", missing="zero")


class Upload(CountedModel):
    class Meta:
        table_name = "TypedUploads"

    user_id: str
    upload_id: str

    pk = KeyAttribute("USER#{user_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("UPLOAD#{upload_id}", range_key=True, attr_name="SK")
    size = NumberAttribute(default=1)
    counted = CountedIn(UserTotals.uploads, by="stream")


def counted_from_a_stream() -> None:
    def told(what: Drift | Poisoned | Uncounted) -> None: ...

    tally = StreamTally(
        UserTotals.uploads, creates=True, on_drift=told, on_poisoned=told, on_uncounted=told, report_failures=True
    )
    assert_type(tally.lambda_handler({"Records": []}, None), dict[str, Any])
    report = tally.handle({"Records": [{}]}, seconds=1.5)
    assert_type(report, BatchReport)
    assert_type(report.records, int)
    assert_type(report.lowest_failed, str)
    assert_type(report.poisoned[0].sequence, str)
    assert_type(report.poisoned[0].error, errors.StreamRecordError)
    assert_type(report.answer(), dict[str, list[dict[str, str]]])
    StreamTally(Upload, Upload.counted, once_by="markers", skip_cancelled=True)
    StreamTally(
        UserTotals.bytes_,
        table="TypedUploads",
        key=lambda item: {"user_id": item["userId"]},
        amount=lambda item: Decimal(item["size"]),
        once_by="watermark",
    )


def streams_of_a_table() -> None:
    """Not run: it needs an engine that has streams."""
    delivered = run(StreamTally(UserTotals.uploads), idle=0, batch_size=10, max_attempts=3, bisect=True)
    assert_type(delivered, Delivered)
    assert_type(delivered.batches, int)

    def passed_over(lost: GivenUp) -> None:
        assert_type(lost.error, Exception | None)

    run(StreamTally(UserTotals.uploads), start="LATEST", stop=lambda: True, on_discarded=passed_over)
    ref = UserTotals.ref(user_id="u")
    assert_type(seed(UserTotals.uploads, ref, anew=True), dict[UserTotals, int | None])
    assert_type(seed(UserTotals.uploads, ref, creates=True, once_by="markers"), dict[UserTotals, int | None])
    for seeded in streams.migrate([UserTotals.uploads], once_by="watermark", dry_run=True):
        assert_type(seeded, Seeded)


def relations() -> None:
    """On an instance too a relation is the declaration: it reads no parent."""
    assert_type(Like.post, CountedIn)
    assert_type(Like(post_id="a", user_id="u").post, CountedIn)
    assert_type(Like.post.counter, CounterField)


def sets() -> None:
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    assert_type(Post.likes, CountedSet[Like])
    assert_type(post.likes, BoundSet[Like])
    assert_type(Post.get(post_id="a").likes, BoundSet[Like])
    assert_type(post.likes.add(user_id="u", stars=3), bool)
    assert_type(post.likes.contains(user_id="u"), bool)
    for like in post.likes:
        assert_type(like, Like)
        assert_type(like.user_id, str)
        assert_type(like.stars, float)
        assert_type(like.hidden, bool)
    assert_type(iter(post.likes), Iterator[Like])
    assert_type(list(post.likes), list[Like])
    assert_type({like.user_id for like in post.likes}, set[str])
    assert_type(post.likes.recount(), int)
    assert_type(post.likes.discard(user_id="u"), bool)
    post.likes.add(user_id="u")
    post.likes.remove(user_id="u")


def many_at_once() -> None:
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    added = post.likes.add_many([{"user_id": "u", "stars": 3}, {"user_id": "v"}])
    assert_type(added, Added)
    assert_type(added.added, int)
    assert_type(added.already, list[Mapping[str, Any]])
    assert_type(added.failed, list[Failed])
    for failed in Post.likes.add_many({"post_id": name, "user_id": "u"} for name in ("a", "gone")).failed:
        assert_type(failed.values, Mapping[str, Any])
        assert_type(failed.error, Exception)
    discarded = post.likes.discard_many([{"user_id": "v"}])
    assert_type(discarded, Discarded)
    assert_type(discarded.discarded, int)
    assert_type(discarded.already, list[Mapping[str, Any]])
    assert_type(discarded.failed, list[Failed])
    assert_type(Post.likes.discard_many([{"post_id": "a", "user_id": "u"}]), Discarded)
    assert_type(post.likes.plan_add_many([{"user_id": "u"}]), list[Plan])
    assert_type(post.likes.plan_discard_many([{"user_id": "u"}])[0].cost(), Cost)
    assert_type(Post.likes.plan_add_many([{"post_id": "a", "user_id": "u"}]), list[Plan])
    assert_type(Post.likes.plan_discard_many([]), list[Plan])


def many_increments() -> None:
    refs = [Stock.ref(item_id="a"), Stock.ref(item_id="b")]
    done = Stock.left.increment_many(refs, workers=1)
    assert_type(done, Incremented[Stock])
    assert_type(done.values, dict[Stock, int])
    assert_type(done.failed, dict[Stock, PynamoDBException])
    assert_type(Stock.left.increment_many({refs[0]: 2}, once="run-1").values[refs[0]], int)
    assert_type(Stock.left.increment_many(iter(refs), by=3, workers=1), Incremented[Stock])


def feed_pages() -> None:
    Post(post_id="a", body="hi").save()
    rows = Post.likes.page([Post.ref(post_id="a"), Post.get(post_id="a")], viewer={"user_id": "u"})
    assert_type(rows, list[PageRow[Post]])
    assert_type(rows[0].ref, Post)
    assert_type(rows[0].exists, bool)
    assert_type(rows[0].tally, int | None)
    assert_type(rows[0].mine, bool | None)
    assert_type(Post.likes.page([Post.ref(post_id="a")], consistent_read=True)[0].ref.post_id, str)
    plan = Post.likes.plan_page([Post.ref(post_id="a")], viewer={"user_id": "u"})
    assert_type(plan, Page[Post])
    assert_type(plan.requests(), list[dict[str, Any]])
    assert_type(plan.cost(), Cost)
    assert_type(plan.read(), list[PageRow[Post]])


def sets_by_class() -> None:
    WriterPage(name="ada").save()
    page = WriterPage.ref(name="ada")
    assert_type(WriterPage.replies, CountedSet[Reply])
    assert_type(page.replies, BoundSet[Reply])
    assert_type(page.replies.add(number=7, writer="ada"), bool)
    assert_type([reply.number for reply in page.replies], list[int])
    assert_type(WriterPage.get(name="ada").reply_tally, int | None)


def ready_made() -> None:
    BlogPost(post_id="a", title="hi", author_id="ada").save()
    assert_type(BlogPost.like_tally, CounterField)
    assert_type(BlogPost.get(post_id="a").like_tally, int | None)
    post = BlogPost.get("POST#a", "META")
    assert_type(post, BlogPost)
    assert_type(post.title, str)
    assert_type(post.author_id, str)
    assert_type(post.created_at, float)
    like = BlogLike(post_id="a", user_id="u")
    like.save()
    assert_type(like.user_id, str)
    assert_type(like.liked_at, float)
    assert_type(BlogLike.post, CountedIn)
    assert_type(BlogLike.ref(post_id="a", user_id="u"), BlogLike)
    assert_type(models.PostMeta.likes, CountedSet[models.Like])
    assert_type(BlogPost.likes, CountedSet[BlogLike])
    assert_type(list(post.likes), list[BlogLike])


def single_writes() -> None:
    post = Post(post_id="a", body="hi")
    assert_type(post.save(Post.pk.does_not_exist()), dict[str, Any])
    post.body = "hello"
    assert_type(post.save(add_version_condition=False), dict[str, Any])
    assert_type(post.update([Post.body.set("bye")], condition=Post.body == "hello"), dict[str, Any])
    changes = [Post.body.set("hello again")]
    post.update(changes)
    post.update(actions=[Post.body.remove()], add_version_condition=False)
    post.refresh(consistent_read=True)
    like = Like(post_id="a", user_id="u")
    like.save()
    assert_type(like.delete(Like.hidden == False), dict[str, Any])  # noqa: E712
    assert_type(post.delete(), dict[str, Any])


def batches() -> None:
    """Only of what neither counts nor is counted."""
    assert_type(Note.batch_write(), BatchWrite[Note])
    with Note.batch_write() as batch:
        batch.save(Note(note_id="a"))
    assert_type(Note.get(note_id="a").note_id, str)


def finding() -> None:
    """PynamoDB's own ways keep their types."""
    Post(post_id="a").save()
    Post.ref(post_id="a").likes.add(user_id="u")
    for like in Like.query("POST#a", Like.sk.startswith("LIKE#")):
        assert_type(like, Like)
    for found in Like.scan(Like.sk.startswith("LIKE#")):
        assert_type(found, Like)
    for post in Post.batch_get([("POST#a", "META")]):
        assert_type(post, Post)
    assert_type(Like.count("POST#a", Like.sk.startswith("LIKE#")), int)


def plans() -> None:
    like = Like(post_id="a", user_id="u")
    plan = like.plan_save()
    assert_type(plan, Plan)
    assert_type(like.plan_save().cost(), Cost)
    assert_type(like.plan_save().cost().wcu, float)
    assert_type(like.plan_save().cost().rcu, float)
    assert_type(like.plan_save().cost().items, int)
    assert_type(plan.operation, str)
    assert_type(plan.request(), dict[str, Any])
    assert_type(like.plan_delete(), Plan)


def several_writes() -> None:
    with transaction() as tx:
        assert_type(tx, Transaction)
        tx.save(Post(post_id="a"))
        tx.save(Like(post_id="a", user_id="u"), condition=Like.sk.does_not_exist())
        assert_type(tx.plan(), Plan)
        assert_type(tx.plan().cost().items, int)
    with transaction() as tx:
        tx.update(Post.get(post_id="a"), actions=[Post.body.set("hello")], condition=Post.body.does_not_exist())
        tx.delete(Like.get(post_id="a", user_id="u"), condition=Like.sk.exists())
    with transaction() as tx:
        tx.check(Post.ref(post_id="a"), Post.body == "hello")
        tx.check(Writer(name="ada"), Writer.sk.does_not_exist())


def requests_that_come_again() -> None:
    Post(post_id="requested").save()
    with idempotency_key("f81d4fae", scope="7c20"):
        assert_type(new_id("7c20"), str)
        assert_type(Post.ref(post_id="requested").likes.add(user_id="7c20"), bool)


def uncounted_writes() -> None:
    BlogPost(post_id="a").save()
    with uncounted() as block:
        assert_type(block, UncountedBlock)
        BlogLike(post_id="a", user_id="u").save()
        BlogLike(post_id="b", user_id="u").save()
    assert_type(block.unseeded, set[ItemKey])
    assert_type([str(key) for key in block.missing], list[str])
    assert_type([key.wire() for key in block.missing], list[dict[str, dict[str, Any]]])


def refusals() -> None:
    try:
        Post.ref(post_id="gone").likes.add(user_id="u")
    except (errors.ParentMissing, errors.CounterNotSeeded) as error:
        assert_type(error, errors.ParentMissing | errors.CounterNotSeeded)
        assert_type(error.msg, str)
    try:
        Post.ref(post_id="a#b")
    except ValueError as refused:
        assert isinstance(refused, errors.KeyTemplateError)
    try:
        Post.like_tally.value(Post.ref(post_id="gone"))
    except PynamoDBException as caught:
        assert isinstance(caught, errors.PynacountError)


ERRORS: tuple[type[errors.PynacountError], ...] = (
    errors.AlreadyCounted,
    errors.CheckFailed,
    errors.CounterBoundError,
    errors.CounterContention,
    errors.CounterNotSeeded,
    errors.CounterTypeError,
    errors.DeclarationError,
    errors.IdempotencyKeyError,
    errors.KeyTemplateError,
    errors.KeyTypeError,
    errors.NotCounted,
    errors.OutcomeUnknown,
    errors.ParentMissing,
    errors.ParentNotEmpty,
    errors.PlanError,
    errors.StateError,
    errors.TargetError,
    errors.TokenReused,
    errors.UncountedWrite,
)


def tests_of_its_own() -> None:
    testing.create_tables(Post, Like)
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    client = connection_for(Like.Meta).client  # a set's verbs are sent by the child's model
    with testing.record_requests(client) as sent:
        post.likes.add(user_id="u")
    assert_type(sent, list[tuple[str, dict[str, Any]]])
    with testing.FaultInjector(client, rates={testing.Fault.CONFLICT: 0.1}, seed=7) as injector:
        assert_type(injector, testing.FaultInjector)
        injector.next(testing.Fault.LOST_RESPONSE, None, operation="TransactWriteItems")
        injector.next_error("ValidationException", "no", status=400, operation="Scan")
        assert_type(post.likes.discard(user_id="u"), bool)
        assert_type(injector.log, list[testing.Call])
        assert_type(injector.log[0].operation, str)
        assert_type(injector.log[0].fault, testing.Fault | testing.ErrorAnswer | None)
        assert_type(injector.pending, int)
        assert_type(injector.injected, int)
    with testing.Conflicts(client) as conflicts:
        assert_type(conflicts, testing.Conflicts)
        assert_type(conflicts.sent, int)
        assert_type(conflicts.met, int)


def exactness() -> None:
    Post(post_id="exact").save()
    testing.assert_exact(Post)


def engines_of_its_own() -> None:
    """They are made, not entered."""
    for name in testing.ENGINES:
        assert_type(testing.engine(name), testing.Engine)
    moto, local = testing.MotoEngine(), testing.DynamoDBLocalEngine()
    assert_type(moto, testing.MotoEngine)
    assert_type(moto.name, str)
    assert_type(moto.threads, bool)
    assert_type(local.endpoint_url, str | None)
    try:
        local.reset()
    except (testing.EngineUnavailable, RuntimeError) as error:
        assert_type(error, testing.EngineUnavailable | RuntimeError)


PROGRAMS = (
    keys,
    counters,
    plain_counters,
    unseeded_counters,
    repairs,
    shards_of_a_table,
    seeds_of_a_table,
    audits_of_a_table,
    repairs_of_a_table,
    counted_from_a_stream,
    relations,
    sets,
    many_at_once,
    many_increments,
    feed_pages,
    sets_by_class,
    ready_made,
    single_writes,
    batches,
    finding,
    plans,
    several_writes,
    requests_that_come_again,
    uncounted_writes,
    refusals,
    tests_of_its_own,
    exactness,
    engines_of_its_own,
)
