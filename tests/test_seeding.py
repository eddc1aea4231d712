"""A parent without a tally is counted once, exactly, by whoever needs it first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

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
from pynacount.errors import CounterNotSeeded, CounterTypeError, ParentMissing
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Like, Meta, Post, Product, Review, User, item, items, number, put, raw, unseed

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


class Shared(CountedModel):
    """A parent whose partition holds children of two models, one's prefix being the other's beginning."""

    Meta = Meta
    pk = KeyAttribute("SHARED#{shared_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    note_tally = CounterField(attr_name="noteTally")
    notes: CountedSet[Any] = CountedSet("Note", tally="note_tally")


class Note(CountedModel):
    Meta = Meta
    pk = KeyAttribute("SHARED#{shared_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("NOTE#{number:int}", range_key=True, attr_name="SK")
    shared = CountedIn(Shared.note_tally)


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

    def test_who_loses_the_race_takes_the_winners_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The winner seeds between the loser's count and its write, and a like comes right after."""
        legacy("POST", 3)
        raced = []

        def winner(request: Any, **_: Any) -> None:
            if not raced and b"SET likeTally" in request.body:
                raced.append(True)
                Post.like_tally.seed(old())
                old().likes.add(user_id="new")

        client = connection_for(Post.Meta).client
        client.meta.events.register_first("before-send.dynamodb.UpdateItem", winner, "race")
        try:
            assert Post.like_tally.seed(old()) == 4
        finally:
            client.meta.events.unregister("before-send.dynamodb.UpdateItem", winner, "race")
        assert number("POST#old", "likeTally") == "4"


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
        raced = []

        def backfill(request: Any, **_: Any) -> None:
            if not raced and b"SET likeTally" in request.body:
                raced.append(True)
                with uncounted():
                    Like(post_id="old", user_id="new").save()

        client = connection_for(Post.Meta).client
        client.meta.events.register_first("before-send.dynamodb.UpdateItem", backfill, "race")
        try:
            assert Post.like_tally.seed(old()) == 4
        finally:
            client.meta.events.unregister("before-send.dynamodb.UpdateItem", backfill, "race")


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
