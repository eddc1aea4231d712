"""A parent without a tally is counted once, exactly, by whoever needs it first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

import pytest
from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from pynacount import (
    CountedIn,
    CountedModel,
    CountedSet,
    CounterField,
    KeyAttribute,
    commit,
    models,
    transaction,
    uncounted,
)
from pynacount.connections import connection_for
from pynacount.errors import AlreadyCounted, CounterNotSeeded, CounterTypeError, ParentMissing
from pynacount.testing import Fault, FaultInjector, record_requests
from social import (
    ALL,
    Album,
    Like,
    Meta,
    Post,
    Product,
    Review,
    User,
    item,
    items,
    number,
    put,
    raw,
    right_before,
    unseed,
)

Sent = list[tuple[str, dict[str, Any]]]


class Few(models.PostMeta):
    """Counts only a few on a writer's way."""

    Meta = Meta
    pk = KeyAttribute("FEW#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", lazy_seed_limit=3, settle=0)
    likes: CountedSet[Any] = CountedSet("FewLike", tally="like_tally")


class FewLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("FEW#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Few.like_tally)


class Zero(models.PostMeta):
    """Known to hold no uncounted children."""

    Meta = Meta
    pk = KeyAttribute("ZERO#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", missing="zero")
    likes: CountedSet[Any] = CountedSet("ZeroLike", tally="like_tally")


class ZeroLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("ZERO#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Zero.like_tally)


class Early(models.PostMeta):
    """Old code that does not count is still running beside it."""

    Meta = Meta
    pk = KeyAttribute("EARLY#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", missing="defer", lazy_seed_limit=0)
    likes: CountedSet[Any] = CountedSet("EarlyLike", tally="like_tally")


class EarlyLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("EARLY#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Early.like_tally)


class Later(models.PostMeta):
    """The same items, once the old code is gone."""

    Meta = Meta
    pk = KeyAttribute("EARLY#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", settle=3)
    likes: CountedSet[Any] = CountedSet("LaterLike", tally="like_tally")


class LaterLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("EARLY#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Later.like_tally)


class Poll(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    vote_tally = CounterField(attr_name="voteTally")
    votes: CountedSet[Any] = CountedSet("Vote", tally="vote_tally")


class Vote(CountedModel):
    """Counts while it is valid, and for nothing else."""

    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    valid = BooleanAttribute(default=False)
    poll = CountedIn(Poll.vote_tally, when="valid")


class Shared(CountedModel):
    """A parent whose partition holds children of two models, one's prefix being the other's beginning."""

    Meta = Meta
    pk = KeyAttribute("SHARED#{shared_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    note_tally = CounterField(attr_name="noteTally", lazy_seed_limit=2)
    notes: CountedSet[Any] = CountedSet("Note", tally="note_tally")


class Note(CountedModel):
    Meta = Meta
    pk = KeyAttribute("SHARED#{shared_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("NOTE#{number:int}", range_key=True, attr_name="SK")
    shared = CountedIn(Shared.note_tally)


class Zine(CountedModel):
    """A parent whose one number counts children of two models."""

    Meta = Meta
    pk = KeyAttribute("ZINE#{zine_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    copy_tally = CounterField(attr_name="copyTally", lazy_seed_limit=3)
    readers: CountedSet[Any] = CountedSet("Reader", tally="copy_tally")


class Reader(CountedModel):
    Meta = Meta
    pk = KeyAttribute("ZINE#{zine_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("READER#{name}", range_key=True, attr_name="SK")
    zine = CountedIn(Zine.copy_tally)


class Shop(CountedModel):
    """Takes many copies; its key begins as a reader's does."""

    Meta = Meta
    pk = KeyAttribute("ZINE#{zine_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("READER#SHOP#{name}", range_key=True, attr_name="SK")
    copies = NumberAttribute(default=1)
    zine = CountedIn(Zine.copy_tally, amount="copies")


class Place(CountedModel):
    """No templates, no sort key."""

    class Meta:
        table_name = "Places"

    place_id = UnicodeAttribute(hash_key=True)
    visit_tally = CounterField(attr_name="visits")
    visits: CountedSet[Any] = CountedSet("Visit", tally="visit_tally")


class Visit(CountedModel):
    """In a table of its own, in one partition for each place."""

    class Meta:
        table_name = "Visits"

    place = UnicodeAttribute(hash_key=True)
    day = NumberAttribute(range_key=True)
    counted = CountedIn(Place.visit_tally, place_id="place")


class Draft(CountedModel):
    """No child of anything."""

    Meta = Meta
    pk = KeyAttribute("SHARED#{shared_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("NOTE#DRAFT#{number:int}", range_key=True, attr_name="SK")


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> None:
    tables(*ALL)


@pytest.fixture
def sent() -> Iterator[Sent]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, none of which really takes place."""
    waits: list[float] = []
    monkeypatch.setattr(commit.time, "sleep", waits.append)
    return waits


def legacy(kind: str, many: int) -> None:
    """A parent and its likes as a program wrote them that knew no tally."""
    put(f"{kind}#old", "META", body={"S": "from before"}, legacy={"BOOL": True})
    for index in range(many):
        put(f"{kind}#old", f"LIKE#USER#{index:03}", likedAt={"N": "1"})


def old() -> Any:
    return Post.ref(post_id="old")


def early() -> Any:
    return Early.ref(post_id="old")


def operations(sent: Sent) -> list[str]:
    return [operation for operation, _ in sent]


def between_count_and_write(happens: Callable[[], Any]) -> AbstractContextManager[None]:
    return right_before(b"SET likeTally", happens)


class TestSeed:
    @pytest.mark.parametrize("many", [0, 1, 7])
    def test_it_counts_and_sets_the_number_and_nothing_else(self, many: int) -> None:
        legacy("POST", many)
        assert Post.like_tally.seed(old()) == many
        assert item("POST#old", "META") == {
            "body": {"S": "from before"},
            "legacy": {"BOOL": True},
            "likeTally": {"N": str(many)},
        }

    def test_a_seeded_parent_is_left_as_it_is(self, sent: Sent) -> None:
        legacy("POST", 3)
        Post.like_tally.seed(old())
        sent.clear()
        assert Post.like_tally.seed(old()) == 3
        assert [operation for operation, _ in sent] == ["GetItem"]

    def test_a_parent_that_never_was_is_not_created(self) -> None:
        with pytest.raises(ParentMissing, match="POST#gone"):
            Post.like_tally.seed(Post.ref(post_id="gone"))
        assert items() == {}

    def test_children_are_counted_without_being_read(self, sent: Sent) -> None:
        legacy("POST", 2)
        Post.like_tally.seed(old())
        (query,) = [request for operation, request in sent if operation == "Query"]
        assert (query["Select"], query["ConsistentRead"]) == ("COUNT", True)

    def test_what_only_begins_like_a_child_is_not_counted(self, sent: Sent) -> None:
        put("SHARED#s", "META")
        for sort_key in ("NOTE#1", "NOTE#2", "NOTE#DRAFT#1", "NOTE#x"):
            put("SHARED#s", sort_key)
        assert Shared.note_tally.seed(Shared.ref(shared_id="s")) == 2
        (query,) = [request for operation, request in sent if operation == "Query"]
        assert query["ProjectionExpression"] == "PK, SK"

    def test_weights_conditions_and_missing_values_count_as_they_would_have(self) -> None:
        put("PRODUCT#p", "META", version={"N": "1"})
        put("PRODUCT#p", "REVIEW#1", stars={"N": "2.5"}, hidden={"BOOL": False})
        put("PRODUCT#p", "REVIEW#2", stars={"N": "-1"}, hidden={"BOOL": True})
        put("PRODUCT#p", "REVIEW#3", hidden={"BOOL": False})
        put("PRODUCT#p", "REVIEW#4", stars={"N": "4"})
        product = Product.ref(product_id="p")
        assert Product.review_tally.seed(product) == 4
        assert Product.shown_tally.seed(product) == 3
        assert Product.star_tally.seed(product) == Decimal("5.5")

    def test_children_elsewhere_are_found_by_their_index(self, waits: list[float], sent: Sent) -> None:
        put("USER#ada", "META")
        for product in ("p", "q"):
            put(f"PRODUCT#{product}", "REVIEW#1", authorId={"S": "ada"})
            put(f"PRODUCT#{product}", "REVIEW#2", authorId={"S": "bob"})
        assert User.given_tally.seed(User.ref(user_id="ada")) == 2
        queries = [request for operation, request in sent if operation == "Query"]
        assert [query["IndexName"] for query in queries] == ["by-author"] * 2  # until two counts agree
        assert len(waits) == 2

    def test_an_index_that_still_moves_is_asked_until_two_counts_agree(
        self, monkeypatch: pytest.MonkeyPatch, sent: Sent
    ) -> None:
        put("USER#ada", "META")
        late = [2, 1]

        def sleep(seconds: float) -> None:
            if late:
                put("PRODUCT#p", f"REVIEW#{late.pop()}", authorId={"S": "ada"})

        monkeypatch.setattr(commit.time, "sleep", sleep)
        assert User.given_tally.seed(User.ref(user_id="ada")) == 2
        assert operations(sent).count("Query") == 3

    def test_a_loaded_parent_will_do_for_a_ref(self) -> None:
        legacy("POST", 2)
        assert Post.like_tally.seed(Post.get(post_id="old")) == 2

    def test_a_number_stored_as_a_string_is_named_and_left(self) -> None:
        put("POST#old", "META", likeTally={"S": "5"})
        with pytest.raises(CounterTypeError, match=r"POST#old.*likeTally"):
            Post.like_tally.seed(old())
        assert item("POST#old", "META") == {"likeTally": {"S": "5"}}

    def test_children_that_only_a_scan_would_find_are_not_guessed(self) -> None:
        class Tag(CountedModel):
            Meta = Meta
            pk = KeyAttribute("TAG#{tag}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            use_tally = CounterField(attr_name="useTally")

        class Use(CountedModel):
            Meta = Meta
            pk = KeyAttribute("USE#{use_id}#{tag}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            in_tag = CountedIn(Tag.use_tally)

        put("TAG#t", "META")
        with pytest.raises(CounterNotSeeded, match=r'declare an index on them: CountedIn\(\.\.\., index="\.\.\."\)'):
            Tag.use_tally.seed(Tag.ref(tag="t"))

    def test_a_child_that_cannot_be_read_is_named_and_the_parent_left_unseeded(self) -> None:
        put("PRODUCT#p", "META")
        put("PRODUCT#p", "REVIEW#1", stars={"S": "five"})
        with pytest.raises(CounterTypeError, match=r"REVIEW#1"):
            Product.star_tally.seed(Product.ref(product_id="p"))
        assert number("PRODUCT#p", "star-sum") is None

    def test_it_goes_through_all_pages(self, engine: Any) -> None:
        put("POST#old", "META")
        for index in range(4):
            put("POST#old", f"LIKE#USER#{index}", filler={"S": "x" * 390_000})
        assert Post.like_tally.seed(old()) == 4


class TestOnAWritersWay:
    @pytest.mark.parametrize(("verb", "after"), [("add", 4), ("discard", 2)])
    def test_a_like_or_unlike_counts_first_and_goes_on(self, verb: str, after: int) -> None:
        legacy("POST", 3)
        user = "new" if verb == "add" else "000"
        assert getattr(old().likes, verb)(user_id=user) is True
        assert number("POST#old", "likeTally") == str(after)

    def test_a_double_click_on_an_unseeded_post_needs_no_counting(self, sent: Sent) -> None:
        legacy("POST", 3)
        assert old().likes.add(user_id="000") is False
        assert [operation for operation, _ in sent] == ["TransactWriteItems"]

    def test_the_writers_request_keeps_its_token_while_it_seeds(self, sent: Sent) -> None:
        legacy("POST", 3)
        old().likes.add(user_id="new")
        tokens = {request["ClientRequestToken"] for operation, request in sent if operation == "TransactWriteItems"}
        assert [operation for operation, _ in sent] == [
            "TransactWriteItems",
            "GetItem",
            "Query",
            "UpdateItem",
            "TransactWriteItems",
        ]
        assert len(tokens) == 1

    def test_up_to_the_limit_a_writer_counts(self) -> None:
        legacy("FEW", 3)
        assert Few.ref(post_id="old").likes.add(user_id="new")
        assert number("FEW#old", "likeTally") == "4"

    def test_past_the_limit_it_writes_nothing_and_says_how_to_seed(self) -> None:
        legacy("FEW", 4)
        before = items()
        with pytest.raises(CounterNotSeeded, match=r"FEW#old.*lazy_seed_limit=3.*Few\.like_tally\.seed\(ref\)"):
            Few.ref(post_id="old").likes.add(user_id="new")
        assert items() == before
        assert Few.like_tally.seed(Few.ref(post_id="old")) == 4
        assert Few.ref(post_id="old").likes.add(user_id="new")

    def test_past_the_limit_a_transaction_writes_nothing(self) -> None:
        legacy("FEW", 4)
        Post(post_id="a").save()
        before = items()
        with pytest.raises(CounterNotSeeded, match="FEW#old"), transaction() as tx:
            tx.save(Like(post_id="a", user_id="u"))
            tx.save(FewLike(post_id="old", user_id="u"))
        assert items() == before

    def test_past_the_limit_no_further_page_is_read(self, sent: Sent) -> None:
        put("FEW#old", "META")
        for index in range(8):
            put("FEW#old", f"LIKE#USER#{index}", filler={"S": "x" * 240_000})  # four to a page
        with pytest.raises(CounterNotSeeded):
            Few.ref(post_id="old").likes.add(user_id="new")
        assert operations(sent).count("Query") == 1

    def test_the_limit_is_one_of_children_and_not_of_what_lies_beside_them(self) -> None:
        put("SHARED#s", "META")
        for sort_key in ("NOTE#1", "NOTE#2", *(f"NOTE#DRAFT#{index}" for index in range(5))):
            put("SHARED#s", sort_key)
        assert Shared.ref(shared_id="s").notes.add(number=3)
        assert number("SHARED#s", "noteTally") == "3"

    def test_all_tallies_of_a_write_are_seeded(self) -> None:
        put("PRODUCT#p", "META", version={"N": "1"})
        put("PRODUCT#p", "REVIEW#1", stars={"N": "2"}, hidden={"BOOL": False})
        assert Product.ref(product_id="p").reviews.add(number=2, stars=3)
        loaded = Product.get(product_id="p")
        assert (loaded.review_tally, loaded.shown_tally, loaded.star_tally) == (2, 2, 5)

    def test_a_transaction_seeds_too(self) -> None:
        legacy("POST", 2)
        with transaction() as tx:
            tx.save(Like(post_id="old", user_id="a"))
            tx.save(Like(post_id="old", user_id="b"))
        assert number("POST#old", "likeTally") == "4"

    def test_an_edit_seeds_too(self) -> None:
        put("PRODUCT#p", "META", version={"N": "1"})
        put("PRODUCT#p", "REVIEW#1", stars={"N": "2"}, hidden={"BOOL": False})
        review = Review.get(product_id="p", number=1)
        review.stars = 5
        review.save()
        assert Product.star_tally.value(Product.ref(product_id="p")) == 5
        assert Product.review_tally.value(Product.ref(product_id="p")) is None


class TestZero:
    def test_a_missing_number_is_zero(self) -> None:
        put("ZERO#z", "META")
        zero = Zero.ref(post_id="z")
        assert (Zero.like_tally.value(zero), Zero.get(post_id="z").like_tally) == (0, 0)
        assert zero.likes.add(user_id="u")
        assert number("ZERO#z", "likeTally") == "1"

    def test_it_can_be_counted_all_the_same(self) -> None:
        legacy("ZERO", 3)
        assert Zero.like_tally.seed(Zero.ref(post_id="old")) == 3
        assert Zero.ref(post_id="old").likes.discard(user_id="000")
        assert number("ZERO#old", "likeTally") == "2"

    def test_children_written_uncounted_are_not_forgotten(self, waits: list[float]) -> None:
        Zero(post_id="z").save()
        zero = Zero.ref(post_id="z")
        zero.likes.add(user_id="a")
        try:
            with uncounted():
                ZeroLike(post_id="z", user_id="b").save()
        except Exception:
            pass  # to refuse it would do as well
        zero.likes.add(user_id="c")
        assert number("ZERO#z", "likeTally") == str(zero.likes.recount())

    def test_a_like_of_a_missing_post_still_creates_nothing(self) -> None:
        with pytest.raises(ParentMissing):
            Zero.ref(post_id="gone").likes.add(user_id="u")
        assert items() == {}


class TestTrouble:
    @pytest.mark.parametrize("step", range(3))
    def test_a_seeder_that_dies_leaves_the_parent_as_it_was(self, step: int) -> None:
        legacy("POST", 3)
        before = items()
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(*[None] * step)
            injector.next_error("AccessDeniedException", "no")
            with pytest.raises(Exception, match="AccessDenied"):
                Post.like_tally.seed(old())
        assert items() == before
        assert Post.like_tally.seed(old()) == 3

    @pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.MIXED])
    def test_a_fault_at_any_step_changes_nothing(self, fault: Fault, waits: list[float]) -> None:
        for step in range(3):
            legacy("POST", 3)
            with FaultInjector(connection_for(Post.Meta).client) as injector:
                injector.next(*[None] * step, fault)
                assert Post.like_tally.seed(old()) == 3
            assert number("POST#old", "likeTally") == "3"

    def test_who_loses_the_race_takes_the_winners_number(self) -> None:
        legacy("POST", 3)

        def winner() -> None:
            Post.like_tally.seed(old())
            old().likes.add(user_id="new")

        with between_count_and_write(winner):
            assert Post.like_tally.seed(old()) == 4
        assert number("POST#old", "likeTally") == "4"

    def test_a_parent_that_goes_meanwhile_is_not_brought_back(self) -> None:
        legacy("POST", 0)
        with (
            between_count_and_write(lambda: Post(post_id="old").delete()),
            pytest.raises(ParentMissing, match="POST#old"),
        ):
            Post.like_tally.seed(old())
        assert items() == {}

    def test_a_delete_that_finds_its_parent_gone_while_it_seeds_is_done(self) -> None:
        legacy("POST", 0)
        with between_count_and_write(
            lambda: raw().delete_item(TableName="Town", Key={"PK": {"S": "POST#old"}, "SK": {"S": "META"}})
        ):
            Post(post_id="old").delete()
        assert items() == {}

    def test_a_parent_that_goes_and_comes_meanwhile_keeps_the_number_it_is_born_with(self) -> None:
        legacy("POST", 0)

        def replace() -> None:
            Post(post_id="old").delete()
            Post(post_id="old").save()
            old().likes.add(user_id="new")

        with between_count_and_write(replace):
            assert Post.like_tally.seed(old()) == 1

    def test_a_parent_that_is_being_deleted_is_not_seeded(self) -> None:
        Album(album_id="a").save()
        Album.ref(album_id="a").photos.add(photo_id="p")
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(None)  # closed
            injector.next_error("AccessDeniedException", "no")
            with pytest.raises(Exception, match="AccessDenied"):
                Album(album_id="a").delete()
        with pytest.raises(ParentMissing, match=r"ALBUM#a.*being deleted"):
            Album.photo_tally.seed(Album.ref(album_id="a"))
        assert number("ALBUM#a", "photoTally") is None

    @pytest.mark.parametrize("step", range(1, 5))
    def test_a_writer_that_dies_on_its_way_leaves_no_child_and_no_wrong_number(self, step: int) -> None:
        legacy("POST", 3)
        before = items()
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(*[None] * step)  # the refused write, the three requests of the seed
            injector.next_error("AccessDeniedException", "no")
            with pytest.raises(Exception, match="AccessDenied"):
                old().likes.add(user_id="new")
        assert number("POST#old", "likeTally") == ("3" if step == 4 else None)
        unseed("POST#old", "likeTally")
        assert items() == before

    def test_a_lost_answer_while_a_writer_seeds_counts_its_like_once(self, waits: list[float], sent: Sent) -> None:
        for step in range(5):  # the refused write, the three requests of the seed, the write
            legacy("POST", 3)
            with FaultInjector(connection_for(Meta).client) as injector:
                injector.next(*[None] * step, Fault.LOST_RESPONSE)
                assert old().likes.add(user_id="new") is True
                assert injector.pending == 0
            assert number("POST#old", "likeTally") == "4"
            old().likes.discard(user_id="new")


@pytest.mark.usefixtures("marks_from_0")
class TestDefer:
    """Children of an unseeded parent are written uncounted, and the parent is marked."""

    def test_a_like_of_an_unseeded_post_marks_it_and_counts_nothing(self, sent: Sent) -> None:
        legacy("EARLY", 2)
        assert early().likes.add(user_id="new") is True
        assert operations(sent) == ["TransactWriteItems"] * 2  # nothing is counted on the way, whatever the limit
        assert (number("EARLY#old", "likeTally"), number("EARLY#old", "likeTallyPending")) == (None, "1")
        assert item("EARLY#old", "LIKE#USER#new") is not None

    def test_the_answers_are_those_of_a_counted_write(self) -> None:
        legacy("EARLY", 1)
        assert [early().likes.add(user_id="000"), early().likes.add(user_id="a"), early().likes.add(user_id="a")] == [
            False,
            True,
            False,
        ]
        assert [early().likes.discard(user_id="000"), early().likes.discard(user_id="000")] == [True, False]
        assert number("EARLY#old", "likeTallyPending") == "2"  # the answers False marked nothing

    def test_once_it_is_seeded_it_is_counted(self, waits: list[float], sent: Sent) -> None:
        legacy("EARLY", 2)
        early().likes.add(user_id="a")
        assert Early.like_tally.seed(early()) == 3
        sent.clear()
        assert early().likes.add(user_id="b") is True
        assert operations(sent) == ["TransactWriteItems"]
        assert (number("EARLY#old", "likeTally"), number("EARLY#old", "likeTallyPending")) == ("4", "1")

    def test_the_seeder_waits_where_a_mark_is_and_only_there(self, waits: list[float]) -> None:
        legacy("EARLY", 2)
        assert Later.like_tally.seed(Later.ref(post_id="old")) == 2
        assert waits == []
        unseed("EARLY#old", "likeTally")
        early().likes.add(user_id="a")
        assert Later.like_tally.seed(Later.ref(post_id="old")) == 3
        assert waits == [3]  # as the counter's settle says

    def test_a_count_that_a_deferred_write_overtook_is_made_again(self, waits: list[float]) -> None:
        legacy("EARLY", 3)
        with between_count_and_write(lambda: early().likes.add(user_id="new")):
            assert Early.like_tally.seed(early()) == 4
        assert number("EARLY#old", "likeTally") == "4"

    def test_a_post_that_is_seeded_between_two_tries_is_counted(self) -> None:
        legacy("EARLY", 3)
        with right_before(b"likeTallyPending", lambda: Later.like_tally.seed(Later.ref(post_id="old"))):
            assert early().likes.add(user_id="new") is True
        assert (number("EARLY#old", "likeTally"), number("EARLY#old", "likeTallyPending")) == ("4", None)

    def test_code_that_seeds_can_run_beside_it(self, waits: list[float]) -> None:
        legacy("EARLY", 2)
        early().likes.add(user_id="a")
        assert Later.ref(post_id="old").likes.add(user_id="b")
        assert early().likes.discard(user_id="000")
        assert number("EARLY#old", "likeTally") == "3"

    def test_a_new_post_is_born_unseeded_since_old_code_may_like_it(self, waits: list[float]) -> None:
        Early(post_id="old").save()
        put("EARLY#old", "LIKE#USER#by-old-code")
        assert Early.like_tally.value(early()) is None
        assert Early.like_tally.seed(early()) == 1

    def test_a_like_of_a_missing_post_creates_nothing(self) -> None:
        with pytest.raises(ParentMissing):
            Early.ref(post_id="gone").likes.add(user_id="u")
        assert items() == {}

    def test_a_transaction_marks_its_post_once(self, sent: Sent) -> None:
        legacy("EARLY", 0)
        with transaction() as tx:
            for user in "abc":
                tx.save(EarlyLike(post_id="old", user_id=user))
        assert len(sent[-1][1]["TransactItems"]) == 4
        assert number("EARLY#old", "likeTallyPending") == "1"

    @pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.MIXED])
    def test_a_fault_at_any_step_changes_no_answer(self, fault: Fault, waits: list[float]) -> None:
        for step in range(2):
            legacy("EARLY", 3)
            with FaultInjector(connection_for(Meta).client) as injector:
                injector.next(*[None] * step, fault)
                assert early().likes.add(user_id=f"{fault} {step}") is True
            assert number("EARLY#old", "likeTallyPending") == "1"


class TestForNothing:
    """A child that counts for nothing needs no parent, and no number."""

    def test_it_comes_and_goes_without_the_parent(self, sent: Sent) -> None:
        Vote(poll_id="p", user_id="u").save()
        Vote.get(poll_id="p", user_id="u").delete()
        touched = [next(iter(a.values())) for _, r in sent for a in r.get("TransactItems", ())]
        assert {(write.get("Item") or write["Key"])["SK"]["S"] for write in touched} == {"VOTE#u"}
        assert items() == {}

    def test_it_is_left_out_of_the_count(self) -> None:
        put("POLL#p", "META")
        Vote(poll_id="p", user_id="u").save()
        put("POLL#p", "VOTE#old", valid={"BOOL": True})
        put("POLL#p", "VOTE#older")
        assert number("POLL#p", "voteTally") is None
        assert Poll.vote_tally.seed(Poll.ref(poll_id="p")) == 1

    def test_the_parent_is_counted_when_it_begins_to_count(self, sent: Sent) -> None:
        put("POLL#p", "META")
        put("POLL#p", "VOTE#old", valid={"BOOL": True})
        Vote(poll_id="p", user_id="u").save()
        vote = Vote.get(poll_id="p", user_id="u")
        vote.valid = True
        sent.clear()
        vote.save()
        assert operations(sent) == ["TransactWriteItems", "GetItem", "Query", "UpdateItem", "TransactWriteItems"]
        assert number("POLL#p", "voteTally") == "2"


class TestUncounted:
    def test_children_written_uncounted_leave_their_parents_unseeded_and_named(self, waits: list[float]) -> None:
        Post(post_id="a").save()
        Post(post_id="b").save()
        with uncounted() as block:
            Like(post_id="a", user_id="u").save()
            Like(post_id="a", user_id="v").save()
        assert [str(key) for key in block.unseeded] == ["PK='POST#a' SK='META'"]
        assert (number("POST#a", "likeTally"), number("POST#b", "likeTally")) == (None, "0")
        assert Post.like_tally.seed(Post.ref(post_id="a")) == 2
        assert waits == [1.0]  # so that what was committed a moment ago can be seen

    def test_a_parent_that_is_missing_is_named_and_its_children_are_written(self) -> None:
        with uncounted() as block:
            Like(post_id="later", user_id="u").save()
            Like(post_id="later", user_id="v").save()
        assert [str(key) for key in block.missing] == ["PK='POST#later' SK='META'"]
        assert not block.unseeded
        assert len(items("POST#later")) == 2

    def test_a_parent_that_comes_after_its_children_is_counted(self, waits: list[float]) -> None:
        with uncounted():
            Like(post_id="later", user_id="u").save()
            Post(post_id="later").save()
        assert number("POST#later", "likeTally") is None
        Post.ref(post_id="later").likes.add(user_id="v")
        assert number("POST#later", "likeTally") == "2"

    def test_outside_the_block_children_are_counted_again(self, waits: list[float]) -> None:
        Post(post_id="a").save()
        with uncounted():
            Like(post_id="a", user_id="u").save()
        Post.ref(post_id="a").likes.discard(user_id="u")
        assert number("POST#a", "likeTally") == "0"

    def test_a_count_that_an_uncounted_write_overtook_is_made_again(self, waits: list[float]) -> None:
        legacy("POST", 3)

        def backfill() -> None:
            with uncounted():
                Like(post_id="old", user_id="new").save()

        with between_count_and_write(backfill):
            assert Post.like_tally.seed(old()) == 4

    def test_a_delete_and_an_edit_are_uncounted_too(self, waits: list[float]) -> None:
        Product(product_id="p").save()
        for index in (1, 2):
            Review(product_id="p", number=index, stars=2).save()
        review = Review.get(product_id="p", number=1)
        review.stars = 5
        with uncounted():
            review.save()
        assert [number("PRODUCT#p", name) for name in ("reviewTally", "count", "star-sum")] == ["2", "2", None]
        with uncounted():
            Review(product_id="p", number=2).delete()
        assert number("PRODUCT#p", "reviewTally") is None
        product = Product.ref(product_id="p")
        assert [Product.review_tally.seed(product), Product.star_tally.seed(product)] == [1, 5]

    @pytest.mark.usefixtures("marks_from_0")
    def test_a_transaction_within_the_block_takes_the_number_away_once(self, sent: Sent) -> None:
        Post(post_id="a").save()
        with uncounted(), transaction() as tx:
            tx.save(Like(post_id="a", user_id="u"))
            tx.save(Like(post_id="a", user_id="v"))
        assert len(sent[-1][1]["TransactItems"]) == 3
        assert (number("POST#a", "likeTally"), number("POST#a", "likeTallyPending")) == (None, "1")

    def test_a_seeder_that_slept_does_not_take_the_next_parent_of_a_key_for_its_own(self, waits: list[float]) -> None:
        post = Post.ref(post_id="a")
        Post(post_id="a").save()
        put("POST#a", "LIKE#USER#z")
        with uncounted():
            post.likes.add(user_id="x")

        def another_life() -> None:
            assert Post.like_tally.seed(post) == 2
            for user in "xz":
                post.likes.remove(user_id=user)
            Post.get(post_id="a").delete()
            Post(post_id="a").save()
            with uncounted():  # as many uncounted writes as the seeder saw
                post.likes.add(user_id="b")

        with between_count_and_write(another_life):
            assert Post.like_tally.seed(post) == 1
        assert number("POST#a", "likeTally") == "1"

    def test_a_child_that_is_there_already_is_refused_as_ever(self) -> None:
        Post(post_id="a").save()
        Like(post_id="a", user_id="u").save()
        with pytest.raises(AlreadyCounted), uncounted():
            Like(post_id="a", user_id="u").save()
        assert number("POST#a", "likeTally") == "1"

    def test_the_block_ends_with_an_exception_too_and_blocks_can_be_nested(self, waits: list[float]) -> None:
        Post(post_id="a").save()
        with uncounted() as outer:
            with pytest.raises(KeyError), uncounted() as inner:
                raise KeyError
            Like(post_id="a", user_id="u").save()
        assert (len(outer.unseeded), len(inner.unseeded)) == (1, 0)
        Like(post_id="a", user_id="v").save()
        assert number("POST#a", "likeTally") == "2"

    def test_a_thread_that_is_started_within_it_counts(self) -> None:
        Post(post_id="a").save()
        with uncounted():
            thread = threading.Thread(target=Like(post_id="a", user_id="u").save)
            thread.start()
            thread.join()
        assert number("POST#a", "likeTally") == "1"

    def test_an_album_that_is_being_deleted_takes_no_photo(self) -> None:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        with pytest.raises(ParentMissing), uncounted():
            Album.ref(album_id="a").photos.add(photo_id="p")
        assert len(items("ALBUM#a")) == 1


class TestReading:
    def test_many_tallies_take_few_requests(self, sent: Sent) -> None:
        client = raw()
        for start in range(0, 150, 25):
            puts = [
                {"PutRequest": {"Item": {"PK": {"S": f"POST#{i}"}, "SK": {"S": "META"}, "likeTally": {"N": str(i)}}}}
                for i in range(start, start + 25)
            ]
            client.batch_write_item(RequestItems={"Town": puts})
        unseed("POST#7", "likeTally")
        refs = [Post.ref(post_id=str(i)) for i in range(150)] + [Post.ref(post_id="gone")]
        sent.clear()
        found = Post.like_tally.values(refs)
        assert [operation for operation, _ in sent] == ["BatchGetItem"] * 2
        assert found == {ref: None if i == 7 else i for i, ref in enumerate(refs[:150])}

    def test_no_refs_take_no_request(self, sent: Sent) -> None:
        assert Post.like_tally.values([]) == {}
        assert sent == []

    def test_one_ref_twice_is_asked_once(self) -> None:
        Post(post_id="a").save()
        assert Post.like_tally.values([Post.ref(post_id="a")] * 2) == {Post.ref(post_id="a"): 0}

    def test_keys_that_a_throttled_table_leaves_are_asked_for_again(self, sent: Sent, waits: list[float]) -> None:
        for name in "abc":
            Post(post_id=name).save()

        def throttled(parsed: dict[str, Any], **_: Any) -> None:
            left = parsed["Responses"]["Town"][1:]
            parsed["Responses"]["Town"] = parsed["Responses"]["Town"][:1]
            if left:
                keys = [{name: found[name] for name in ("PK", "SK")} for found in left]
                parsed["UnprocessedKeys"] = {"Town": {"Keys": keys}}

        events = connection_for(Meta).client.meta.events
        events.register("after-call.dynamodb.BatchGetItem", throttled)
        sent.clear()
        try:
            found = Post.like_tally.values(Post.ref(post_id=name) for name in "abc")
        finally:
            events.unregister("after-call.dynamodb.BatchGetItem", throttled)
        assert found == {Post.ref(post_id=name): 0 for name in "abc"}
        assert [len(request["RequestItems"]["Town"]["Keys"]) for _, request in sent] == [3, 2, 1]
        assert len(waits) == 2

    @pytest.mark.parametrize("consistent", [False, True])
    def test_only_the_number_is_read_and_consistently_where_asked(self, sent: Sent, consistent: bool) -> None:
        Post(post_id="a", body="long").save()
        ref = Post.ref(post_id="a")
        sent.clear()
        assert Post.like_tally.value(ref, consistent_read=consistent) == 0
        assert Post.like_tally.values([ref], consistent_read=consistent) == {ref: 0}
        reads = [sent[0][1], sent[1][1]["RequestItems"]["Town"]]
        assert [read["ConsistentRead"] for read in reads] == [consistent] * 2
        assert all("body" not in str(read) and "likeTally" in str(read) for read in reads)

    def test_a_missing_parent_has_no_value(self) -> None:
        with pytest.raises(ParentMissing, match="POST#gone"):
            Post.like_tally.value(Post.ref(post_id="gone"))

    def test_a_number_stored_as_a_string_is_named(self) -> None:
        put("POST#old", "META", likeTally={"S": "5"})
        for read in (Post.like_tally.value, lambda ref: Post.like_tally.values([ref])):
            with pytest.raises(CounterTypeError, match="POST#old"):
                read(old())

    @pytest.mark.parametrize("verb", ["value", "seed", "repair"])
    def test_the_ref_of_another_model_is_refused_before_anything_is_sent(self, verb: str, sent: Sent) -> None:
        put("PRODUCT#p", "META", likeTally={"N": "4"})
        with pytest.raises((TypeError, ValueError)):
            getattr(Post.like_tally, verb)(Product.ref(product_id="p"))
        assert sent == []
        assert item("PRODUCT#p", "META") == {"likeTally": {"N": "4"}}


class TestOneNumberOfSeveralModels:
    @staticmethod
    def zine(readers: int, *shops: int) -> Any:
        put("ZINE#z", "META")
        for index in range(readers):
            put("ZINE#z", f"READER#{index}")
        for index, copies in enumerate(shops):
            put("ZINE#z", f"READER#SHOP#{index}", copies={"N": str(copies)})
        return Zine.ref(zine_id="z")

    def test_each_child_is_counted_once_by_its_own_rule(self) -> None:
        zine = self.zine(2, 5, 10)
        assert Zine.copy_tally.seed(zine) == zine.readers.recount() == 17

    def test_a_child_of_either_seeds_both(self) -> None:
        self.zine(1, 5)
        Shop.get(zine_id="z", name="0").delete()
        assert number("ZINE#z", "copyTally") == "1"

    @pytest.mark.parametrize(("readers", "shops"), [(4, ()), (2, (1, 1)), (0, (1, 1, 1, 1))])
    def test_the_limit_is_one_for_all_of_them(self, readers: int, shops: tuple[int, ...]) -> None:
        zine = self.zine(readers, *shops)
        with pytest.raises(CounterNotSeeded, match="lazy_seed_limit=3"):
            zine.readers.add(name="new")
        assert number("ZINE#z", "copyTally") is None

    def test_the_limit_is_one_of_children_and_not_of_what_they_count_for(self) -> None:
        assert self.zine(0, 100, 200, 300).readers.add(name="new")
        assert number("ZINE#z", "copyTally") == "601"


class TestTablesOfTheirOwn:
    def test_children_in_another_table_are_found_by_its_key(self, tables: Callable[..., None]) -> None:
        tables(Place, Visit)
        raw().put_item(TableName="Places", Item={"place_id": {"S": "p"}})
        for place, day in (("p", "1"), ("p", "2"), ("q", "1")):
            raw().put_item(TableName="Visits", Item={"place": {"S": place}, "day": {"N": day}})
        place = Place.ref(place_id="p")
        with record_requests(connection_for(Place.Meta).client) as sent:
            assert place.visits.add(day=3) is True
        (query,) = [request for operation, request in sent if operation == "Query"]
        assert (query["TableName"], query["Select"], query["ConsistentRead"]) == ("Visits", "COUNT", True)
        assert Place.visit_tally.value(place) == 3
