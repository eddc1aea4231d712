"""Children come, go, change and move; their parents' numbers follow, whatever is asked twice or at the wrong time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from pynamodb.exceptions import DeleteError, PutError

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterTypeError,
    KeyTemplateError,
    NotCounted,
    ParentMissing,
    UncountedWrite,
)
from pynacount.testing import record_requests
from social import ALL, Like, Post, Product, Review, User, item, items, number, put, raw

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
    """Count everything by hand and compare."""
    table = items()
    for (pk, sk), parent in table.items():
        if sk != "META":
            continue
        children = [child for (other, key), child in table.items() if other == pk and key != "META"]
        if pk.startswith("POST#") and "N" in parent.get("likeTally", {}):
            assert int(parent["likeTally"]["N"]) == len(children), pk
        if pk.startswith("PRODUCT#"):
            shown = [child for child in children if not child["hidden"]["BOOL"]]
            stars = sum(Decimal(child["stars"]["N"]) for child in children if "stars" in child)
            assert int(parent["reviewTally"]["N"]) == len(children), pk
            assert int(parent["count"]["N"]) == len(shown), pk
            assert Decimal(parent["star-sum"]["N"]) == stars, pk
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

    def test_two_products_do_not_meet(self) -> None:
        product("p").reviews.add(number=1, stars=1)
        product("q").reviews.add(number=1, stars=2)
        assert (numbers("p"), numbers("q")) == ((1, 1, 1), (1, 1, 2))


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
        assert condition == "attribute_not_exists(SK) AND (attribute_not_exists (#0))"

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


class TestUsersDeclareMore:
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
