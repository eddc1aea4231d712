"""The application's writes and the counting, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import PutError, UpdateError

from pynacount import CountedModel, commit, transaction
from pynacount.connections import connection_for
from pynacount.errors import AlreadyCounted, CheckFailed, NotCounted, ParentMissing, PlanError, UncountedWrite
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Album, Board, Like, Pin, Post, Product, Review, item, items, number, put, unseed

Sent = list[tuple[str, dict[str, Any]]]


class Coupon(CountedModel):
    """In a table of its own; it counts nothing and is counted in nothing."""

    class Meta:
        table_name = "Coupons"

    code = UnicodeAttribute(hash_key=True)
    uses = NumberAttribute(default=0)


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
