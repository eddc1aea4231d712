"""Children come, go, change and move; their parents' numbers follow, whatever is asked twice or at the wrong time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pynamodb.attributes import (
    BooleanAttribute,
    DiscriminatorAttribute,
    NumberAttribute,
    UnicodeAttribute,
    VersionAttribute,
)
from pynamodb.exceptions import DeleteError, PutError
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterTypeError,
    DeclarationError,
    KeyTemplateError,
    NotCounted,
    ParentMissing,
    ParentNotEmpty,
    PynacountError,
    UncountedWrite,
)
from pynacount.testing import create_tables, record_requests
from social import ALL, Like, Meta, Post, Product, Review, User, before, item, items, number, put, raw, unseed

Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> Iterator[None]:
    """A post, two products and two users; at the end every tally is its count."""
    tables(*ALL)
    Post(post_id="a91f").save()
    for name in ("p", "q"):
        Product(product_id=name).save()
    for name in ("ada", "bob"):
        User(user_id=name).save()
    yield
    check()


@pytest.fixture
def sent() -> Iterator[Sent]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


def post() -> Any:
    return Post.ref(post_id="a91f")


def product(name: str = "p") -> Any:
    return Product.ref(product_id=name)


def numbers(name: str = "p") -> tuple[Any, Any, Any]:
    """Reviews, reviews shown, stars."""
    loaded = Product.get(product_id=name, consistent_read=True)
    return loaded.review_tally, loaded.shown_tally, loaded.star_tally


def check() -> None:
    """Count everything by hand, and by the library, and compare."""
    table = items()
    for (pk, sk), parent in table.items():
        if sk != "META":
            continue
        children = [child for (other, key), child in table.items() if other == pk and key != "META"]
        if pk.startswith("POST#") and "N" in parent.get("likeTally", {}):
            assert int(parent["likeTally"]["N"]) == len(children) == Post.ref(pk, sk).likes.recount(), pk
        if pk.startswith("PRODUCT#"):
            shown = [child for child in children if not child["hidden"]["BOOL"]]
            stars = sum(Decimal(child["stars"]["N"]) for child in children if "stars" in child)
            assert int(parent["reviewTally"]["N"]) == len(children), pk
            assert int(parent["count"]["N"]) == len(shown), pk
            assert Decimal(parent["star-sum"]["N"]) == stars, pk
            ref = Product.ref(pk, sk)
            recounts = ref.reviews.recount(), ref.shown.recount(), ref.starred.recount()
            assert recounts == (len(children), len(shown), stars), pk
        if pk.startswith("USER#"):
            given = [c for c in table.values() if c.get("authorId", {}).get("S") == pk.removeprefix("USER#")]
            assert int(parent["givenTally"]["N"]) == len(given), pk


class TestLikes:
    def test_a_like_is_stored_and_counted(self) -> None:
        assert post().likes.add(user_id="7c20", liked_at=1750636800) is True
        assert item("POST#a91f", "LIKE#USER#7c20") == {"likedAt": {"N": "1750636800"}}
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_double_click_counts_once_and_keeps_the_first_like(self) -> None:
        post().likes.add(user_id="7c20", liked_at=1)
        assert post().likes.add(user_id="7c20", liked_at=2) is False
        assert item("POST#a91f", "LIKE#USER#7c20") == {"likedAt": {"N": "1"}}
        assert number("POST#a91f", "likeTally") == "1"

    def test_an_unlike_is_taken_out_once(self) -> None:
        post().likes.add(user_id="7c20")
        assert post().likes.discard(user_id="7c20") is True
        assert post().likes.discard(user_id="7c20") is False
        assert item("POST#a91f", "LIKE#USER#7c20") is None
        assert number("POST#a91f", "likeTally") == "0"

    def test_remove_says_what_was_not_there(self) -> None:
        with pytest.raises(NotCounted, match=r"Like PK='POST#a91f' SK='LIKE#USER#7c20' is not there"):
            post().likes.remove(user_id="7c20")
        post().likes.add(user_id="7c20")
        post().likes.remove(user_id="7c20")
        assert number("POST#a91f", "likeTally") == "0"

    def test_a_like_can_come_back(self) -> None:
        for _ in range(3):
            assert post().likes.add(user_id="7c20")
            assert post().likes.discard(user_id="7c20")
        assert number("POST#a91f", "likeTally") == "0"

    def test_the_set_is_asked_like_a_set(self) -> None:
        for user in ("b", "a", "c"):
            post().likes.add(user_id=user, liked_at=1)
        assert [like.user_id for like in post().likes] == ["a", "b", "c"]
        assert post().likes.contains(user_id="a") and not post().likes.contains(user_id="d")
        assert post().likes.recount() == 3

    def test_the_number_on_a_loaded_post_follows_its_own_set(self) -> None:
        loaded = Post.get(post_id="a91f")
        loaded.likes.add(user_id="u")
        loaded.likes.add(user_id="u")
        loaded.likes.add(user_id="v")
        loaded.likes.discard(user_id="u")
        assert loaded.like_tally == 1

    def test_a_child_saves_and_deletes_itself_as_the_set_does(self) -> None:
        like = Like(post_id="a91f", user_id="7c20")
        like.save()
        assert number("POST#a91f", "likeTally") == "1"
        like.delete()
        assert number("POST#a91f", "likeTally") == "0"
        like.save()
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_new_child_that_exists_is_refused_and_told_how_to_edit(self) -> None:
        Like(post_id="a91f", user_id="7c20").save()
        with pytest.raises(AlreadyCounted, match=r"was counted when it was created.*get\(\) it"):
            Like(post_id="a91f", user_id="7c20").save()

    def test_a_child_that_is_not_there_cannot_be_deleted(self) -> None:
        with pytest.raises(NotCounted):
            Like(post_id="a91f", user_id="7c20").delete()

    def test_two_who_loaded_one_like_take_it_out_once(self) -> None:
        post().likes.add(user_id="7c20")
        one, other = (Like.get(post_id="a91f", user_id="7c20") for _ in range(2))
        one.delete()
        with pytest.raises(NotCounted):
            other.delete()
        assert number("POST#a91f", "likeTally") == "0"

    def test_an_edit_of_a_like_does_not_touch_its_post(self, sent: Sent) -> None:
        post().likes.add(user_id="7c20", liked_at=1)
        like = Like.get(post_id="a91f", user_id="7c20")
        like.liked_at = 2
        sent.clear()
        like.save()
        assert [operation for operation, _ in sent] == ["UpdateItem"]
        assert item("POST#a91f", "LIKE#USER#7c20") == {"likedAt": {"N": "2"}}

    def test_a_save_that_changes_nothing_sends_nothing(self, sent: Sent) -> None:
        post().likes.add(user_id="7c20")
        like = Like.get(post_id="a91f", user_id="7c20")
        sent.clear()
        like.save()
        assert sent == []

    def test_an_edit_of_a_like_that_was_taken_back_does_not_bring_it_back(self) -> None:
        post().likes.add(user_id="7c20")
        like = Like.get(post_id="a91f", user_id="7c20")
        post().likes.discard(user_id="7c20")
        like.liked_at = 5
        with pytest.raises(NotCounted, match="was deleted since it was loaded"):
            like.save()
        assert item("POST#a91f", "LIKE#USER#7c20") is None

    def test_a_set_takes_no_child_of_another_parent(self) -> None:
        with pytest.raises(KeyTemplateError, match=r"post_id='other' is not the parent's"):
            post().likes.add(post_id="other", user_id="u")


class TestParentMissing:
    @pytest.mark.parametrize("verb", ["add", "save"])
    def test_a_like_of_a_post_that_never_was_creates_nothing(self, verb: str) -> None:
        before = items()
        with pytest.raises(ParentMissing, match=r"Post\.like_tally: the parent PK='POST#gone' SK='META'"):
            if verb == "add":
                Post.ref(post_id="gone").likes.add(user_id="u")
            else:
                Like(post_id="gone", user_id="u").save()
        assert items() == before

    def test_a_like_of_a_deleted_post_creates_nothing(self) -> None:
        Post.get(post_id="a91f").delete()
        with pytest.raises(ParentMissing):
            post().likes.add(user_id="u")
        assert items("POST#") == {}

    def test_a_like_whose_post_is_gone_can_be_taken_away(self) -> None:
        put("POST#orphan", "LIKE#USER#u")
        assert Post.ref(post_id="orphan").likes.discard(user_id="u") is True
        assert Post.ref(post_id="orphan").likes.discard(user_id="u") is False
        assert items("POST#orphan") == {}

    def test_one_missing_parent_of_two_sinks_the_whole(self) -> None:
        before = items()
        with pytest.raises(ParentMissing, match="USER#nobody"):
            product().reviews.add(number=1, author_id="nobody")
        assert items() == before

    def test_counting_or_reading_a_missing_post_is_an_error_and_not_nothing(self) -> None:
        for ask in (Post.ref(post_id="gone").likes.recount, lambda: Post.like_tally.value(Post.ref(post_id="gone"))):
            with pytest.raises(ParentMissing):
                ask()
        assert Post.like_tally.values([Post.ref(post_id="gone"), post()]) == {post(): 0}


class TestContributions:
    def test_one_review_moves_three_numbers_of_one_item_in_one_update(self, sent: Sent) -> None:
        product().reviews.add(number=1, author_id="ada", stars=4)
        (operation, request), *rest = sent
        assert (operation, rest) == ("TransactWriteItems", [])
        writes = [
            (kind, body.get("Key", body.get("Item"))["PK"]["S"])
            for a in request["TransactItems"]
            for kind, body in a.items()
        ]
        assert writes == [("Put", "PRODUCT#p"), ("Update", "PRODUCT#p"), ("Update", "USER#ada")]
        assert numbers() == (1, 1, 4)

    def test_a_review_without_stars_counts_for_no_stars(self) -> None:
        product().reviews.add(number=1)
        assert numbers() == (1, 1, 0)

    def test_a_hidden_review_counts_where_hidden_ones_do(self) -> None:
        product().reviews.add(number=1, hidden=True, stars=3)
        assert numbers() == (1, 0, 3)

    def test_hiding_and_showing_again_moves_one_number(self) -> None:
        product().reviews.add(number=1, stars=3)
        review = Review.get(product_id="p", number=1)
        for hidden in (True, False, True):
            review.hidden = hidden
            review.save()
            assert numbers() == (1, 0 if hidden else 1, 3)

    def test_an_edit_of_stars_moves_the_difference(self) -> None:
        product().reviews.add(number=1, stars=3)
        product().reviews.add(number=2, stars=1)
        review = Review.get(product_id="p", number=1)
        review.stars = 5
        review.save()
        review.stars = None
        review.save()
        assert numbers() == (2, 2, 1)

    @pytest.mark.parametrize(
        ("stars", "total"), [(-3, -3), (2.5, Decimal("2.5")), (10**20, 10**20), (0.1, Decimal("0.1"))]
    )
    def test_amounts_may_be_negative_fractional_and_large(self, stars: Any, total: Any) -> None:
        product().reviews.add(number=1, stars=stars)
        assert numbers()[2] == total
        product().reviews.discard(number=1)
        assert numbers() == (0, 0, 0)

    @pytest.mark.real_engine  # moto rounds
    def test_a_sum_that_no_number_can_hold_is_refused_and_writes_nothing(self) -> None:
        product().reviews.add(number=1, stars=10**37)
        before = items()
        with pytest.raises(PynacountError, match="38 digits"):
            product().reviews.add(number=2, stars=0.1)
        assert items() == before

    def test_a_review_read_in_part_counts_as_the_whole_does(self) -> None:
        product().reviews.add(number=1, stars=3, hidden=True, author_id="ada")

        def part() -> Any:
            (found,) = Review.query("PRODUCT#p", Review.sk.startswith("REVIEW#"), attributes_to_get=["PK", "SK"])
            return found

        review = part()
        review.stars = 5
        review.save()
        assert numbers() == (1, 0, 5)
        review = part()
        review.author_id = "bob"
        review.save()
        assert (User.get(user_id="ada").given_tally, User.get(user_id="bob").given_tally) == (0, 1)
        part().delete()
        assert numbers() == (0, 0, 0)

    def test_a_review_found_by_an_index_is_edited_from_how_it_is(self) -> None:
        product().reviews.add(number=1, stars=3, author_id="ada")
        (review,) = Review.by_author.query("ada")
        review.author_id, review.stars = "bob", 1
        review.save()
        assert numbers() == (1, 1, 1)
        (review,) = Review.by_author.query("bob")
        review.delete()
        assert numbers() == (0, 0, 0)

    def test_a_review_from_before_its_attributes_counts_by_their_defaults(self) -> None:
        put("PRODUCT#p", "REVIEW#7", stars={"NULL": True})
        unseed("PRODUCT#p", "reviewTally", "count", "star-sum")
        assert product().reviews.add(number=8)
        assert Product.star_tally.seed(product()) == 0
        assert numbers() == (2, 2, 0)
        old = Review.get(product_id="p", number=7)
        for hidden, stars, shown in ((True, None, (2, 1, 0)), (True, 4, (2, 1, 4)), (False, 4, (2, 2, 4))):
            old.hidden, old.stars = hidden, stars
            old.save()
            assert numbers() == shown

    def test_an_edit_of_what_is_not_counted_touches_no_parent(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=3)
        review = Review.get(product_id="p", number=1)
        review.text = "good"
        sent.clear()
        review.save()
        assert [operation for operation, _ in sent] == ["UpdateItem"]

    def test_a_change_of_parent_moves_the_count(self) -> None:
        product().reviews.add(number=1, author_id="ada")
        review = Review.get(product_id="p", number=1)
        review.author_id = "bob"
        review.save()
        assert (User.get(user_id="ada").given_tally, User.get(user_id="bob").given_tally) == (0, 1)
        review.author_id = None
        review.save()
        assert (User.get(user_id="ada").given_tally, User.get(user_id="bob").given_tally) == (0, 0)

    def test_a_change_to_a_parent_that_is_missing_changes_nothing(self) -> None:
        product().reviews.add(number=1, author_id="ada")
        review = Review.get(product_id="p", number=1)
        review.author_id = "nobody"
        with pytest.raises(ParentMissing):
            review.save()
        assert User.get(user_id="ada").given_tally == 1

    def test_a_stale_edit_counts_from_how_the_review_is_now(self) -> None:
        product().reviews.add(number=1, stars=3)
        mine, theirs = (Review.get(product_id="p", number=1) for _ in range(2))
        theirs.stars = 5
        theirs.save()
        mine.stars = 1
        mine.save()
        assert numbers()[2] == 1

    def test_a_stale_edit_of_something_else_keeps_what_others_changed(self) -> None:
        product().reviews.add(number=1, stars=3)
        mine, theirs = (Review.get(product_id="p", number=1) for _ in range(2))
        theirs.stars = 5
        theirs.save()
        mine.hidden = True
        mine.save()
        assert numbers() == (1, 0, 5)

    def test_a_stale_delete_takes_out_what_the_review_counts_for_now(self) -> None:
        product().reviews.add(number=1, stars=3, author_id="ada")
        mine, theirs = (Review.get(product_id="p", number=1) for _ in range(2))
        theirs.stars, theirs.hidden, theirs.author_id = 5, True, "bob"
        theirs.save()
        mine.delete()
        assert numbers() == (0, 0, 0)

    def test_a_review_that_was_not_loaded_is_read_before_it_is_taken_out(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=3)
        sent.clear()
        assert product().reviews.discard(number=1)
        assert [operation for operation, _ in sent] == ["GetItem", "TransactWriteItems"]
        assert numbers() == (0, 0, 0)

    def test_an_amount_of_zero_writes_nothing_on_the_parent(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=0)
        ((_, request),) = sent
        update = request["TransactItems"][1]["Update"]
        assert "star-sum" not in update.get("ExpressionAttributeNames", {}).values()
        review = Review.get(product_id="p", number=1)
        sent.clear()
        for stars in (None, 0, 0.0):  # all of them count for nothing
            review.stars = stars
            review.save()
        assert {operation for operation, _ in sent} == {"UpdateItem"}
        assert {request["Key"]["SK"]["S"] for _, request in sent} == {"REVIEW#1"}
        assert numbers() == (1, 1, 0)

    def test_one_edit_moves_everything_that_it_changes_at_once(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=3, author_id="ada")
        review = Review.get(product_id="p", number=1)
        review.stars, review.hidden, review.author_id = 5, True, "bob"
        sent.clear()
        review.save()
        ((_, request),) = sent
        keys = [next(iter(action.values()))["Key"]["PK"]["S"] for action in request["TransactItems"]]
        assert sorted(keys) == ["PRODUCT#p", "PRODUCT#p", "USER#ada", "USER#bob"]
        assert numbers() == (1, 0, 5)

    def test_two_products_do_not_meet(self) -> None:
        product("p").reviews.add(number=1, stars=1)
        product("q").reviews.add(number=1, stars=2)
        assert (numbers("p"), numbers("q")) == ((1, 1, 1), (1, 1, 2))


class TestMeanwhile:
    """Somebody else changes the child between the look at it and the write."""

    @pytest.fixture
    def review(self) -> Any:
        product().reviews.add(number=1, stars=3, author_id="ada")
        return Review.get(product_id="p", number=1)

    def change(self, **values: Any) -> Callable[[], None]:
        def act() -> None:
            theirs = Review.get(product_id="p", number=1)
            for name, value in values.items():
                setattr(theirs, name, value)
            theirs.save()

        return act

    def test_an_edit_is_guarded_by_what_was_read_and_planned_anew(self, review: Any, sent: Sent) -> None:
        review.stars = 1
        with before("TransactWriteItems", self.change(stars=5)):
            sent.clear()
            review.save()
        mine = [
            action["Update"]
            for _, request in sent
            for action in request.get("TransactItems", ())
            if action["Update"]["Key"]["SK"]["S"] == "REVIEW#1"
        ]
        _, refused, landed = mine  # the first is theirs
        old = [{"N": "3"}, {"N": "5"}]
        for update, stars in zip((refused, landed), old, strict=True):
            assert stars in update["ExpressionAttributeValues"].values()
            assert "stars = :" in update["ConditionExpression"]
        assert numbers() == (1, 1, 1)

    def test_two_edits_to_one_value_count_once(self, review: Any) -> None:
        review.stars = 5
        with before("TransactWriteItems", self.change(stars=5)):
            review.save()
        assert numbers() == (1, 1, 5)

    @pytest.mark.parametrize(
        ("mine", "given"), [({"author_id": None}, (0, 0)), ({"author_id": "bob"}, (0, 1)), ({"stars": 1}, (0, 1))]
    )
    def test_a_review_that_moves_under_an_edit_has_one_author_or_none(
        self, review: Any, mine: dict[str, Any], given: tuple[int, int]
    ) -> None:
        for name, value in mine.items():
            setattr(review, name, value)
        with before("TransactWriteItems", self.change(author_id="bob")):
            review.save()
        assert (User.get(user_id="ada").given_tally, User.get(user_id="bob").given_tally) == given

    def test_a_discard_takes_out_what_the_review_counts_for_at_last(self, review: Any) -> None:
        with before("TransactWriteItems", self.change(stars=5, hidden=True, author_id="bob")):
            assert product().reviews.discard(number=1) is True
        assert numbers() == (0, 0, 0)

    def test_two_discards_take_out_one(self, review: Any) -> None:
        with before("TransactWriteItems", lambda: product().reviews.remove(number=1)):
            assert product().reviews.discard(number=1) is False
        assert numbers() == (0, 0, 0)

    def test_a_review_that_went_and_came_again_is_taken_out_as_it_came(self, review: Any) -> None:
        def again() -> None:
            product().reviews.remove(number=1)
            product().reviews.add(number=1, stars=1, hidden=True)

        with before("TransactWriteItems", again):
            review.delete()
        assert numbers() == (0, 0, 0)

    def test_an_edit_of_what_is_just_deleted_does_not_bring_it_back(self, review: Any) -> None:
        review.stars = 5
        with (
            before("TransactWriteItems", lambda: product().reviews.remove(number=1)),
            pytest.raises(NotCounted, match="was deleted since it was loaded"),
        ):
            review.save()
        assert numbers() == (0, 0, 0)

    def test_two_adds_add_one(self) -> None:
        with before("TransactWriteItems", lambda: post().likes.add(user_id="u")):
            assert post().likes.add(user_id="u") is False
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_like_of_a_post_that_is_just_deleted_creates_nothing(self) -> None:
        with (
            before("TransactWriteItems", Post.get(post_id="a91f").delete),
            pytest.raises(ParentMissing),
        ):
            post().likes.add(user_id="u")
        assert items("POST#") == {}

    def test_an_unlike_of_a_post_that_is_just_deleted_is_done(self) -> None:
        post().likes.add(user_id="u")

        def vanish() -> None:
            raw().delete_item(TableName="Town", Key={"PK": {"S": "POST#a91f"}, "SK": {"S": "META"}})

        with before("TransactWriteItems", vanish):
            assert post().likes.discard(user_id="u") is True
        assert items("POST#") == {}

    def test_a_move_away_from_a_user_who_is_just_deleted_is_done(self, review: Any) -> None:
        def vanish() -> None:
            raw().delete_item(TableName="Town", Key={"PK": {"S": "USER#ada"}, "SK": {"S": "META"}})

        review.author_id = "bob"
        with before("TransactWriteItems", vanish):
            review.save()
        assert User.get(user_id="bob").given_tally == 1
        assert item("USER#ada", "META") is None


class Poll(CountedModel):
    """Its numbers are named by words that DynamoDB reserves."""

    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    points = CounterField(attr_name="size", settle=0)
    valid = CounterField(attr_name="status", settle=0)
    weighed = CounterField(attr_name="values", settle=0)
    costs = CounterField(attr_name="order", settle=0)
    scored: CountedSet[Any] = CountedSet("Vote", tally="points")
    votes: CountedSet[Any] = CountedSet("Vote", tally="valid")
    heavy: CountedSet[Any] = CountedSet("Vote", tally="weighed")
    billed: CountedSet[Any] = CountedSet("Vote", tally="costs")


class Vote(CountedModel):
    """Counts two points; once while it is valid; by its weight while it is valid; and costs a quarter."""

    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    valid = BooleanAttribute(null=True)
    weight = NumberAttribute(null=True)
    share = NumberAttribute(null=True)
    in_points = CountedIn(Poll.points, amount=2)
    in_valid = CountedIn(Poll.valid, when="valid")
    in_weighed = CountedIn(
        Poll.weighed,
        when="valid",
        amount=lambda vote: None if vote.weight is None else Decimal(vote.weight) * Decimal(str(vote.share or 1)),
        reads=["weight", "share"],
    )
    in_costs = CountedIn(Poll.costs, amount=Decimal("-0.25"))


class TestVotes:
    """Every way to say what counts, and for how much."""

    @pytest.fixture(autouse=True)
    def poll(self) -> Iterator[Any]:
        Poll(poll_id="x").save()
        poll = Poll.ref(poll_id="x")
        yield poll
        now = self.numbers()
        recounts = poll.scored.recount(), poll.votes.recount(), poll.heavy.recount(), poll.billed.recount()
        assert now == recounts
        unseed("POLL#x", "size", "status", "values", "order")
        counters = (Poll.points, Poll.valid, Poll.weighed, Poll.costs)
        assert tuple(counter.seed(poll) for counter in counters) == now

    def numbers(self) -> tuple[Any, ...]:
        poll = Poll.get(poll_id="x", consistent_read=True)
        return poll.points, poll.valid, poll.weighed, poll.costs

    def test_each_counter_counts_by_its_own_rule(self, poll: Any) -> None:
        poll.votes.add(user_id="a", valid=True, weight=3)
        assert self.numbers() == (2, 1, 3, Decimal("-0.25"))
        poll.votes.add(user_id="b", valid=True, weight=3, share=0.1)
        poll.votes.add(user_id="c", valid=False, weight=7)
        assert self.numbers() == (6, 2, Decimal("3.3"), Decimal("-0.75"))
        poll.votes.add(user_id="d", valid=True, weight=-4)
        assert self.numbers() == (8, 3, Decimal("-0.7"), -1)

    def test_a_value_that_is_missing_does_not_count(self, poll: Any) -> None:
        poll.votes.add(user_id="a")
        poll.votes.add(user_id="b", valid=True)
        assert self.numbers() == (4, 1, 0, Decimal("-0.5"))

    def test_a_vote_that_was_taken_back_softly_can_be_restored(self, poll: Any) -> None:
        poll.votes.add(user_id="a", valid=True, weight=3)
        vote = Vote.get(poll_id="x", user_id="a")
        for valid, shown in ((False, (2, 0, 0)), (True, (2, 1, 3)), (None, (2, 0, 0)), (True, (2, 1, 3))):
            vote.valid = valid
            vote.save()
            assert self.numbers()[:3] == shown
        vote.delete()
        assert self.numbers() == (0, 0, 0, 0)

    def test_an_edit_of_any_value_that_a_callable_reads_moves_its_number(self, poll: Any) -> None:
        poll.votes.add(user_id="a", valid=True, weight=3)
        vote = Vote.get(poll_id="x", user_id="a")
        vote.share = 0.5
        vote.save()
        assert self.numbers()[2] == Decimal("1.5")
        vote.weight = None
        vote.save()
        assert self.numbers()[2] == 0

    def test_a_bad_number_from_a_callable_writes_nothing(self, poll: Any, sent: Sent) -> None:
        for bad in (float("nan"), float("inf"), 10**130):
            with pytest.raises(CounterTypeError, match=r"Vote\.in_weighed"):
                poll.votes.add(user_id="a", valid=True, weight=bad)
        assert sent == []

    def test_a_callable_that_fails_writes_nothing(self, poll: Any, sent: Sent) -> None:
        with pytest.raises(ArithmeticError):
            poll.votes.add(user_id="a", valid=True, weight="three")
        assert sent == []


class TestBadInput:
    """Refused before anything is sent."""

    @pytest.mark.parametrize("bad", ["", "a#b", "\ud800", 5, None, True, "x" * 2000])
    def test_a_bad_id_reaches_no_item(self, bad: Any, sent: Sent) -> None:
        for call in (post().likes.add, post().likes.discard, post().likes.remove, post().likes.contains):
            with pytest.raises(KeyTemplateError, match=r"user_id|bytes long"):
                call(user_id=bad)
        for call in (Post.ref, Post.get, Post):
            if bad != "x" * 2000 and not (bad is None and call is not Post.ref):
                with pytest.raises(KeyTemplateError, match="post_id"):
                    call(post_id=bad)
        assert sent == []

    def test_a_key_that_is_not_whole_reaches_no_item(self, sent: Sent) -> None:
        keys = Like()
        for call in (
            lambda: Like(post_id="a91f"),
            lambda: Like(user_id="u"),
            lambda: Like("POST#a91f"),
            keys.save,
            keys.delete,
            keys.plan_save,
            keys.plan_delete,
            lambda: keys.update([Like.liked_at.set(1)]),
            post().likes.add,
            post().likes.discard,
            post().likes.remove,
            post().likes.contains,
            lambda: Like.get(post_id="a91f"),
            lambda: Like.ref(post_id="a91f"),
        ):
            with pytest.raises(KeyTemplateError, match=r"the key .*(needs|does not follow)"):
                call()
        with pytest.raises(KeyTemplateError, match="contradict each other"):
            Like("POST#a91f", post_id="b", user_id="u")
        assert sent == []

    @pytest.mark.parametrize("bad", ["1", 1.0, True, None, "one"])
    def test_a_number_that_is_no_int_reaches_no_item(self, bad: Any, sent: Sent) -> None:
        for call in (product().reviews.add, product().reviews.discard, product().reviews.contains):
            with pytest.raises(KeyTemplateError, match="number"):
                call(number=bad)
        assert sent == []

    def test_a_key_is_measured_in_bytes(self, sent: Sent) -> None:
        for call, id_name, bad in ((Post.ref, "post_id", "x" * 2044), (post().likes.add, "user_id", "\u20ac" * 340)):
            with pytest.raises(KeyTemplateError, match="bytes long"):
                call(**{id_name: bad})
        assert sent == []

    @pytest.mark.parametrize("bad", ["", "a#b", "\ud800", "x" * 2100])
    def test_a_bad_id_of_another_parent_reaches_no_item(self, bad: str, sent: Sent) -> None:
        with pytest.raises(KeyTemplateError, match=r"user_id|bytes long"):
            product().reviews.add(number=1, author_id=bad)
        assert sent == []
        product().reviews.add(number=1, author_id="ada")
        review = Review.get(product_id="p", number=1)
        review.author_id = bad
        sent.clear()
        with pytest.raises(KeyTemplateError, match=r"user_id|bytes long"):
            review.save()
        assert sent == []

    @pytest.mark.parametrize("bad", [True, float("nan"), float("inf"), 10**38 + 1, Decimal("0." + "1" * 39), 10**130])
    def test_a_bad_amount_writes_nothing(self, bad: Any, sent: Sent) -> None:
        with pytest.raises(CounterTypeError, match=r"Review\.rated"):
            product().reviews.add(number=1, stars=bad)
        assert sent == []

    def test_a_bad_amount_of_an_edit_writes_nothing(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=3)
        review = Review.get(product_id="p", number=1)
        review.stars = True
        sent.clear()
        with pytest.raises(CounterTypeError):
            review.save()
        assert sent == []
        assert numbers() == (1, 1, 3)

    @pytest.mark.parametrize("stored", [{"S": "3"}, {"NULL": True}, {"L": []}])
    def test_a_tally_that_is_no_number_is_named_and_nothing_is_written(self, stored: dict[str, Any]) -> None:
        put("POST#a91f", "META", likeTally=stored)
        before = items()
        for call in (lambda: post().likes.add(user_id="u"), lambda: Post.like_tally.seed(post())):
            with pytest.raises(CounterTypeError, match=r"PK='POST#a91f' SK='META'.*likeTally.*remove the attribute"):
                call()
        if "NULL" not in stored:  # PynamoDB reads that as None
            with pytest.raises(CounterTypeError, match="POST#a91f"):
                Post.get(post_id="a91f")
        assert items() == before

    def test_update_cannot_change_what_a_child_counts_by(self, sent: Sent) -> None:
        product().reviews.add(number=1, stars=3)
        review = Review.get(product_id="p", number=1)
        sent.clear()
        for action in (Review.stars.set(5), Review.hidden.set(True), Review.author_id.remove()):
            with pytest.raises(UncountedWrite, match=r"Review counts by .*get\(\) the item"):
                review.update([action])
        assert sent == []

    def test_update_may_change_the_rest(self) -> None:
        product().reviews.add(number=1)
        review = Review.get(product_id="p", number=1)
        review.update([Review.text.set("fine")])
        assert review.text == "fine"
        with pytest.raises(NotCounted):
            Review(product_id="p", number=2).update([Review.text.set("fine")])


class TestConditions:
    """An application's own conditions reach the wire, and fail as PynamoDB's do."""

    def test_a_condition_of_a_save_is_asked_with_the_librarys_own(self, sent: Sent) -> None:
        Like(post_id="a91f", user_id="u").save(condition=Like.liked_at.does_not_exist())
        ((_, request),) = sent
        condition = request["TransactItems"][0]["Put"]["ConditionExpression"]
        assert condition.startswith("attribute_not_exists(SK) AND ")
        assert "attribute_not_exists (#0)" in condition

    def test_a_condition_that_does_not_hold_is_a_put_error_and_counts_nothing(self) -> None:
        with pytest.raises(PutError) as error:
            Like(post_id="a91f", user_id="u").save(condition=Like.liked_at == 5)
        assert error.value.cause_response_code == "ConditionalCheckFailedException"
        assert number("POST#a91f", "likeTally") == "0"

    def test_a_condition_of_a_delete(self) -> None:
        post().likes.add(user_id="u", liked_at=1)
        like = Like.get(post_id="a91f", user_id="u")
        with pytest.raises(DeleteError):
            like.delete(condition=Like.liked_at == 2)
        assert number("POST#a91f", "likeTally") == "1"
        like.delete(condition=Like.liked_at == 1)
        assert number("POST#a91f", "likeTally") == "0"

    def test_a_condition_of_an_edit(self) -> None:
        product().reviews.add(number=1, stars=1)
        review = Review.get(product_id="p", number=1)
        review.stars = 2
        with pytest.raises(PutError):
            review.save(condition=Review.text == "x")
        review.save(condition=Review.text.does_not_exist())
        assert numbers() == (1, 1, 2)

    @pytest.mark.parametrize(
        "condition",
        [
            Like.liked_at.does_not_exist() & Like.pk.does_not_exist(),
            Like.liked_at.does_not_exist() | (Like.liked_at > 3),
            ~Like.liked_at.exists(),
        ],
        ids=["and", "or", "not"],
    )
    def test_a_condition_of_several_parts(self, condition: Any) -> None:
        Like(post_id="a91f", user_id="u").save(condition=condition)
        assert number("POST#a91f", "likeTally") == "1"
        with pytest.raises(AlreadyCounted):
            Like(post_id="a91f", user_id="u").save(condition=condition)
        like = Like.get(post_id="a91f", user_id="u")
        with pytest.raises(DeleteError):
            like.delete(condition=~Like.liked_at.exists())
        like.delete(condition=Like.liked_at.exists() & (Like.liked_at > 3))


class TestUsersDeclareMore:
    def test_subclasses_with_more_attributes_count_with_their_bases(self, tables: Callable[..., None]) -> None:
        class Page(models.PostMeta):
            class Meta:
                table_name = "Magazine"

        class Like(models.Like):
            class Meta:
                table_name = "Magazine"

            post = CountedIn(Page.like_tally)

        class Story(Page):
            mood = UnicodeAttribute(null=True)

        class Superlike(Like):
            note = UnicodeAttribute(null=True)

        tables(Page, Like)
        Story(post_id="s", mood="calm").save()
        Superlike(post_id="s", user_id="u", note="wow").save()
        Like(post_id="s", user_id="v").save()
        with pytest.raises(AlreadyCounted):
            Like(post_id="s", user_id="u").save()
        like = Like.get(post_id="s", user_id="u")
        like.liked_at = 5
        like.save()
        assert Superlike.get(post_id="s", user_id="u").note == "wow"
        story = Story.get(post_id="s")
        assert (story.like_tally, story.likes.recount()) == (2, 2)
        Superlike.get(post_id="s", user_id="v").delete()
        assert story.likes.add(user_id="w")
        assert Page.like_tally.value(Story.ref(post_id="s")) == Story.like_tally.value(Page.ref(post_id="s")) == 2

    def test_a_counter_may_be_stored_under_another_name(self, tables: Callable[..., None]) -> None:
        class Tale(models.PostMeta):
            class Meta:
                table_name = "Elsewhere"

            like_tally = CounterField(attr_name="claps")
            likes: CountedSet[Any] = CountedSet("Clap", tally="like_tally")

        class Clap(models.Like):
            class Meta:
                table_name = "Elsewhere"

            post = CountedIn(Tale.like_tally)

        tables(Tale, Clap)
        Tale(post_id="t").save()
        assert Tale.ref(post_id="t").likes.add(user_id="u")
        assert Tale.get(post_id="t").like_tally == 1
        key = {"PK": {"S": "POST#t"}, "SK": {"S": "META"}}
        assert raw().get_item(TableName="Elsewhere", Key=key)["Item"]["claps"] == {"N": "1"}

    def test_a_model_that_counts_in_itself(self, tables: Callable[..., None]) -> None:
        class Comment(CountedModel):
            class Meta:
                table_name = "Comments"

            pk = KeyAttribute("COMMENT#{comment_id}", hash_key=True)
            answer_tally = CounterField()

        class Answer(CountedModel):
            class Meta:
                table_name = "Answers"

            pk = KeyAttribute("COMMENT#{comment_id}", hash_key=True)
            sk = KeyAttribute("BY#{number:int}", range_key=True)
            comment = CountedIn(Comment.answer_tally)

        tables(Comment, Answer)
        Comment(comment_id="c").save()
        Answer(comment_id="c", number=1).save()
        Answer(comment_id="c", number=2).save()
        assert Comment.get(comment_id="c").answer_tally == 2

    def test_a_model_that_counts_in_its_own_model(self, tables: Callable[..., None]) -> None:
        class Person(CountedModel):
            class Meta:
                table_name = "People"

            pk = KeyAttribute("PERSON#{person_id}", hash_key=True)
            boss_id = UnicodeAttribute(null=True)
            report_tally = CounterField()
            boss = CountedIn(report_tally, person_id="boss_id")

        def reports(name: str) -> Any:
            return Person.get(person_id=name).report_tally

        tables(Person)
        Person(person_id="ann").save()
        Person(person_id="bea", boss_id="ann").save()
        Person(person_id="cyd", boss_id="cyd").save()  # her own boss: one write of one item
        assert (reports("ann"), reports("bea"), reports("cyd")) == (1, 0, 1)
        cyd = Person.get(person_id="cyd")
        cyd.boss_id = "bea"
        cyd.save()
        assert (reports("ann"), reports("bea"), reports("cyd")) == (1, 1, 0)
        with pytest.raises(ParentNotEmpty):
            Person.get(person_id="bea").delete()
        cyd.boss_id = "cyd"
        cyd.save()
        Person.get(person_id="cyd").delete()
        Person.get(person_id="bea").delete()
        assert reports("ann") == 0

    def test_a_child_that_is_a_parent_too(self, tables: Callable[..., None]) -> None:
        class Thread(CountedModel):
            class Meta:
                table_name = "Forum"

            pk = KeyAttribute("THREAD#{thread_id}", hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            comment_tally = CounterField()
            comments: CountedSet[Any] = CountedSet("Remark", tally="comment_tally")

        class Remark(CountedModel):
            class Meta:
                table_name = "Forum"

            pk = KeyAttribute("THREAD#{thread_id}", hash_key=True)
            sk = KeyAttribute("REMARK#{number:int}", range_key=True)
            text = UnicodeAttribute(null=True)
            reply_tally = CounterField()
            thread = CountedIn(Thread.comment_tally)

        class Reply(CountedModel):
            class Meta:
                table_name = "Forum"

            pk = KeyAttribute("THREAD#{thread_id}", hash_key=True)
            sk = KeyAttribute("REPLY#{number:int}#{reply:int}", range_key=True)
            remark = CountedIn(Remark.reply_tally)
            thread = CountedIn(Thread.comment_tally)

        tables(Thread, Remark, Reply)
        Thread(thread_id="t").save()
        thread = Thread.ref(thread_id="t")
        assert thread.comments.add(number=1)
        Reply(thread_id="t", number=1, reply=1).save()
        remark = Remark.get(thread_id="t", number=1)
        assert (Thread.get(thread_id="t").comment_tally, remark.reply_tally, thread.comments.recount()) == (2, 1, 2)
        with pytest.raises(ParentNotEmpty):
            thread.comments.discard(number=1)
        assert thread.comments.add(number=1) is False
        remark.text = "edited"
        remark.save()
        assert Thread.get(thread_id="t").comment_tally == 2
        Reply(thread_id="t", number=1, reply=1).delete()
        remark.delete()
        assert Thread.get(thread_id="t").comment_tally == 0

    def test_a_child_may_count_twice_in_one_tally(self, tables: Callable[..., None]) -> None:
        class Goal(CountedModel):
            class Meta:
                table_name = "Goals"

            pk = KeyAttribute("GOAL#{goal_id}", hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            points = CounterField(settle=0)
            steps: CountedSet[Any] = CountedSet("Step", tally="points")

        class Step(CountedModel):
            class Meta:
                table_name = "Goals"

            pk = KeyAttribute("GOAL#{goal_id}", hash_key=True)
            sk = KeyAttribute("STEP#{number:int}", range_key=True)
            done = BooleanAttribute(default=False)
            started = CountedIn(Goal.points)
            finished = CountedIn(Goal.points, when="done", amount=10)

        tables(Goal, Step)
        Goal(goal_id="g").save()
        goal = Goal.ref(goal_id="g")
        goal.steps.add(number=1, done=True)
        assert Goal.points.value(goal) == 11
        assert goal.steps.recount() == 11

    @pytest.mark.parametrize("told_apart", [False, True])
    def test_a_subclass_that_counts_otherwise_is_counted_so_or_refused(
        self, told_apart: bool, tables: Callable[..., None]
    ) -> None:
        class Hall(CountedModel):
            class Meta:
                table_name = "Halls"

            pk = KeyAttribute("HALL#{hall_id}", hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            noise = CounterField(settle=0)
            claps: CountedSet[Any] = CountedSet("Applause", tally="noise")

        class Applause(CountedModel):
            class Meta:
                table_name = "Halls"

            pk = KeyAttribute("HALL#{hall_id}", hash_key=True)
            sk = KeyAttribute("CLAP#{user_id}", range_key=True)
            if told_apart:
                kind = DiscriminatorAttribute()
            hall = CountedIn(Hall.noise)

        try:

            class Ovation(Applause, discriminator="ovation" if told_apart else None):
                hall = CountedIn(Hall.noise, amount=5)
        except DeclarationError:
            return
        tables(Hall, Applause)
        Hall(hall_id="h").save()
        Ovation(hall_id="h", user_id="u").save()
        hall = Hall.ref(hall_id="h")
        assert Hall.noise.value(hall) == hall.claps.recount()
        hall.claps.remove(user_id="u")
        assert Hall.noise.value(hall) == 0

    def test_a_subclass_that_counts_in_more_is_taken_out_of_it_or_refused(self, tables: Callable[..., None]) -> None:
        class Club(CountedModel):
            class Meta:
                table_name = "Clubs"

            pk = KeyAttribute("CLUB#{club_id}", hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            member_tally = CounterField(settle=0)
            patron_tally = CounterField(settle=0)
            members: CountedSet[Any] = CountedSet("Member", tally="member_tally")

        class Member(CountedModel):
            class Meta:
                table_name = "Clubs"

            pk = KeyAttribute("CLUB#{club_id}", hash_key=True)
            sk = KeyAttribute("MEMBER#{user_id}", range_key=True)
            club = CountedIn(Club.member_tally)

        try:

            class Patron(Member):
                club_too = CountedIn(Club.patron_tally)
        except DeclarationError:
            return
        tables(Club, Member)
        Club(club_id="c").save()
        Patron(club_id="c", user_id="u").save()
        Club.ref(club_id="c").members.remove(user_id="u")
        club = Club.get(club_id="c")
        assert (club.member_tally, club.patron_tally) == (0, 0)

    def test_a_subclass_that_alone_counts_is_taken_out_or_refused(self, tables: Callable[..., None]) -> None:
        class Ship(CountedModel):
            class Meta:
                table_name = "Ships"

            pk = KeyAttribute("SHIP#{ship_id}", hash_key=True)
            sk = KeyAttribute("META", range_key=True)
            crew_tally = CounterField(settle=0)

        class Aboard(CountedModel):
            class Meta:
                table_name = "Ships"

            pk = KeyAttribute("SHIP#{ship_id}", hash_key=True)
            sk = KeyAttribute("ABOARD#{name}", range_key=True)

        try:

            class Sailor(Aboard):
                ship = CountedIn(Ship.crew_tally)
        except DeclarationError:
            return
        tables(Ship, Aboard)
        Ship(ship_id="s").save()
        Sailor(ship_id="s", name="ann").save()
        Aboard.get(ship_id="s", name="ann").delete()
        assert Ship.get(ship_id="s").crew_tally == 0


class TestSetsThroughAnIndex:
    """A child whose key does not say whose it is."""

    def test_the_set_of_one_parent_does_not_reach_anothers_children(self, sent: Sent) -> None:
        class Writer(CountedModel):
            class Meta:
                table_name = "Writers"

            pk = KeyAttribute("WRITER#{writer_id}", hash_key=True)
            text_tally = CounterField(settle=0)
            texts: CountedSet[Any] = CountedSet("Text", tally="text_tally")

        class ByWriter(GlobalSecondaryIndex[Any]):
            class Meta:
                index_name = "by-writer"
                projection = AllProjection()

            writer_id = UnicodeAttribute(hash_key=True)

        class Text(CountedModel):
            class Meta:
                table_name = "Texts"

            pk = KeyAttribute("TEXT#{text_id}", hash_key=True)
            writer_id = UnicodeAttribute()
            by_writer = ByWriter()
            writer = CountedIn(Writer.text_tally, index="by-writer")

        create_tables(Writer, Text)
        for name in ("ada", "bob"):
            Writer(writer_id=name).save()
        ada, bob = Writer.ref(writer_id="ada"), Writer.ref(writer_id="bob")
        assert ada.texts.add(text_id="t")
        assert not bob.texts.contains(text_id="t") and ada.texts.contains(text_id="t")
        assert bob.texts.discard(text_id="t") is False
        assert (Writer.text_tally.value(ada), Writer.text_tally.value(bob)) == (1, 0)
        assert ada.texts.discard(text_id="t") is True
        assert Writer.text_tally.value(ada) == 0


def test_a_child_with_a_version_can_be_discarded_without_being_loaded() -> None:
    class Pad(CountedModel):
        class Meta:
            table_name = "Pads"

        pk = KeyAttribute("PAD#{pad_id}", hash_key=True)
        sk = KeyAttribute("META", range_key=True)
        page_tally = CounterField(settle=0)
        pages: CountedSet[Any] = CountedSet("Leaf", tally="page_tally")

    class Leaf(CountedModel):
        class Meta:
            table_name = "Pads"

        pk = KeyAttribute("PAD#{pad_id}", hash_key=True)
        sk = KeyAttribute("LEAF#{number:int}", range_key=True)
        version = VersionAttribute()
        pad = CountedIn(Pad.page_tally)

    create_tables(Pad, Leaf)
    Pad(pad_id="p").save()
    pages = Pad.ref(pad_id="p").pages
    assert pages.add(number=1)
    assert pages.discard(number=1) is True
    assert Pad.page_tally.value(Pad.ref(pad_id="p")) == 0


def test_an_item_of_another_model_is_not_deleted_or_edited_as_one_of_this() -> None:
    post().likes.add(user_id="u")
    (meta,) = [found for found in Like.query("POST#a91f") if found.sk == "META"]
    for write in (meta.save, meta.delete, lambda: meta.update([Like.liked_at.set(1)])):
        with pytest.raises(KeyTemplateError, match="does not follow"):
            write()
    assert number("POST#a91f", "likeTally") == "1"


def test_a_loaded_parent_follows_all_of_its_tallies() -> None:
    loaded = Product.get(product_id="p")
    loaded.reviews.add(number=1, stars=4)
    assert (loaded.review_tally, loaded.shown_tally, loaded.star_tally) == (1, 1, 4)
    loaded.reviews.discard(number=1)
    assert (loaded.review_tally, loaded.shown_tally, loaded.star_tally) == (0, 0, 0)
