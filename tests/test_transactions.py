"""The application's writes and the counting, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import PutError, UpdateError

from pynacount import CountedIn, CountedModel, CounterField, KeyAttribute, commit, transaction
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CheckFailed,
    CounterContention,
    KeyTemplateError,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    ParentNotEmpty,
    PlanError,
    PynacountError,
    UncountedWrite,
)
from pynacount.testing import Fault, FaultInjector, record_requests
from shop import Stock
from social import ALL, Album, Board, Like, Meta, Pin, Post, Product, Review, User, item, items, number, put, unseed

Sent = list[tuple[str, dict[str, Any]]]


class Coupon(CountedModel):
    """In a table of its own; it counts nothing and is counted in nothing."""

    class Meta:
        table_name = "Coupons"

    code = UnicodeAttribute(hash_key=True)
    uses = NumberAttribute(default=0)
    note = UnicodeAttribute(null=True)


class Shelf(CountedModel):
    """Two numbers, counted by the same books."""

    Meta = Meta
    pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    book_tally = CounterField(attr_name="bookTally")
    page_tally = CounterField(attr_name="pageTally")


class Book(CountedModel):
    Meta = Meta
    pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("BOOK#{book_id}", range_key=True, attr_name="SK")
    pages = NumberAttribute(default=1)
    counted = CountedIn(Shelf.book_tally)
    paged = CountedIn(Shelf.page_tally, amount="pages")


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tables(*ALL, Coupon)
    Post(post_id="a", body="old").save()
    Product(product_id="p").save()
    Coupon("xyz").save()
    monkeypatch.setattr(commit.time, "sleep", lambda seconds: None)


@pytest.fixture
def sent() -> Iterator[Sent]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


def kinds(sent: Sent) -> list[list[str]]:
    """The kinds of writes, transaction by transaction."""
    return [
        [next(iter(action)) for action in request["TransactItems"]]
        for operation, request in sent
        if operation == "TransactWriteItems"
    ]


def like(user: str, post: str = "a") -> Like:
    return Like(post_id=post, user_id=user)


def edited_post() -> Post:
    post = Post.get(post_id="a")
    post.body = "edited"
    return post


def post_now() -> dict[str, Any]:
    return item("POST#a", "META") or {}


class TestMerging:
    def test_two_likes_of_one_post_are_one_update_of_two(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.save(like("u"))
            tx.save(like("v"))
        assert kinds(sent) == [["Put", "Put", "Update"]]
        assert number("POST#a", "likeTally") == "2"

    def test_an_edit_of_the_post_and_a_like_are_one_update(self, sent: Sent) -> None:
        post = Post.get(post_id="a")
        post.body = "new"
        with transaction() as tx:
            tx.save(post)
            tx.save(like("u"))
        assert sorted(kinds(sent)[0]) == ["Put", "Update"]
        assert (item("POST#a", "META") or {})["body"] == {"S": "new"}
        assert number("POST#a", "likeTally") == "1"

    def test_a_new_post_and_its_first_likes_are_one_put_of_the_post(self, sent: Sent) -> None:
        new = Post(post_id="new", body="hi")
        with transaction() as tx:
            tx.save(new)
            tx.save(like("u", "new"))
            tx.save(like("v", "new"))
        assert kinds(sent) == [["Put", "Put", "Put"]]
        assert (number("POST#new", "likeTally"), new.like_tally) == ("2", 2)

    def test_a_post_can_go_with_its_last_like(self) -> None:
        with transaction() as tx:
            tx.save(like("u"))
        with transaction() as tx:
            tx.delete(Like.get(post_id="a", user_id="u"))
            tx.delete(Post.get(post_id="a"))
        assert items("POST#") == {}

    def test_a_post_cannot_go_while_another_like_stays(self) -> None:
        for user in ("u", "v"):
            like(user).save()
        with pytest.raises(Exception, match="is not deleted"), transaction() as tx:
            tx.delete(Like.get(post_id="a", user_id="u"))
            tx.delete(Post.get(post_id="a"))
        assert number("POST#a", "likeTally") == "2"
        assert len(items("POST#")) == 3

    def test_one_comes_and_one_goes(self, sent: Sent) -> None:
        like("u").save()
        with transaction() as tx:
            tx.delete(Like.get(post_id="a", user_id="u"))
            tx.save(like("v"))
        assert kinds(sent)[-1] == ["Delete", "Put", "ConditionCheck"]
        assert number("POST#a", "likeTally") == "1"

    def test_one_comes_and_one_goes_on_a_post_that_is_gone(self) -> None:
        put("POST#gone", "LIKE#USER#u")
        with pytest.raises(ParentMissing), transaction() as tx:
            tx.delete(Like.get(post_id="gone", user_id="u"))
            tx.save(like("v", "gone"))
        assert len(items("POST#gone")) == 1

    def test_one_comes_and_one_goes_with_a_new_post(self) -> None:
        put("POST#new", "LIKE#USER#u")
        with transaction() as tx:
            tx.save(Post(post_id="new"))
            tx.delete(Like.get(post_id="new", user_id="u"))
            tx.save(like("v", "new"))
        assert number("POST#new", "likeTally") == "0"

    def test_edits_of_one_post_by_several_hands_are_one_update(self, sent: Sent) -> None:
        one, other = Post.get(post_id="a"), Post.get(post_id="a")
        one.body, other.author_id = "new", "ada"
        with transaction() as tx:
            tx.save(one)
            tx.save(other)
            tx.update(Post(post_id="a"), [Post.created_at.set(7)])
            tx.save(like("u"))
        assert sorted(kinds(sent)[-1]) == ["Put", "Update"]
        assert post_now() == {
            "body": {"S": "new"},
            "authorId": {"S": "ada"},
            "createdAt": {"N": "7"},
            "likeTally": {"N": "1"},
        }

    def test_children_of_several_kinds_of_amount_are_one_update_of_each_sum(self, sent: Sent) -> None:
        Shelf(shelf_id="s").save()
        Book(shelf_id="s", book_id="a", pages=100).save()
        Book(shelf_id="s", book_id="b", pages=10).save()
        edited = Book.get(shelf_id="s", book_id="a")
        edited.pages = 70
        with transaction() as tx:
            tx.save(edited)
            tx.delete(Book.get(shelf_id="s", book_id="b"))
            tx.save(Book(shelf_id="s", book_id="c", pages=5))
        assert sorted(kinds(sent)[-1]) == ["Delete", "Put", "Update", "Update"]
        assert [number("SHELF#s", name) for name in ("bookTally", "pageTally")] == ["2", "75"]
        (parent,) = [a["Update"] for a in sent[-1][1]["TransactItems"] if "META" in str(a)]
        assert "bookTally" not in parent["UpdateExpression"]  # it moves by nothing, and is only asked for

    def test_a_child_that_moves_and_one_that_follows_are_one_update_for_each_parent(self, sent: Sent) -> None:
        for name in ("ada", "bob"):
            User(user_id=name).save()
        Review(product_id="p", number=1, author_id="ada").save()
        moved = Review.get(product_id="p", number=1)
        moved.author_id = "bob"
        with transaction() as tx:
            tx.save(moved)
            tx.save(Review(product_id="p", number=2, author_id="bob"))
        assert sorted(kinds(sent)[-1]) == ["Put", "Update", "Update", "Update", "Update"]
        assert (number("USER#ada", "givenTally"), number("USER#bob", "givenTally")) == ("0", "2")

    def test_a_new_post_over_one_that_is_there_keeps_its_likes_and_counts_on(self) -> None:
        like("u").save()
        with transaction() as tx:
            tx.save(Post(post_id="a", body="over"))
            tx.save(like("v"))
        assert (post_now()["body"], post_now()["likeTally"]) == ({"S": "over"}, {"N": "2"})

    def test_a_like_does_not_keep_a_post_from_its_deletion_unseen(self) -> None:
        before = items()
        with pytest.raises(ParentNotEmpty), transaction() as tx:
            tx.delete(Post(post_id="a"))
            tx.save(like("u"))
        assert items() == before

    def test_a_post_that_is_not_there_counts_as_deleted_as_it_does_alone(self) -> None:
        Post(post_id="gone").delete()
        with transaction() as tx:
            tx.delete(Post(post_id="gone"))
            tx.save(like("u"))
        assert number("POST#a", "likeTally") == "1"

    def test_two_checks_of_one_item_are_one(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.check(Post.ref(post_id="a"), Post.body == "old")
            tx.check(Post.ref(post_id="a"), Post.author_id.does_not_exist())
        assert kinds(sent) == [["ConditionCheck"]]
        with pytest.raises(CheckFailed), transaction() as tx:
            tx.check(Post.ref(post_id="a"), Post.body == "old")
            tx.check(Post.ref(post_id="a"), Post.author_id.exists())

    @pytest.mark.parametrize(
        "twice",
        [
            lambda tx: tx.update(Post(post_id="a"), [Post.body.set("x")]),
            lambda tx: tx.update(Post(post_id="a"), [Post.body.remove()]),
            lambda tx: tx.save(edited_post()),
        ],
    )
    def test_one_attribute_is_not_written_twice(self, twice: Any, sent: Sent) -> None:
        with pytest.raises(PlanError, match="body"), transaction() as tx:
            tx.update(Post(post_id="a"), [Post.body.set("y")])
            twice(tx)
        assert sent == []

    def test_a_version_is_not_raised_twice(self, sent: Sent) -> None:
        product = Product.get(product_id="p")
        product.title = "new"
        sent.clear()
        with pytest.raises(PlanError, match="written twice"), transaction() as tx:
            tx.save(product)
            tx.update(Product(product_id="p", version=1), [Product.title.remove()])
        assert sent == []

    def test_a_check_meets_the_counting_on_one_item(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.check(Post.ref(post_id="a"), Post.body == "old")
            tx.save(like("u"))
        assert sorted(kinds(sent)[0]) == ["Put", "Update"]
        with pytest.raises(CheckFailed, match=r"check of Post PK='POST#a' SK='META' did not hold"), transaction() as tx:
            tx.check(Post.ref(post_id="a"), Post.body == "other")
            tx.save(like("v"))
        assert number("POST#a", "likeTally") == "1"

    @pytest.mark.parametrize(
        "twice",
        [
            lambda tx: [tx.save(like("u")), tx.save(like("u"))],
            lambda tx: [tx.save(like("u")), tx.delete(like("u"))],
            lambda tx: [tx.save(Post(post_id="new")), tx.save(Post(post_id="new"))],
            lambda tx: [tx.delete(Post(post_id="a")), tx.update(Post(post_id="a"), [Post.body.set("x")])],
        ],
    )
    def test_what_cannot_be_one_write_is_refused_before_anything_is_sent(self, twice: Any, sent: Sent) -> None:
        with pytest.raises(PlanError), transaction() as tx:
            twice(tx)
        assert sent == []

    def test_a_parent_born_unseeded_takes_no_child_in_its_first_transaction(self, sent: Sent) -> None:
        with (
            pytest.raises(PlanError, match=r"is created without its counter pinTally.*save it first"),
            transaction() as tx,
        ):
            tx.save(Board(board_id="b"))
            tx.save(Pin(board_id="b", pin_id="1"))
        assert sent == []


class TestAllOrNone:
    def test_several_tables_and_models_go_together(self) -> None:
        with transaction() as tx:
            tx.save(like("u"))
            tx.save(Review(product_id="p", number=1, stars=3))
            tx.update(Coupon("xyz"), [Coupon.uses.add(1)])
        assert number("POST#a", "likeTally") == "1"
        assert number("PRODUCT#p", "star-sum") == "3"
        assert Coupon.get("xyz").uses == 1

    @pytest.mark.parametrize(
        ("refused", "error"),
        [
            (lambda tx: tx.save(like("there")), AlreadyCounted),
            (lambda tx: tx.delete(like("never")), NotCounted),
            (lambda tx: tx.save(like("u", "gone")), ParentMissing),
            (lambda tx: tx.update(Coupon("none"), [Coupon.uses.add(1)]), ParentMissing),
            (lambda tx: tx.save(Coupon("new"), Coupon.uses == 5), PutError),
            (lambda tx: tx.update(Coupon("xyz"), [Coupon.uses.set(0)], Coupon.uses == 5), UpdateError),
        ],
    )
    def test_one_refusal_is_told_and_sinks_the_rest(self, refused: Any, error: type[Exception]) -> None:
        like("there").save()
        before = items()
        with pytest.raises(error), transaction() as tx:
            tx.save(like("fine"))
            refused(tx)
        assert items() == before
        assert Coupon.get("xyz").uses == 0

    def test_an_exception_in_the_block_sends_nothing(self, sent: Sent) -> None:
        with pytest.raises(KeyError), transaction() as tx:
            tx.save(like("u"))
            raise KeyError("x")
        assert sent == []

    def test_a_block_without_writes_sends_nothing(self, sent: Sent) -> None:
        with transaction():
            pass
        assert sent == []

    def test_a_hundred_items_pass_and_one_more_is_refused_before_it_is_sent(self, sent: Sent) -> None:
        with transaction() as tx:
            for index in range(99):
                tx.save(like(str(index)))
        assert number("POST#a", "likeTally") == "99"
        sent.clear()
        with pytest.raises(PlanError, match="101 items, parents included; DynamoDB takes 100"), transaction() as tx:
            for index in range(100):
                tx.save(like(f"x{index}"))
        assert sent == []

    @pytest.mark.parametrize("fault", list(Fault))
    def test_after_any_fault_it_is_committed_once(self, fault: Fault) -> None:
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(fault)
            with transaction() as tx:
                tx.save(like("u"))
                tx.update(Coupon("xyz"), [Coupon.uses.add(1)])
        assert number("POST#a", "likeTally") == "1"
        assert Coupon.get("xyz").uses == 1

    @pytest.mark.parametrize("fault", list(Fault))
    def test_a_fault_at_any_step_of_a_transaction_that_seeds_is_survived(self, fault: Fault) -> None:
        for step in range(5):  # the refused transaction, the three requests of the seed, the transaction
            put("POST#b", "META")
            put("POST#b", "LIKE#USER#old")
            with FaultInjector(connection_for(Meta).client) as injector:
                injector.next(*[None] * step, fault)
                with transaction() as tx:
                    tx.save(like("u", "b"))
                    tx.update(Coupon("xyz"), [Coupon.uses.add(1)])
            assert (number("POST#b", "likeTally"), Coupon.get("xyz").uses) == ("2", step + 1)
            Like(post_id="b", user_id="u").delete()

    def test_all_tries_go_under_one_token(self, sent: Sent) -> None:
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(Fault.LOST_RESPONSE, Fault.CONFLICT, Fault.INTERNAL_ERROR)
            with transaction() as tx:
                tx.save(like("u"))
                tx.save(like("v"))
        assert len(sent) == 4
        assert len({request["ClientRequestToken"] for _, request in sent}) == 1

    def test_what_is_given_up_in_conflicts_was_not_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Meta, "counted_deadline", 0.001)
        before = items()
        faults = FaultInjector(connection_for(Meta).client, rates={Fault.CONFLICT: 1.0})
        with faults, pytest.raises(CounterContention, match="transaction"), transaction() as tx:
            tx.save(like("u"))
        assert items() == before

    def test_after_an_unknown_outcome_the_same_transaction_can_be_run_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = [like("u"), like("v")]

        def run() -> None:
            with transaction() as tx:
                for each in mine:
                    tx.save(each)

        faults = FaultInjector(connection_for(Meta).client, rates={Fault.LOST_RESPONSE: 1.0})
        with monkeypatch.context() as hurried, faults, pytest.raises(OutcomeUnknown, match="transaction"):
            hurried.setattr(Meta, "counted_deadline", 0.001)
            run()
        with pytest.raises(AlreadyCounted):  # it had landed, and says so
            run()
        assert number("POST#a", "likeTally") == "2"

    def test_a_condition_reaches_the_wire_with_the_counting_on_the_same_item(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.update(Post(post_id="a"), [Post.body.set("new")], Post.body == "old")
            tx.save(like("u"), Like.liked_at.does_not_exist())
        conditions = [
            (next(iter(a)), next(iter(a.values()))["ConditionExpression"]) for a in sent[0][1]["TransactItems"]
        ]
        of = dict(conditions)
        assert "attribute_exists(likeTally)" in of["Update"]
        assert ":" in of["Update"]  # and the application's own
        assert "attribute_not_exists(SK)" in of["Put"]
        assert "#" in of["Put"]

    def test_a_condition_that_does_not_hold_on_an_unseeded_post_is_told(self) -> None:
        like("there").save()
        unseed("POST#a", "likeTally")
        with pytest.raises(UpdateError), transaction() as tx:
            tx.update(Post(post_id="a"), [Post.body.set("new")], Post.body == "other")
            tx.save(like("u"))
        assert (post_now()["body"], len(items("POST#a"))) == ({"S": "old"}, 2)

    @pytest.mark.parametrize(
        ("refused", "named"),
        [
            (lambda tx: tx.save(like("there")), "Like.*LIKE#USER#there"),
            (lambda tx: tx.delete(like("never")), "Like.*LIKE#USER#never"),
            (lambda tx: tx.save(like("u", "gone")), "like_tally.*POST#gone"),
            (lambda tx: tx.update(Coupon("none"), [Coupon.uses.add(1)]), "Coupon.*none"),
            (lambda tx: tx.delete(Post(post_id="full")), "Post.*POST#full"),
            (lambda tx: tx.check(Product.ref(product_id="p"), Product.title == "x"), "Product.*PRODUCT#p"),
            (lambda tx: tx.delete(Coupon("xyz"), Coupon.uses == 7), "Coupon.*xyz"),
        ],
    )
    def test_the_refusal_names_the_one_item_among_many(self, refused: Any, named: str) -> None:
        like("there").save()
        Post(post_id="full").save()
        like("u", "full").save()
        with pytest.raises(Exception, match=named), transaction() as tx:
            tx.save(like("fine"))
            tx.save(Post(post_id="fine"))
            refused(tx)
            tx.save(like("fine too"))
        assert number("POST#a", "likeTally") == "1"

    def test_a_write_alone_is_a_plain_write_and_a_check_alone_a_transaction(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.save(User(user_id="new"))
        with transaction() as tx:
            tx.check(User.ref(user_id="new"), User.sk.exists())
        assert [operation for operation, _ in sent] == ["PutItem", "TransactWriteItems"]

    def test_an_id_that_cannot_be_a_key_sends_nothing(self, sent: Sent) -> None:
        with pytest.raises(KeyTemplateError), transaction() as tx:
            tx.save(like("u"))
            tx.save(like(""))
        assert sent == []

    def test_it_is_tried_again_whole_after_seeding(self) -> None:
        like("u").save()
        unseed("POST#a", "likeTally")
        with transaction() as tx:
            tx.save(like("v"))
            tx.update(Coupon("xyz"), [Coupon.uses.add(1)])
        assert (number("POST#a", "likeTally"), Coupon.get("xyz").uses) == ("2", 1)


class TestInstances:
    def test_after_the_commit_they_are_as_loaded(self, sent: Sent) -> None:
        new, edited = like("u"), Product.get(product_id="p")
        edited.title = "new"
        with transaction() as tx:
            tx.save(new)
            tx.save(edited)
        assert edited.version == 2
        new.liked_at = 7
        sent.clear()
        new.save()
        edited.save()
        assert [operation for operation, _ in sent] == ["UpdateItem"]

    def test_after_a_failure_they_are_as_before(self) -> None:
        like("there").save()
        new, edited = like("u"), Product.get(product_id="p")
        edited.title = "new"
        with pytest.raises(AlreadyCounted), transaction() as tx:
            tx.save(new)
            tx.save(edited)
            tx.save(like("there"))
        assert edited.version == 1
        new.save()
        edited.save()
        assert (number("POST#a", "likeTally"), Product.get(product_id="p").title) == ("2", "new")

    def test_a_version_is_checked_and_raised_by_edits_and_not_by_children(self) -> None:
        mine, stale = Product.get(product_id="p"), Product.get(product_id="p")
        mine.title, stale.title = "mine", "stale"
        with transaction() as tx:
            tx.save(Review(product_id="p", number=1))
        with transaction() as tx:
            tx.save(mine)
            tx.save(Review(product_id="p", number=2))
        assert (mine.version, number("PRODUCT#p", "version"), number("PRODUCT#p", "reviewTally")) == (2, "2", "2")
        before = items()
        with pytest.raises(PutError, match="version moved on"), transaction() as tx:
            tx.save(stale)
            tx.save(Review(product_id="p", number=3))
        with pytest.raises(UpdateError, match="version moved on"), transaction() as tx:
            tx.update(stale, [Product.title.set("x")])
            tx.save(Review(product_id="p", number=3))
        assert stale.version == 1
        assert items() == before

    def test_an_update_raises_the_version_of_its_instance(self) -> None:
        product = Product.get(product_id="p")
        with transaction() as tx:
            tx.update(product, [Product.title.set("new")])
            tx.save(Review(product_id="p", number=1))
        assert (product.version, product.title) == (2, None)
        product.refresh(consistent_read=True)
        assert (product.version, product.title) == (2, "new")

    def test_what_was_deleted_is_new_again_and_what_was_not_is_as_loaded(self, sent: Sent) -> None:
        like("u").save()
        mine = Like.get(post_id="a", user_id="u")
        with pytest.raises(AlreadyCounted), transaction() as tx:
            tx.delete(mine)
            tx.save(Coupon("new"))
            tx.save(like("v"))
            like("v").save()
        mine.liked_at = 7
        mine.save()  # an edit, since it is there
        with transaction() as tx:
            tx.delete(mine)
        mine.save()
        assert (item("POST#a", "LIKE#USER#u"), number("POST#a", "likeTally")) == ({"likedAt": {"N": "7"}}, "2")

    def test_what_is_assigned_after_tx_save_is_for_the_next_save(self) -> None:
        review = Review(product_id="p", number=1, stars=3)
        with transaction() as tx:
            tx.save(review)
            review.stars = 5
        assert number("PRODUCT#p", "star-sum") == "3"
        assert (item("PRODUCT#p", "REVIEW#1") or {})["stars"] == {"N": "3"}
        review.save()
        assert number("PRODUCT#p", "star-sum") == "5"

    def test_a_transaction_commits_once(self) -> None:
        tx = transaction()
        with tx:
            tx.save(like("u"))
        with tx:
            tx.save(like("v"))
        assert number("POST#a", "likeTally") == "2"


class TestMisuse:
    def test_a_ref_cannot_be_saved(self) -> None:
        for verb in ("save", "delete", "update"):
            with pytest.raises(TypeError, match=r"give an instance, Post\(\.\.\.\), not a ref"), transaction() as tx:
                arguments = ([Post.body.set("x")],) if verb == "update" else ()
                getattr(tx, verb)(Post.ref(post_id="a"), *arguments)

    def test_a_tally_cannot_be_updated(self) -> None:
        with pytest.raises(UncountedWrite), transaction() as tx:
            tx.update(Post(post_id="a"), [Post.like_tally.add(1)])

    def test_an_update_without_actions_is_refused(self) -> None:
        with pytest.raises(TypeError, match="at least one action"), transaction() as tx:
            tx.update(Post(post_id="a"), [])

    def test_a_cascade_does_not_fit(self) -> None:
        with pytest.raises(PlanError, match=r"call delete\(\) on the Album itself"), transaction() as tx:
            tx.delete(Album(album_id="a"))

    def test_tables_of_two_regions_cannot_be_written_together(self, sent: Sent) -> None:
        class Far(CountedModel):
            class Meta:
                table_name = "Far"
                region = "ap-southeast-2"

            code = UnicodeAttribute(hash_key=True)

        with pytest.raises(PlanError, match=r"Far.*Like.*region"), transaction() as tx:
            tx.save(like("u"))
            tx.save(Far("x"))
        assert sent == []

    def test_tables_of_two_endpoints_cannot_be_written_together(self, sent: Sent) -> None:
        class Here(CountedModel):
            class Meta:
                table_name = "Here"
                host = "http://localhost:1"

            code = UnicodeAttribute(hash_key=True)

        with pytest.raises(PlanError, match=r"Here.*Like.*http://localhost:1"), transaction() as tx:
            tx.save(like("u"))
            tx.save(Here("x"))
        assert sent == []

    def test_tables_of_two_accounts_cannot_be_written_together(self, tables: Callable[..., None]) -> None:
        class Ours(CountedModel):
            class Meta:
                table_name = "Coupons"
                aws_access_key_id = "ours"
                aws_secret_access_key = "secret"

            code = UnicodeAttribute(hash_key=True)

        class Theirs(CountedModel):
            class Meta:
                table_name = "Coupons"
                aws_access_key_id = "theirs"
                aws_secret_access_key = "secret"

            code = UnicodeAttribute(hash_key=True)

        with pytest.raises(PlanError, match=r"Theirs.*Ours"), transaction() as tx:
            tx.save(Ours("x"))
            tx.save(Theirs("y"))

    @pytest.mark.parametrize("verb", ["save", "delete", "update", "check"])
    def test_a_model_of_pynamodbs_own_is_refused_with_what_to_do(self, verb: str, sent: Sent) -> None:
        stock = Stock("SHOP", "a")
        arguments: dict[str, tuple[Any, ...]] = {"update": ([Stock.left.set(1)],), "check": (Stock.left == 1,)}
        with pytest.raises((TypeError, PynacountError), match="CountedModel"), transaction() as tx:
            getattr(tx, verb)(stock, *arguments.get(verb, ()))
        assert sent == []

    def test_what_is_no_item_is_refused(self, sent: Sent) -> None:
        with pytest.raises(TypeError), transaction() as tx:
            tx.save("a91f")  # type: ignore[arg-type]
        assert sent == []


class TestOrder:
    """Whatever comes first, in the block or in the table, the numbers are the same."""

    def test_a_like_may_be_named_before_its_new_post(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.save(like("u", "new"))
            tx.save(Post(post_id="new"))
        assert kinds(sent) == [["Put", "Put"]]
        assert number("POST#new", "likeTally") == "1"

    def test_a_new_post_over_one_that_was_never_counted(self) -> None:
        put("POST#b", "META", body={"S": "old"})
        put("POST#b", "LIKE#USER#old")
        with transaction() as tx:
            tx.save(Post(post_id="b", body="over"))
            tx.save(like("u", "b"))
        assert number("POST#b", "likeTally") == "2"
        assert (item("POST#b", "META") or {})["body"] == {"S": "over"}

    @pytest.mark.parametrize(("likes", "error"), [(1, None), (2, ParentNotEmpty)])
    def test_a_post_that_was_never_counted_goes_with_its_last_like_alone(
        self, likes: int, error: type[Exception] | None
    ) -> None:
        put("POST#b", "META")
        for index in range(likes):
            put("POST#b", f"LIKE#USER#{index}")
        with nullcontext() if error is None else pytest.raises(error), transaction() as tx:
            tx.delete(like("0", "b"))
            tx.delete(Post(post_id="b"))
        assert len(items("POST#b")) == (0 if error is None else 3)

    def test_several_posts_that_were_never_counted(self) -> None:
        for name in ("b", "c"):
            put(f"POST#{name}", "META")
            put(f"POST#{name}", "LIKE#USER#old")
        with transaction() as tx:
            tx.save(like("u", "b"))
            tx.delete(like("old", "c"))
        assert (number("POST#b", "likeTally"), number("POST#c", "likeTally")) == ("2", "0")

    def test_a_child_moves_from_a_parent_that_goes_to_one_that_comes(self) -> None:
        User(user_id="ada").save()
        Review(product_id="p", number=1, author_id="ada").save()
        moved = Review.get(product_id="p", number=1)
        moved.author_id = "bob"
        with transaction() as tx:
            tx.delete(User.get(user_id="ada"))
            tx.save(moved)
            tx.save(User(user_id="bob"))
        assert (item("USER#ada", "META"), number("USER#bob", "givenTally")) == (None, "1")

    def test_a_check_meets_an_item_that_comes_and_one_that_goes(self) -> None:
        with transaction() as tx:
            tx.check(Post.ref(post_id="new"), Post.body.does_not_exist())
            tx.save(Post(post_id="new"))
        with pytest.raises(CheckFailed), transaction() as tx:
            tx.delete(Post(post_id="new"))
            tx.check(Post.ref(post_id="new"), Post.body.exists())
        assert number("POST#new", "likeTally") == "0"
        with transaction() as tx:
            tx.delete(Post(post_id="new"))
            tx.check(Post.ref(post_id="new"), Post.body.does_not_exist())
        assert items("POST#new") == {}

    def test_a_transaction_within_another_commits_at_its_own_end(self) -> None:
        with pytest.raises(KeyboardInterrupt), transaction() as outer:
            outer.save(like("u"))
            with transaction() as inner:
                inner.save(like("v"))
            raise KeyboardInterrupt
        assert sorted(sk for _, sk in items("POST#a")) == ["LIKE#USER#v", "META"]
        assert number("POST#a", "likeTally") == "1"


class TestEditsWithinTheBlock:
    def test_a_loaded_review_is_saved_as_it_was_when_it_was_given(self) -> None:
        Review(product_id="p", number=1, stars=3).save()
        review, other = Review.get(product_id="p", number=1), Review.get(product_id="p", number=1)
        review.stars, other.stars = 4, 7
        with transaction() as tx:
            tx.save(review)
            review.stars, review.hidden = 9, True
            other.save()  # and planned anew, since its stars moved
        assert (number("PRODUCT#p", "star-sum"), number("PRODUCT#p", "count")) == ("4", "1")
        review.save()
        assert (number("PRODUCT#p", "star-sum"), number("PRODUCT#p", "count")) == ("9", "0")

    def test_an_edit_and_update_actions_of_one_review_are_one_update(self, sent: Sent) -> None:
        Review(product_id="p", number=1, stars=3).save()
        review = Review.get(product_id="p", number=1)
        review.stars = 4
        with transaction() as tx:
            tx.save(review)
            tx.update(Review(product_id="p", number=1), [Review.text.set("t")])
        assert kinds(sent)[-1] == ["Update", "Update"]
        assert (number("PRODUCT#p", "star-sum"), (item("PRODUCT#p", "REVIEW#1") or {})["text"]) == ("4", {"S": "t"})

    def test_what_a_review_counts_by_cannot_be_updated(self) -> None:
        Review(product_id="p", number=1, stars=3).save()
        with pytest.raises(UncountedWrite, match="counts by stars"), transaction() as tx:
            tx.save(like("u"))
            tx.update(Review(product_id="p", number=1), [Review.stars.set(5)])
        assert (number("POST#a", "likeTally"), number("PRODUCT#p", "star-sum")) == ("0", "3")

    def test_the_plan_is_what_is_sent(self, sent: Sent) -> None:
        with transaction() as tx:
            tx.save(like("u"))
            tx.save(Review(product_id="p", number=1, stars=3))
            plan = tx.plan()
        assert plan.request()["TransactItems"] == sent[-1][1]["TransactItems"]

    def test_an_edit_of_nothing_sends_nothing(self, sent: Sent) -> None:
        post = Post.get(post_id="a")
        sent.clear()
        with transaction() as tx:
            tx.save(post)
        assert sent == []
