"""A transaction as data: byte for byte the article's, and priced by AWS's rules."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords
from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models, transaction
from pynacount.connections import connection_for
from pynacount.errors import PlanError
from pynacount.expressions import is_plain, reserved_words
from pynacount.keys import ItemKey
from pynacount.sizes import Cost, item_size, value_size, write_units
from pynacount.testing import record_requests

Tables = Callable[..., None]

LIKED_AT = 1750636800


class Post(models.PostMeta):
    class Meta:
        table_name = "Social"


class Like(models.Like):
    class Meta:
        table_name = "Social"

    post = CountedIn(Post.like_tally)


class ZeroPost(models.PostMeta):
    __module__ = "zero"  # another program's post

    class Meta:
        table_name = "Social"

    like_tally = CounterField(attr_name="likeTally", missing="zero")


class ZeroLike(models.Like):
    __module__ = "zero"

    class Meta:
        table_name = "Social"

    post = CountedIn(ZeroPost.like_tally)


ARTICLE_LIKE: dict[str, Any] = {
    "TransactItems": [
        {
            "Put": {
                "TableName": "Social",
                "Item": {
                    "PK": {"S": "POST#a91f"},
                    "SK": {"S": "LIKE#USER#7c20"},
                    "likedAt": {"N": "1750636800"},
                },
                "ConditionExpression": "attribute_not_exists(SK)",
            }
        },
        {
            "Update": {
                "TableName": "Social",
                "Key": {"PK": {"S": "POST#a91f"}, "SK": {"S": "META"}},
                "UpdateExpression": "ADD likeTally :one",
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }
        },
    ]
}
"""The article's own transaction (field guide 1a), word for word."""

ARTICLE_UNLIKE: dict[str, Any] = {
    "TransactItems": [
        {
            "Delete": {
                "TableName": "Social",
                "Key": {"PK": {"S": "POST#a91f"}, "SK": {"S": "LIKE#USER#7c20"}},
                "ConditionExpression": "attribute_exists(SK)",
            }
        },
        {
            "Update": {
                "TableName": "Social",
                "Key": {"PK": {"S": "POST#a91f"}, "SK": {"S": "META"}},
                "UpdateExpression": "ADD likeTally :minusOne",
                "ExpressionAttributeValues": {":minusOne": {"N": "-1"}},
            }
        },
    ]
}


def guarded(article: dict[str, Any], guard: str) -> dict[str, Any]:
    """The article's transaction, with the guard on the parent and the refusing items asked for."""
    request = copy.deepcopy(article)
    for action in request["TransactItems"]:
        for write in action.values():
            write["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    request["TransactItems"][1]["Update"]["ConditionExpression"] = guard
    return request


def as_bytes(request: dict[str, Any]) -> bytes:
    return json.dumps(request, sort_keys=True).encode()


def a_like(model: Any = Like) -> Any:
    return model(post_id="a91f", user_id="7c20", liked_at=LIKED_AT)


CASES = [
    pytest.param("save", Like, guarded(ARTICLE_LIKE, "attribute_exists(likeTally)"), id="like"),
    pytest.param("delete", Like, guarded(ARTICLE_UNLIKE, "attribute_exists(likeTally)"), id="unlike"),
    pytest.param("save", ZeroLike, guarded(ARTICLE_LIKE, "attribute_exists(PK)"), id="like, zero"),
    pytest.param("delete", ZeroLike, guarded(ARTICLE_UNLIKE, "attribute_exists(PK)"), id="unlike, zero"),
]


class TestTheArticlesTransaction:
    @pytest.mark.parametrize(("verb", "model", "expected"), CASES)
    def test_the_plan_is_the_articles_byte_for_byte(self, verb: str, model: Any, expected: dict[str, Any]) -> None:
        plan = getattr(a_like(model), f"plan_{verb}")()
        assert as_bytes(plan.request()) == as_bytes(expected)

    @pytest.mark.parametrize(("verb", "model", "expected"), CASES)
    def test_what_goes_over_the_wire_is_the_plan_and_a_token(
        self, tables: Tables, verb: str, model: Any, expected: dict[str, Any]
    ) -> None:
        tables(Post)
        Post(post_id="a91f").save()
        if verb == "delete":
            a_like(model).save()
        with record_requests(connection_for(model.Meta).client) as sent:
            getattr(a_like(model), verb)()
        ((operation, request),) = sent
        assert operation == "TransactWriteItems"
        assert request.pop("ClientRequestToken")
        request.pop("ReturnConsumedCapacity", None)  # PynamoDB asks for it; it changes nothing
        assert as_bytes(request) == as_bytes(expected)

    def test_the_set_sends_the_same_as_the_child(self, tables: Tables) -> None:
        tables(Post)
        Post(post_id="a91f").save()
        with record_requests(connection_for(Like.Meta).client) as sent:
            Post.ref(post_id="a91f").likes.add(user_id="7c20", liked_at=LIKED_AT)
            Post.ref(post_id="a91f").likes.discard(user_id="7c20")
        expected = [CASES[0].values[2], CASES[1].values[2]]
        assert [request["TransactItems"] for _, request in sent] == [e["TransactItems"] for e in expected]  # type: ignore[index,call-overload]

    def test_nothing_is_sent_for_a_plan(self, tables: Tables) -> None:
        tables(Post)
        with record_requests(connection_for(Like.Meta).client) as sent:
            a_like().plan_save().request()
            a_like().plan_delete().cost()
            Post(post_id="a91f").plan_save()
        assert sent == []

    def test_a_request_may_be_changed_without_changing_the_next(self) -> None:
        request = a_like().plan_save().request()
        request["TransactItems"][1]["Update"]["ExpressionAttributeValues"][":one"]["N"] = "1000"
        try:
            assert as_bytes(a_like().plan_save().request()) == as_bytes(CASES[0].values[2])  # type: ignore[arg-type]
        finally:
            request["TransactItems"][1]["Update"]["ExpressionAttributeValues"][":one"]["N"] = "1"

    def test_a_new_post_is_one_plain_put_with_a_tally_of_zero(self) -> None:
        plan = Post(post_id="a91f", body="hi", created_at=LIKED_AT).plan_save()
        assert plan.operation == "PutItem"
        assert plan.request() == {
            "TableName": "Social",
            "Item": {
                "PK": {"S": "POST#a91f"},
                "SK": {"S": "META"},
                "body": {"S": "hi"},
                "createdAt": {"N": "1750636800"},
                "likeTally": {"N": "0"},
            },
            "ConditionExpression": "attribute_not_exists(SK)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def test_a_parents_version_is_neither_checked_nor_bumped_by_a_like(self) -> None:
        class Versioned(models.PostMeta):
            class Meta:
                table_name = "Social"

            version = VersionAttribute()

        class VersionedLike(models.Like):
            class Meta:
                table_name = "Social"

            post = CountedIn(Versioned.like_tally)

        assert as_bytes(a_like(VersionedLike).plan_save().request()) == as_bytes(CASES[0].values[2])  # type: ignore[arg-type]


class TestCost:
    def test_a_like_costs_four_units(self) -> None:
        assert a_like().plan_save().cost() == Cost(wcu=4, rcu=0, items=2)

    def test_an_unlike_costs_four_units(self) -> None:
        assert a_like().plan_delete().cost() == Cost(wcu=4, rcu=0, items=2)

    def test_a_new_post_costs_one(self) -> None:
        assert Post(post_id="a91f").plan_save().cost() == Cost(wcu=1, rcu=0, items=1)

    @pytest.mark.parametrize(("size", "wcu"), [(1024, 1), (1025, 2), (2048, 2), (2049, 3), (5000, 5)])
    def test_every_started_kilobyte_costs_one(self, size: int, wcu: int) -> None:
        post = Post(post_id="a91f", body="", created_at=LIKED_AT)
        post.body = "x" * (size - item_size(post.plan_save().request()["Item"]))
        assert item_size(post.plan_save().request()["Item"]) == size
        assert post.plan_save().cost().wcu == wcu

    @pytest.mark.parametrize(("size", "wcu"), [(1024, 4), (1025, 6), (3000, 8)])
    def test_every_started_kilobyte_of_a_transaction_costs_two(self, size: int, wcu: int) -> None:
        class Reply(CountedModel):
            class Meta:
                table_name = "Social"

            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("REPLY#{n:int}", range_key=True, attr_name="SK")
            text = UnicodeAttribute()
            post = CountedIn(Post.like_tally)

        room = size - item_size({"PK": {"S": "POST#a"}, "SK": {"S": "REPLY#1"}, "text": {"S": ""}})
        reply = Reply(post_id="a", n=1, text="é" * (room // 2) + "x" * (room % 2))
        assert reply.plan_save().cost() == Cost(wcu=wcu, rcu=0, items=2)

    def test_the_size_of_the_parent_as_it_is_stored_counts(self) -> None:
        plan = a_like().plan_save()
        parent = Post.ref(post_id="a91f")._item_key
        assert plan.cost({parent: 1025}).wcu == 2 + 4
        assert plan.cost({parent: 10 * 1024}).wcu == 2 + 20

    def test_a_read_before_the_write_is_priced_too(self) -> None:
        rating = Rating(post_id="a", user_id="u")
        assert rating.plan_delete().cost().rcu == 1

    def test_a_child_that_counts_nowhere_is_a_transaction_all_the_same(self) -> None:
        assert Rating(post_id="a", user_id="u").plan_save().cost() == Cost(wcu=2, rcu=0, items=1)


class Rated(CountedModel):
    class Meta:
        table_name = "PlansRated"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    ratings = CounterField()
    stars = CounterField()
    public = CounterField()
    rated: CountedSet[Any] = CountedSet("Rating", tally="ratings")


class Rating(CountedModel):
    class Meta:
        table_name = "PlansRated"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("RATING#{user_id}", range_key=True, attr_name="SK")
    number = NumberAttribute(null=True)
    shown = BooleanAttribute(null=True)
    in_ratings = CountedIn(Rated.ratings, when="shown")
    in_stars = CountedIn(Rated.stars, amount="number")
    in_public = CountedIn(Rated.public, when="shown", amount=3)


def loaded(model: Any, **attributes: Any) -> Any:
    """An instance as it comes from the table."""
    return model.from_raw_data(model(**attributes).serialize())


class TestMerging:
    def test_several_counters_of_one_parent_are_one_update(self) -> None:
        put, update = Rating(post_id="a", user_id="u", number=4, shown=True).plan_save().request()["TransactItems"]
        assert set(put) == {"Put"}
        assert update["Update"]["UpdateExpression"] == "ADD ratings :one, stars :v1, #n0 :v2"
        assert update["Update"]["ConditionExpression"] == (
            "attribute_exists(ratings) AND attribute_exists(stars) AND attribute_exists(#n0)"
        )
        assert update["Update"]["ExpressionAttributeNames"] == {"#n0": "public"}
        assert update["Update"]["ExpressionAttributeValues"] == {
            ":one": {"N": "1"},
            ":v1": {"N": "4"},
            ":v2": {"N": "3"},
        }

    def test_an_edit_moves_the_difference_alone(self) -> None:
        rating = loaded(Rating, post_id="a", user_id="u", number=4, shown=True)
        rating.number = 5
        own, update = rating.plan_save().request()["TransactItems"]
        assert update["Update"]["UpdateExpression"] == "ADD stars :one"
        assert own["Update"]["ConditionExpression"].count("=") == 2, "guarded on both attributes that it counts by"

    def test_an_edit_of_what_it_does_not_count_by_touches_no_parent(self) -> None:
        post = loaded(Post, post_id="a", body="old")
        post.body = "new"
        assert post.plan_save().operation == "UpdateItem"
        assert post.plan_save().request()["UpdateExpression"] == "SET body = :v0"

    def test_an_unchanged_item_is_not_written(self) -> None:
        assert loaded(Rating, post_id="a", user_id="u", number=4).plan_save().writes == ()

    def test_two_likes_of_one_post_are_one_update_of_two(self) -> None:
        tx = transaction()
        tx.save(Like(post_id="a91f", user_id="1"))
        tx.save(Like(post_id="a91f", user_id="2"))
        writes = tx.plan().request()["TransactItems"]
        assert [next(iter(write)) for write in writes] == ["Put", "Put", "Update"]
        assert writes[2]["Update"]["ExpressionAttributeValues"] == {":v0": {"N": "2"}}

    def test_a_like_that_comes_and_one_that_goes_still_ask_for_the_parent(self) -> None:
        tx = transaction()
        tx.save(Like(post_id="a91f", user_id="1"))
        tx.delete(Like(post_id="a91f", user_id="2"))
        writes = tx.plan().request()["TransactItems"]
        assert [next(iter(write)) for write in writes] == ["Put", "Delete", "ConditionCheck"]
        assert writes[2]["ConditionCheck"]["ConditionExpression"] == "attribute_exists(likeTally)"

    def test_a_post_and_its_first_like_are_born_together(self) -> None:
        tx = transaction()
        tx.save(Post(post_id="a91f"))
        tx.save(Like(post_id="a91f", user_id="1"))
        writes = tx.plan().request()["TransactItems"]
        assert [next(iter(write)) for write in writes] == ["Put", "Put"]
        assert writes[0]["Put"]["Item"]["likeTally"] == {"N": "1"}

    def test_an_edit_of_the_post_merges_with_a_like_of_it(self) -> None:
        post = loaded(Post, post_id="a91f", body="old")
        post.body = "new"
        tx = transaction()
        tx.save(post)
        tx.save(Like(post_id="a91f", user_id="1"))
        writes = tx.plan().request()["TransactItems"]
        assert [next(iter(write)) for write in writes] == ["Update", "Put"]
        assert writes[0]["Update"]["UpdateExpression"] == "SET body = :v0 ADD likeTally :one"
        assert writes[0]["Update"]["ConditionExpression"] == "attribute_exists(SK) AND attribute_exists(likeTally)"

    def test_the_same_guard_is_written_once(self) -> None:
        writes = many_likes(2).request()["TransactItems"]
        assert writes[2]["Update"]["ConditionExpression"] == "attribute_exists(likeTally)"

    def test_two_saves_of_one_item_are_refused(self) -> None:
        tx = transaction()
        tx.save(a_like())
        tx.save(a_like())
        with pytest.raises(PlanError, match=r"POST#a91f.*cannot be merged.*write it once"):
            tx.plan()


class TestNames:
    """Attribute names that DynamoDB would not take as they are."""

    ODD = ("count", "Count", "size", "a-b", "_x", "x_y", "a.b", "9lives", "naïve", "with space", "#x", ":x", "status")

    @pytest.mark.parametrize("attr_name", ODD)
    def test_an_odd_tally_name_gets_a_placeholder(self, attr_name: str) -> None:
        _, like = self.models(attr_name)
        update = like(post_id="a", user_id="u").plan_save().request()["TransactItems"][1]["Update"]
        assert update["UpdateExpression"] == "ADD #n0 :one"
        assert update["ConditionExpression"] == "attribute_exists(#n0)"
        assert update["ExpressionAttributeNames"] == {"#n0": attr_name}

    @pytest.mark.parametrize("attr_name", ODD)
    def test_an_odd_tally_name_counts(self, tables: Tables, attr_name: str) -> None:
        post, like = self.models(attr_name)
        tables(post)
        post(post_id="a").save()
        assert post.ref(post_id="a").kids.add(user_id="u")
        like(post_id="a", user_id="v").save()
        post.ref(post_id="a").kids.discard(user_id="u")
        assert post.tally.value(post.ref(post_id="a")) == 1
        assert post.get(post_id="a").tally == 1

    @pytest.mark.parametrize("attr_name", ODD)
    def test_an_odd_tally_name_is_seeded(self, tables: Tables, attr_name: str) -> None:
        post, _ = self.models(attr_name)
        tables(post)
        post._get_connection().put_item("POST#a", "META")
        assert post.ref(post_id="a").kids.add(user_id="u")
        assert post.tally.value(post.ref(post_id="a")) == 1

    @pytest.mark.parametrize("names", [("key", "range"), ("_pk", "a-b"), ("hash", "sort.key")])
    def test_odd_key_names_count(self, tables: Tables, names: tuple[str, str]) -> None:
        post, like = self.models("tally", *names)
        tables(post)
        post._get_connection().put_item("POST#a", "META")
        like(post_id="a", user_id="v").save()
        assert post.ref(post_id="a").kids.recount() == 1
        assert [kid.user_id for kid in post.ref(post_id="a").kids] == ["v"]

    def models(self, attr_name: str, hash_name: str = "PK", range_name: str = "SK") -> tuple[Any, Any]:
        class Post(CountedModel):
            class Meta:
                table_name = "PlansOdd"

            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name=hash_name)
            sk = KeyAttribute("META", range_key=True, attr_name=range_name)
            tally = CounterField(attr_name=attr_name)
            kids: CountedSet[Any] = CountedSet("Kid", tally="tally")

        class Kid(CountedModel):
            class Meta:
                table_name = "PlansOdd"

            pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name=hash_name)
            sk = KeyAttribute("KID#{user_id}", range_key=True, attr_name=range_name)
            post = CountedIn(Post.tally)

        return Post, Kid

    def test_the_reserved_words_are_motos(self) -> None:
        assert reserved_words() == {word.upper() for word in ReservedKeywords.get_reserved_keywords()}

    def test_a_reserved_word_is_one_in_any_case(self) -> None:
        assert not any(is_plain(word) or is_plain(word.lower()) for word in reserved_words())

    def test_a_placeholder_of_the_applications_condition_meets_none_of_ours(self) -> None:
        post = loaded(Post, post_id="a91f", body="old", author_id="x")
        post.body, post.author_id = "new", "y"
        tx = transaction()
        tx.save(post, (Post.body == "old") & (Post.author_id != "z"))
        tx.save(a_like())
        update = tx.plan().request()["TransactItems"][0]["Update"]
        values = update["ExpressionAttributeValues"]
        assert sorted(next(iter(value.values())) for value in values.values()) == ["1", "new", "old", "y", "z"]
        for placeholder in (*values, *update.get("ExpressionAttributeNames", {})):
            assert placeholder in update["UpdateExpression"] + update["ConditionExpression"]


def many_likes(number: int) -> Any:
    tx = transaction()
    for user in range(number):
        tx.save(Like(post_id="a91f", user_id=str(user)))
    return tx.plan()


class TestLimit:
    def test_a_hundred_items_fit(self) -> None:
        assert many_likes(99).cost() == Cost(wcu=200, rcu=0, items=100)

    def test_a_hundred_and_one_are_refused_parents_included(self) -> None:
        with pytest.raises(PlanError, match=r"101 items, parents included; DynamoDB takes 100"):
            many_likes(100)

    def test_too_large_a_transaction_writes_nothing(self, tables: Tables) -> None:
        tables(Post)
        Post(post_id="a91f").save()
        with record_requests(connection_for(Like.Meta).client) as sent, pytest.raises(PlanError), transaction() as tx:
            for user in range(100):
                tx.save(Like(post_id="a91f", user_id=str(user)))
        assert sent == []


class TestSizes:
    """AWS: "DynamoDB item sizes and formats". A number's size is given there as approximate."""

    @pytest.mark.parametrize(
        ("value", "size"),
        [
            ({"S": ""}, 0),
            ({"S": "abc"}, 3),
            ({"S": "é€😀"}, 9),
            ({"N": "0"}, 1),
            ({"N": "1"}, 2),
            ({"N": "12"}, 2),
            ({"N": "123"}, 3),
            ({"N": "1200"}, 2),
            ({"N": "-1"}, 3),
            ({"N": "0.05"}, 2),
            ({"N": "1750636800"}, 5),
            ({"N": "9" * 38}, 20),
            ({"N": "-" + "9" * 38}, 21),
            ({"B": b""}, 0),
            ({"B": b"\x00\xff"}, 2),
            ({"B": bytearray(b"abc")}, 3),
            ({"BOOL": True}, 1),
            ({"BOOL": False}, 1),
            ({"NULL": True}, 1),
            ({"SS": ["a", "bc"]}, 3),
            ({"NS": ["1", "123"]}, 5),
            ({"BS": [b"a", b"bc"]}, 3),
            ({"L": []}, 3),
            ({"M": {}}, 3),
            ({"L": [{"S": "ab"}, {"BOOL": True}]}, 3 + 1 + 2 + 1 + 1),
            ({"M": {"né": {"S": "ab"}}}, 3 + 1 + 3 + 2),
            ({"L": [{"M": {"a": {"L": []}}}]}, 3 + 1 + 3 + 1 + 1 + 3),
        ],
    )
    def test_a_value_has_awss_size(self, value: dict[str, Any], size: int) -> None:
        assert value_size(value) == size

    def test_an_exponent_is_no_digit(self) -> None:
        assert value_size({"N": "1E+50"}) == value_size({"N": "1"})

    def test_an_item_counts_its_names_in_bytes(self) -> None:
        assert item_size({"PK": {"S": "POST#a91f"}, "é": {"N": "5"}}) == 2 + 9 + 2 + 2

    def test_an_unknown_type_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'X'"):
            value_size({"X": "1"})

    @pytest.mark.parametrize(("size", "units"), [(0, 1), (1, 1), (1024, 1), (1025, 2), (400 * 1024, 400)])
    def test_a_unit_covers_one_started_kilobyte(self, size: int, units: int) -> None:
        assert write_units(size, in_transaction=False) == units
        assert write_units(size, in_transaction=True) == 2 * units


class TestExactNumbers:
    """DynamoDB keeps 38 digits; Python's decimals, unless told otherwise, 28."""

    AMOUNT = Decimal("0.12345678901234567890123456789012345678")

    class Fine(CountedModel):
        class Meta:
            table_name = "PlansFine"

        pk = KeyAttribute("F#{f}", hash_key=True, attr_name="PK")
        sk = KeyAttribute("META", range_key=True, attr_name="SK")
        total = CounterField()

    def child(self) -> Any:
        class Grain(CountedModel):
            class Meta:
                table_name = "PlansFine"

            pk = KeyAttribute("F#{f}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("G#{g}", range_key=True, attr_name="SK")
            fine = CountedIn(self.Fine.total, amount=self.AMOUNT)

        return Grain(f="1", g="1")

    def sent(self, plan: Any) -> list[dict[str, Any]]:
        return list(plan.request()["TransactItems"][1]["Update"]["ExpressionAttributeValues"].values())

    def test_all_38_digits_are_added(self) -> None:
        assert self.sent(self.child().plan_save()) == [{"N": str(self.AMOUNT)}]

    def test_what_is_taken_away_is_what_was_added(self) -> None:
        assert self.sent(self.child().plan_delete()) == [{"N": f"-{self.AMOUNT}"}]


def test_an_item_key_shows_its_names_and_values() -> None:
    assert str(ItemKey("T", ("PK", "SK"), (("S", "a"), ("N", "1")))) == "PK='a' SK='1'"
