"""The library's own protocols, each as an actor of a search: a factory of fresh generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.protocols.repairing import repair, repair_by_revision
from pynacount.protocols.seeding import seed
from pynacount.steps import Protocol, Refusal, Send
from pynacount.tallies.groups import Found, Groups
from pynacount.tallies.passes import passes
from pynacount.tallies.seeder import seed_found
from pynacount.writing.blocks import Uncounted, uncounted_block
from pynacount.writing.deleting import delete, finish_deletion
from pynacount.writing.discarding import Discard
from pynacount.writing.performing import perform
from pynacount.writing.saving import Save

from .store import Store

TABLE = "Social"
Actor = Callable[[], Protocol[Any]]


class Post(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally")
    likes = CountedSet[Any]("Like", tally="like_tally")


class Like(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    hidden = BooleanAttribute(null=True)
    stars = NumberAttribute(null=True)
    post = CountedIn(Post.like_tally, when=lambda like: not like.hidden, reads=("hidden",))


class Thread(CountedModel):
    """A parent that takes its children along."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    reply_tally = CounterField(attr_name="replyTally", on_delete="cascade")
    replies = CountedSet[Any]("Reply", tally="reply_tally")


class Reply(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("THREAD#{thread_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("REPLY#{reply_id}", range_key=True, attr_name="SK")
    thread = CountedIn(Thread.reply_tally)


class Page(CountedModel):
    """A parent that leaves its children behind, in a table known to hold no uncounted ones."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    view_tally = CounterField(attr_name="viewTally", on_delete="leave")
    views = CountedSet[Any]("View", tally="view_tally")


class View(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VIEW#{user_id}", range_key=True, attr_name="SK")
    page = CountedIn(Page.view_tally)


class Tag(CountedModel):
    """A parent whose absent tally counts as 0."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("TAG#{tag_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    use_tally = CounterField(attr_name="useTally", missing="zero", on_delete="cascade")
    uses = CountedSet[Any]("Use", tally="use_tally")


class Use(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("TAG#{tag_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("USE#{user_id}", range_key=True, attr_name="SK")
    tag = CountedIn(Tag.use_tally)


class Poll(CountedModel):
    """A parent whose every counted write raises a revision."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    vote_tally = CounterField(attr_name="voteTally", revision="voteTallyRev")
    votes = CountedSet[Any]("Vote", tally="vote_tally")


class Vote(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    poll = CountedIn(Poll.vote_tally)


class Author(CountedModel):
    """A parent whose children lie anywhere."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("AUTHOR#{author_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    note_tally = CounterField(attr_name="noteTally")
    notes = CountedSet[Any]("Note", tally="note_tally")


class Note(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("NOTE#{author_id}#{note_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("NOTE#{note_id}", range_key=True, attr_name="SK")
    author = CountedIn(Author.note_tally)


class Ballot(CountedModel):
    """A parent whose counted writes raise a revision; an absent tally counts as 0."""

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("BALLOT#{ballot_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    mark_tally = CounterField(attr_name="markTally", missing="zero", on_delete="cascade", revision="markTallyRev")
    marks = CountedSet[Any]("Mark", tally="mark_tally")


class Mark(CountedModel):
    class Meta:
        table_name = TABLE

    pk = KeyAttribute("BALLOT#{ballot_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("MARK#{user_id}", range_key=True, attr_name="SK")
    ballot = CountedIn(Ballot.mark_tally)


class EarlyPost(CountedModel):
    """A post as the generation of code sees it that runs beside old code: it leaves the counting for later."""

    __module__ = "early"  # another program's

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    like_tally = CounterField(attr_name="likeTally", missing="defer")
    likes = CountedSet[Any]("EarlyLike", tally="like_tally")


class EarlyLike(CountedModel):
    __module__ = "early"

    class Meta:
        table_name = TABLE

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(EarlyPost.like_tally)


def saves(make: Callable[[], CountedModel]) -> Actor:
    """Save a new instance."""
    return lambda: perform([Save(make())])


def discards(make: Callable[[], CountedModel]) -> Actor:
    """Delete an instance that was not loaded."""
    return lambda: perform([Discard(make())])


def deletes(make: Callable[[], CountedModel]) -> Actor:
    """Delete, by the counters' ``on_delete``."""
    return lambda: delete(make())


def sweeps(make: Callable[[], CountedModel]) -> Actor:
    """Finish a cascade that was interrupted."""
    return lambda: finish_deletion(make())


def edits(model: type[CountedModel], store: Store, *key: str, **changes: Any) -> Actor:
    """Change an instance that was loaded before anything else happened."""

    def protocol() -> Protocol[Any]:
        item = store.get(TABLE, *key)
        assert item is not None
        instance = model.from_raw_data(item)
        for name, value in changes.items():
            setattr(instance, name, value)
        return perform([Save(instance)])

    return protocol


def seeds(counter: CounterField, ref: CountedModel) -> Actor:
    """Seed one parent."""
    return lambda: seed(counter.tally, counter.owner._counting.key_of(ref))


def repairs(counter: CounterField, ref: CountedModel) -> Actor:
    """Repair one parent by a fence."""
    return lambda: repair(counter.tally, counter.owner._counting.key_of(ref))


def repairs_by_revision(counter: CounterField, ref: CountedModel) -> Actor:
    """Repair one parent by its revision."""
    return lambda: repair_by_revision(counter.tally, counter.owner._counting.key_of(ref))


def passes_over(counter: CounterField, partition: str) -> Actor:
    """Seed a partition's parent as a pass over the table does. A query stands for the pages of the scan."""

    def protocol() -> Protocol[Any]:
        (one,) = passes([counter])
        groups = Groups(one.names, one.locals)
        request: dict[str, Any] = {
            "TableName": TABLE,
            "ConsistentRead": True,
            "KeyConditionExpression": "PK = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}},
        }
        found: list[Found] = []
        start: Any = None
        while True:
            answer = yield Send("Query", {**request, "ExclusiveStartKey": start} if start else request)
            assert not isinstance(answer, Refusal)
            found += groups.take(answer["Items"])
            start = answer.get("LastEvaluatedKey")
            if not start:
                break
        for parent in (*found, *groups.finish()):
            if counter.attr_name not in parent.item:
                return (yield from seed_found(parent))
        return None

    return protocol


def several(*makes: Callable[[], Any]) -> Actor:
    """Several intents in one transaction."""
    return lambda: perform([make() for make in makes])


def uncounted(actor: Actor) -> Actor:
    """The same in an ``uncounted()`` block, which is this actor's alone."""

    def protocol() -> Protocol[Any]:
        block = Uncounted()
        inner = actor()
        answer: Any = None
        while True:
            token = uncounted_block.set(block)
            try:
                step = next(inner) if answer is None else inner.send(answer)
            except StopIteration as end:
                return end.value
            finally:
                uncounted_block.reset(token)
            answer = yield step

    return protocol
