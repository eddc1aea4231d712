"""Parents are edited and deleted while children come and go, and their tallies stay what they count."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import DeleteError, PutError, PynamoDBException, UpdateError
from pynamodb.expressions.operand import Path
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.transactions import TransactWrite

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute
from pynacount.connections import connection_for
from pynacount.errors import (
    CounterTypeError,
    KeyTemplateError,
    OutcomeUnknown,
    ParentMissing,
    ParentNotEmpty,
    PynacountError,
    UncountedWrite,
)
from pynacount.testing import Fault, FaultInjector, record_requests
from social import (
    ALL,
    Album,
    Board,
    Like,
    Meta,
    Pin,
    Post,
    Product,
    before,
    item,
    items,
    number,
    put,
    raw,
    unseed,
)

Sent = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> None:
    tables(*ALL)
    Post(post_id="a91f", body="old", author_id="ada", created_at=1).save()
    Product(product_id="p", title="old").save()
    Album(album_id="a").save()
    Board(board_id="b").save()


@pytest.fixture
def sent() -> Iterator[Sent]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


def like(*users: str) -> None:
    for user in users:
        assert Post.ref(post_id="a91f").likes.add(user_id=user)


class TestSave:
    def test_a_new_post_starts_at_zero_and_shows_it(self) -> None:
        post = Post(post_id="new", body="hi", created_at=1)
        assert post.like_tally is None
        post.save()
        assert post.like_tally == 0
        assert item("POST#new", "META") == {"likeTally": {"N": "0"}, "body": {"S": "hi"}, "createdAt": {"N": "1"}}

    def test_a_loaded_post_sends_what_changed_and_never_its_tally(self, sent: Sent) -> None:
        post = Post.get(post_id="a91f")
        like("u", "v")
        sent.clear()
        post.body = "new"
        post.save()
        ((operation, request),) = sent
        assert operation == "UpdateItem"
        assert request["UpdateExpression"] == "SET body = :v0"
        assert request["ExpressionAttributeValues"] == {":v0": {"S": "new"}}
        assert number("POST#a91f", "likeTally") == "2"

    def test_a_save_without_a_change_sends_nothing(self, sent: Sent) -> None:
        Post.get(post_id="a91f").save()
        assert sent == []

    def test_what_is_set_to_none_is_removed(self) -> None:
        post = Post.get(post_id="a91f")
        post.body = None
        post.save()
        assert "body" not in (item("POST#a91f", "META") or {})

    def test_two_edits_of_two_attributes_both_stay(self) -> None:
        one, other = (Post.get(post_id="a91f") for _ in range(2))
        one.body, other.author_id = "new", "bob"
        one.save()
        other.save()
        stored = item("POST#a91f", "META") or {}
        assert (stored["body"], stored["authorId"]) == ({"S": "new"}, {"S": "bob"})

    def test_what_the_model_does_not_declare_stays(self) -> None:
        put("POST#a91f", "META", likeTally={"N": "0"}, createdAt={"N": "1"}, legacy={"S": "keep me"})
        post = Post.get(post_id="a91f")
        post.body = "new"
        post.save()
        Post(post_id="a91f", body="newer", created_at=2).save()
        assert (item("POST#a91f", "META") or {})["legacy"] == {"S": "keep me"}

    def test_a_save_over_an_existing_post_keeps_its_tally_and_shows_it(self) -> None:
        like("u", "v")
        again = Post(post_id="a91f", body="again", created_at=2)
        again.save()
        assert again.like_tally == 2
        assert item("POST#a91f", "META") == {
            "likeTally": {"N": "2"},
            "body": {"S": "again"},
            "createdAt": {"N": "2"},
        }

    def test_a_second_save_sends_only_what_changed_since_the_first(self, sent: Sent) -> None:
        post = Post(post_id="new", body="hi")
        post.save()
        like("u")
        post.body = "ho"
        sent.clear()
        post.save()
        assert [request["UpdateExpression"] for _, request in sent] == ["SET body = :v0"]

    def test_an_edit_of_a_deleted_post_does_not_bring_it_back(self) -> None:
        post = Post.get(post_id="a91f")
        Post.get(post_id="a91f").delete()
        post.body = "new"
        with pytest.raises(ParentMissing, match="was deleted since it was loaded"):
            post.save()
        assert items("POST#") == {}

    def test_a_condition_reaches_the_wire_and_fails_as_pynamodbs_does(self) -> None:
        post = Post.get(post_id="a91f")
        post.body = "new"
        with pytest.raises(PutError) as error:
            post.save(condition=Post.author_id == "bob")
        assert error.value.cause_response_code == "ConditionalCheckFailedException"
        post.save(condition=Post.author_id == "ada")
        with pytest.raises(PutError):
            Post(post_id="a91f").save(condition=Post.pk.does_not_exist())

    @pytest.mark.parametrize("verb", ["edit", "over", "update", "delete"])
    def test_a_condition_of_several_parts(self, verb: str) -> None:
        post = Post.get(post_id="a91f")
        holds = (Post.author_id == "ada") & (Post.body.exists() | Post.created_at.exists())
        if verb == "edit":
            post.body = "new"
            post.save(condition=holds)
        elif verb == "over":
            Post(post_id="a91f", body="new", author_id="ada").save(condition=holds)
        elif verb == "update":
            post.update([Post.body.set("new")], condition=holds)
        else:
            post.delete(condition=holds)
        assert (item("POST#a91f", "META") or {"body": {"S": "new"}})["body"] == {"S": "new"}

    def test_a_condition_may_look_at_a_tally(self) -> None:
        post = Post.get(post_id="a91f")
        like("u")
        post.body = "liked"
        with pytest.raises(PutError):
            post.save(condition=Post.like_tally == 0)
        post.save(condition=Post.like_tally > 0)
        assert (item("POST#a91f", "META") or {})["body"] == {"S": "liked"}

    def test_an_unseeded_post_stays_so_until_it_is_counted(self) -> None:
        like("u")
        unseed("POST#a91f", "likeTally")
        post = Post.get(post_id="a91f")
        post.body = "new"
        post.save()
        again = Post(post_id="a91f", body="newer")
        again.save()
        assert (number("POST#a91f", "likeTally"), again.like_tally) == (None, None)
        like("v")
        assert number("POST#a91f", "likeTally") == "2"

    def test_a_copy_in_memory_is_saved_as_the_loaded_post_is(self, sent: Sent) -> None:
        twin = copy.deepcopy(Post.get(post_id="a91f"))
        like("u")
        sent.clear()
        twin.body = "new"
        twin.save()
        assert [request["UpdateExpression"] for _, request in sent] == ["SET body = :v0"]
        assert number("POST#a91f", "likeTally") == "1"

    def test_the_key_of_a_loaded_post_cannot_change(self) -> None:
        post = Post.get(post_id="a91f")
        post.pk = "POST#other"
        with pytest.raises(ValueError, match="the key of a loaded item cannot change"):
            post.save()


class TestSaveMeanwhile:
    """A post comes, goes or is liked between the look at it and the write."""

    def test_a_post_that_just_came_keeps_its_likes(self) -> None:
        def come() -> None:
            Post(post_id="b", body="theirs", author_id="ada").save()
            assert Post.ref(post_id="b").likes.add(user_id="u")

        mine = Post(post_id="b", body="mine")
        with before("PutItem", come):
            mine.save()
        stored = item("POST#b", "META") or {}
        assert (stored["likeTally"], stored["body"], "authorId" in stored) == ({"N": "1"}, {"S": "mine"}, False)
        assert mine.like_tally == 1

    def test_a_post_that_just_went_is_created_and_starts_at_zero(self) -> None:
        like("u")

        def go() -> None:
            Post.ref(post_id="a91f").likes.remove(user_id="u")
            Post(post_id="a91f").delete()

        mine = Post(post_id="a91f", body="mine")
        with before("UpdateItem", go):
            mine.save()
        assert (number("POST#a91f", "likeTally"), mine.like_tally) == ("0", 0)

    def test_a_like_beside_an_edit_stays(self) -> None:
        post = Post.get(post_id="a91f")
        post.body = "new"
        with before("UpdateItem", lambda: like("u")):
            post.save()
        with before("UpdateItem", lambda: like("v")):
            post.update([Post.author_id.set("bob")])
        with before("UpdateItem", lambda: like("w")):
            Post(post_id="a91f", body="newer").save()
        assert number("POST#a91f", "likeTally") == "3"


class TestVersions:
    def test_an_edit_checks_and_raises_the_version(self) -> None:
        one, other = (Product.get(product_id="p") for _ in range(2))
        one.title, other.title = "one", "other"
        one.save()
        with pytest.raises(PutError, match="its version moved on"):
            other.save()
        assert (one.version, Product.get(product_id="p").version) == (2, 2)
        assert Product.get(product_id="p").title == "one"

    def test_a_like_neither_checks_nor_raises_it(self) -> None:
        loaded = Product.get(product_id="p")
        assert Product.ref(product_id="p").reviews.add(number=1)
        loaded.title = "new"
        loaded.save()
        stored = Product.get(product_id="p")
        assert (stored.version, stored.title, stored.review_tally) == (2, "new", 1)

    def test_a_new_item_over_an_existing_one_is_refused_by_its_version(self) -> None:
        with pytest.raises(PutError):
            Product(product_id="p").save()

    def test_the_version_can_be_left_out(self) -> None:
        one, other = (Product.get(product_id="p") for _ in range(2))
        one.title, other.title = "one", "other"
        one.save()
        other.save(add_version_condition=False)
        assert Product.get(product_id="p").title == "other"

    def test_update_raises_it_once(self) -> None:
        product = Product.get(product_id="p")
        product.update([Product.title.set("new")])
        assert (product.version, product.title) == (2, "new")
        stale = Product.get(product_id="p")
        product.update([Product.title.set("newer")])
        with pytest.raises(UpdateError):
            stale.update([Product.title.set("stale")])
        assert Product.get(product_id="p").version == 3

    def test_an_item_from_before_the_version_gets_its_first(self) -> None:
        put("PRODUCT#old", "META", title={"S": "old"})
        product = Product.get(product_id="old")
        assert product.version is None
        product.title = "new"
        product.save()
        assert item("PRODUCT#old", "META") == {"title": {"S": "new"}, "version": {"N": "1"}}

    def test_a_version_that_moves_at_the_last_moment_is_noticed(self) -> None:
        mine = Product.get(product_id="p")
        mine.title = "mine"

        def theirs() -> None:
            product = Product.get(product_id="p")
            product.title = "theirs"
            product.save()

        with before("TransactWriteItems", theirs), pytest.raises(PutError):
            mine.save()
        assert Product.get(product_id="p").title == "theirs"

    def test_a_stale_delete_is_refused(self) -> None:
        stale, product = (Product.get(product_id="p") for _ in range(2))
        product.title = "new"
        product.save()
        with pytest.raises(DeleteError):
            stale.delete()
        product.delete()
        assert items("PRODUCT#") == {}


class TestUncountedWrites:
    def test_a_tally_cannot_be_assigned_or_given(self) -> None:
        post = Post.get(post_id="a91f")
        with pytest.raises(UncountedWrite, match=r"Post\.like_tally cannot be assigned"):
            post.like_tally = 5
        with pytest.raises(UncountedWrite):
            Post(post_id="new", like_tally=5)

    @pytest.mark.parametrize("action", [Post.like_tally.set(5), Post.like_tally.add(1), Post.like_tally.remove()])
    def test_update_cannot_move_it(self, action: Any, sent: Sent) -> None:
        with pytest.raises(UncountedWrite, match=r"Post\.like_tally cannot be written by update\(\)"):
            Post(post_id="a91f").update([action])
        assert sent == []

    @pytest.mark.parametrize("mark", ["likeTallyPending", "likeTallyClosed", "likeTallyWas"])
    def test_update_cannot_move_the_librarys_own_marks(self, mark: str, sent: Sent) -> None:
        with pytest.raises(UncountedWrite):
            Post(post_id="a91f").update([Path(mark).set(1)])
        assert sent == []

    def test_update_of_the_rest_works_and_gives_the_item_back(self) -> None:
        like("u")
        post = Post(post_id="a91f")
        post.update([Post.body.set("new"), Post.author_id.remove()])
        assert (post.body, post.author_id, post.like_tally) == ("new", None, 1)
        with pytest.raises(ParentMissing):
            Post(post_id="gone").update([Post.body.set("new")])
        assert items("POST#gone") == {}

    @pytest.mark.parametrize("verb", ["update", "refresh"])
    def test_a_tally_that_is_no_number_is_named(self, verb: str) -> None:
        post = Post.get(post_id="a91f")
        put("POST#a91f", "META", likeTally={"S": "3"})
        with pytest.raises(CounterTypeError, match=r"POST#a91f"):
            post.update([Post.body.set("new")]) if verb == "update" else post.refresh()

    @pytest.mark.parametrize("model", [Post, Like])
    def test_a_batch_is_refused(self, model: Any) -> None:
        with pytest.raises(UncountedWrite, match=rf"{model.__name__}\.batch_write\(\)"):
            model.batch_write()

    def test_pynamodbs_own_transaction_is_refused(self) -> None:
        with (
            pytest.raises(UncountedWrite, match=r"with transaction\(\) as tx"),
            TransactWrite(connection=Connection()) as tx,
        ):
            tx.save(Like(post_id="a91f", user_id="u"))
        assert number("POST#a91f", "likeTally") == "0"


class TestRestrict:
    def test_a_post_with_likes_is_not_deleted(self) -> None:
        like("u")
        with pytest.raises(ParentNotEmpty, match=r"Post\.like_tally is 1\. Delete its children first"):
            Post.get(post_id="a91f").delete()
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_post_whose_likes_are_taken_back_is(self) -> None:
        like("u")
        Post.ref(post_id="a91f").likes.discard(user_id="u")
        Post.get(post_id="a91f").delete()
        assert items("POST#") == {}

    def test_a_post_that_was_not_loaded_is_held_to_it_too(self) -> None:
        like("u")
        with pytest.raises(ParentNotEmpty):
            Post(post_id="a91f").delete()

    def test_a_stale_post_is_held_to_it_too(self) -> None:
        post = Post.get(post_id="a91f")
        like("u")
        with pytest.raises(ParentNotEmpty):
            post.delete()

    def test_an_unseeded_post_is_counted_before_it_is_deleted(self) -> None:
        like("u")
        unseed("POST#a91f", "likeTally")
        with pytest.raises(ParentNotEmpty):
            Post.get(post_id="a91f").delete()
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_like_at_the_last_moment_keeps_the_post(self) -> None:
        post = Post.get(post_id="a91f")
        with before("DeleteItem", lambda: like("u")), pytest.raises(ParentNotEmpty):
            post.delete()
        assert number("POST#a91f", "likeTally") == "1"
        assert Post.ref(post_id="a91f").likes.recount() == 1

    @pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.INTERNAL_ERROR, Fault.CONFLICT])
    def test_a_fault_on_the_way_changes_nothing(self, fault: Fault) -> None:
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(fault, operation="DeleteItem")
            Post.get(post_id="a91f").delete()
        assert items("POST#") == {}

    @pytest.mark.parametrize("stored", [{"S": "0"}, {"NULL": True}])
    def test_a_tally_that_is_no_number_is_named(self, stored: dict[str, Any]) -> None:
        put("POST#a91f", "META", likeTally=stored)
        with pytest.raises(CounterTypeError, match=r"PK='POST#a91f' SK='META'.*likeTally"):
            Post(post_id="a91f").delete()

    def test_a_post_is_deleted_twice_without_complaint(self) -> None:
        one, other = (Post.get(post_id="a91f") for _ in range(2))
        one.delete()
        other.delete()
        assert items("POST#") == {}

    def test_a_post_that_comes_again_starts_at_zero(self) -> None:
        post = Post.get(post_id="a91f")
        post.delete()
        post.save()
        like("u")
        assert number("POST#a91f", "likeTally") == "1"


class TestCascade:
    def fill(self, many: int = 3) -> None:
        for index in range(many):
            assert Album.ref(album_id="a").photos.add(photo_id=f"{index:03}")

    def test_it_takes_the_children_along(self) -> None:
        self.fill()
        Album.get(album_id="a").delete()
        assert items("ALBUM#") == {}

    def test_it_takes_many_in_few_transactions(self, sent: Sent) -> None:
        for index in range(120):
            put("ALBUM#a", f"PHOTO#{index:03}")
        sent.clear()
        Album.get(album_id="a").delete()
        sizes = [len(request["TransactItems"]) for operation, request in sent if operation == "TransactWriteItems"]
        assert sizes == [100, 22]
        assert items("ALBUM#") == {}

    def test_what_is_refused_together_is_deleted_in_parts(self) -> None:
        self.fill(5)
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next_error("ValidationException", "too large", operation="TransactWriteItems")
            injector.next_error(
                "TransactionCanceledException",
                "no",
                reasons=["ValidationError", None, None],
                operation="TransactWriteItems",
            )
            Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    def test_a_child_that_dynamodb_refuses_to_delete_is_told_and_the_parent_stays_closed(self) -> None:
        self.fill(1)
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next_error("ValidationException", "no", operation="TransactWriteItems")
            told = r"SK='PHOTO#000'.*no\. The parent stays closed; .*delete\(\) again"
            with pytest.raises(PynacountError, match=told):
                Album(album_id="a").delete()
        assert sorted(items("ALBUM#")) == [("ALBUM#a", "META"), ("ALBUM#a", "PHOTO#000")]
        Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    def test_no_child_comes_or_goes_once_it_has_begun(self) -> None:
        self.fill()
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                Album.get(album_id="a").delete()
        album = Album.ref(album_id="a")
        for call, photo in ((album.photos.add, "new"), (album.photos.discard, "000")):
            with pytest.raises(ParentMissing, match=r"is being deleted.*calling delete\(\) again"):
                call(photo_id=photo)
        with pytest.raises(ParentMissing):
            Album.photo_tally.seed(album)
        assert len(items("ALBUM#")) == 4

    @pytest.mark.parametrize("step", range(4))
    def test_it_can_be_interrupted_anywhere_and_called_again(self, step: int) -> None:
        self.fill()
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next(*[None] * step)
            injector.next_error("AccessDeniedException", "no")
            with pytest.raises(Exception, match="AccessDenied"):
                Album(album_id="a").delete()
        Album(album_id="a").delete()
        assert items("ALBUM#") == {}
        Album(album_id="a").save()
        self.fill()
        assert number("ALBUM#a", "photoTally") == "3"

    @pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.INTERNAL_ERROR, Fault.CONFLICT])
    @pytest.mark.parametrize("step", range(4))
    def test_a_fault_on_the_way_changes_nothing(self, step: int, fault: Fault) -> None:
        self.fill()
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next(*[None] * step, fault)
            Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    def test_a_photo_just_before_it_goes_along(self) -> None:
        self.fill()
        with before("UpdateItem", lambda: Album.ref(album_id="a").photos.add(photo_id="late")):
            Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    @pytest.mark.parametrize("operation", ["Query", "TransactWriteItems", "DeleteItem"])
    def test_a_photo_that_comes_in_the_midst_of_it_is_refused(self, operation: str) -> None:
        self.fill()

        def late() -> None:
            for verb in ("add", "discard"):
                with pytest.raises(ParentMissing):
                    getattr(Album.ref(album_id="a").photos, verb)(photo_id="000" if verb == "discard" else "late")

        if operation == "DeleteItem":  # no photo is left to discard
            late = self.add_late
        with before(operation, late):
            Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    def add_late(self) -> None:
        with pytest.raises(ParentMissing):
            Album.ref(album_id="a").photos.add(photo_id="late")

    def test_two_at_once_both_finish(self) -> None:
        for operation in ("UpdateItem", "Query", "TransactWriteItems", "DeleteItem"):
            Album(album_id="a").save()
            self.fill()
            with before(operation, Album(album_id="a").delete):
                Album(album_id="a").delete()
            assert items("ALBUM#") == {}, operation

    def test_an_album_that_just_came_again_keeps_its_photos(self) -> None:
        self.fill()

        def again() -> None:
            Album(album_id="a").delete()
            Album(album_id="a", title="new").save()
            assert Album.ref(album_id="a").photos.add(photo_id="000")

        with before("TransactWriteItems", again):
            Album(album_id="a").delete()
        assert number("ALBUM#a", "photoTally") == "1"
        assert Album.ref(album_id="a").photos.recount() == 1

    def test_a_save_of_what_is_half_deleted_does_not_open_it_again(self) -> None:
        self.fill()
        loaded = Album.get(album_id="a")
        with FaultInjector(connection_for(Album.Meta).client) as injector:
            injector.next_error("AccessDeniedException", "no", operation="Query")
            with pytest.raises(Exception, match="AccessDenied"):
                Album(album_id="a").delete()
        loaded.title = "edited"
        loaded.save()
        Album(album_id="a", title="saved over").save()
        assert (item("ALBUM#a", "META") or {}).keys() == {"photoTallyClosed", "title"}
        self.add_late()
        Album(album_id="a").delete()
        assert items("ALBUM#") == {}

    def test_a_condition_that_does_not_hold_closes_nothing(self) -> None:
        self.fill()
        with pytest.raises(DeleteError):
            Album(album_id="a").delete(condition=Album.title == "x")
        assert number("ALBUM#a", "photoTally") == "3"
        assert Album.ref(album_id="a").photos.add(photo_id="more")

    def test_it_waits_until_what_was_committed_can_be_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        waits: list[float] = []
        monkeypatch.setattr("pynacount.commit.time.sleep", waits.append)
        monkeypatch.setattr(Album.photo_tally, "settle", 0.75)
        monkeypatch.setattr(Album.photo_tally, "_tally", None)
        Album(album_id="a").delete()
        assert waits == [0.75]

    def test_an_album_that_is_gone_is_deleted_already(self) -> None:
        Album(album_id="never").delete()
        assert items("ALBUM#never") == {}

    def test_a_child_that_counts_twice_in_its_parent_goes_with_it(self) -> None:
        class Shelf(CountedModel):
            Meta = Meta
            pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("META", range_key=True, attr_name="SK")
            book_tally = CounterField(attr_name="bookTally", on_delete="cascade", settle=0)
            page_tally = CounterField(attr_name="pageTally", on_delete="cascade", settle=0)

        class Book(CountedModel):
            Meta = Meta
            pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
            sk = KeyAttribute("BOOK#{title}", range_key=True, attr_name="SK")
            pages = NumberAttribute(default=0)
            counted = CountedIn(Shelf.book_tally)
            read = CountedIn(Shelf.page_tally, amount="pages")

        Shelf(shelf_id="s").save()
        Book(shelf_id="s", title="a", pages=100).save()
        Book(shelf_id="s", title="b", pages=0).save()
        Shelf.get(shelf_id="s").delete()
        assert items("SHELF#") == {}


class Country(CountedModel):
    class Meta:
        table_name = "Land"

    pk = KeyAttribute("COUNTRY#{country_id}", hash_key=True)
    sk = KeyAttribute("META", range_key=True)
    street_tally = CounterField(settle=0)
    house_tally = CounterField(settle=0)


class City(CountedModel):
    """Takes its streets along, which take their houses; but not while it has guests."""

    class Meta:
        table_name = "Land"

    pk = KeyAttribute("CITY#{city_id}", hash_key=True)
    sk = KeyAttribute("META", range_key=True)
    name = UnicodeAttribute(null=True)
    version = VersionAttribute()
    street_tally = CounterField(on_delete="cascade", settle=0)
    guest_tally = CounterField(settle=0)


class Street(CountedModel):
    class Meta:
        table_name = "Land"

    pk = KeyAttribute("CITY#{city_id}", hash_key=True)
    sk = KeyAttribute("STREET#{street_id}", range_key=True)
    country_id = UnicodeAttribute(null=True)
    house_tally = CounterField(on_delete="cascade", settle=0)
    city = CountedIn(City.street_tally)
    country = CountedIn(Country.street_tally)


class House(CountedModel):
    class Meta:
        table_name = "Land"

    pk = KeyAttribute("CITY#{city_id}", hash_key=True)
    sk = KeyAttribute("HOUSE#{street_id}#{number:int}", range_key=True)
    country_id = UnicodeAttribute(null=True)
    street = CountedIn(Street.house_tally)
    country = CountedIn(Country.house_tally)


class Guest(CountedModel):
    class Meta:
        table_name = "Land"

    pk = KeyAttribute("CITY#{city_id}", hash_key=True)
    sk = KeyAttribute("GUEST#{name}", range_key=True)
    city = CountedIn(City.guest_tally)


class TestDeepCascade:
    """Children that count elsewhere too, and have children of their own."""

    @pytest.fixture(autouse=True)
    def land(self, social: None, tables: Callable[..., None]) -> None:
        tables(Country, City, Street, House, Guest)
        Country(country_id="x").save()
        Country(country_id="y").save()
        self.build()

    def build(self) -> None:
        City(city_id="c").save()
        for street, country in (("a", "x"), ("b", "y")):
            Street(city_id="c", street_id=street, country_id=country).save()
            for house in range(2):
                House(city_id="c", street_id=street, number=house, country_id=country).save()

    def delete(self) -> None:
        City(city_id="c").delete(add_version_condition=False)

    def left(self) -> set[tuple[str, str]]:
        stored = raw().scan(TableName="Land", ConsistentRead=True)["Items"]
        return {(one["pk"]["S"], one["sk"]["S"]) for one in stored if not one["pk"]["S"].startswith("COUNTRY#")}

    def countries(self) -> list[tuple[Any, Any]]:
        return [(c.street_tally, c.house_tally) for c in (Country.get(country_id=name) for name in ("x", "y"))]

    def test_all_go_and_are_taken_out_wherever_they_counted(self) -> None:
        assert self.countries() == [(1, 2), (1, 2)]
        City.get(city_id="c").delete()
        assert (self.left(), self.countries()) == (set(), [(0, 0), (0, 0)])

    def test_it_can_be_interrupted_anywhere_and_called_again(self) -> None:
        interrupted = 0
        for step in range(100):
            with FaultInjector(connection_for(City.Meta).client) as injector:
                injector.next(*[None] * step)
                injector.next_error("AccessDeniedException", "no")
                try:
                    self.delete()
                except PynamoDBException as error:
                    assert "AccessDenied" in str(error)
                    interrupted += 1
                else:
                    break
        assert interrupted > 5
        assert (self.left(), self.countries()) == (set(), [(0, 0), (0, 0)])

    @pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.CONFLICT])
    @pytest.mark.parametrize("step", range(0, 16, 3))
    def test_a_fault_on_the_way_changes_nothing(self, step: int, fault: Fault) -> None:
        with FaultInjector(connection_for(City.Meta).client) as injector:
            injector.next(*[None] * step, fault)
            self.delete()
        assert (self.left(), self.countries()) == (set(), [(0, 0), (0, 0)])

    def test_a_child_that_must_go_first_stops_it_before_it_begins(self) -> None:
        Guest(city_id="c", name="ann").save()
        with pytest.raises(ParentNotEmpty, match=r"City\.guest_tally is 1"):
            self.delete()
        assert City.get(city_id="c").street_tally == 2
        assert self.countries() == [(1, 2), (1, 2)]

    def test_a_child_that_would_forbid_it_cannot_come_in_the_midst_of_it(self) -> None:
        def come() -> None:
            with suppress(ParentMissing):
                Guest(city_id="c", name="ann").save()

        with before("Query", come, City.Meta), suppress(ParentNotEmpty):
            self.delete()
        guests = len([sk for _, sk in self.left() if sk.startswith("GUEST#")])
        if not self.left() - {("CITY#c", "GUEST#ann")}:
            City(city_id="c").save()
        assert City.get(city_id="c").guest_tally == guests

    def test_one_that_goes_while_it_is_counted_on_the_way_is_deleted_already(self) -> None:
        key = {"pk": {"S": "CITY#c"}, "sk": {"S": "META"}}
        raw().update_item(TableName="Land", Key=key, UpdateExpression="REMOVE guest_tally")
        with before("Query", lambda: raw().delete_item(TableName="Land", Key=key), City.Meta):
            self.delete()
        assert ("CITY#c", "META") not in self.left()

    def test_a_stale_one_closes_nothing(self) -> None:
        stale, city = (City.get(city_id="c") for _ in range(2))
        city.name = "new"
        city.save()
        with pytest.raises(DeleteError, match="its version moved on"):
            stale.delete()
        assert City.get(city_id="c").street_tally == 2


class Shop(CountedModel):
    class Meta:
        table_name = "Shops"

    pk = KeyAttribute("SHOP#{shop_id}", hash_key=True)
    order_tally = CounterField(on_delete="cascade", settle=0)
    orders: CountedSet[Any] = CountedSet("Order", tally="order_tally")


class ByShop(GlobalSecondaryIndex[Any]):
    class Meta:
        index_name = "by-shop"
        projection = KeysOnlyProjection()

    shop_id = UnicodeAttribute(hash_key=True)


class Order(CountedModel):
    """Lies in a partition of its own, and is found by an index of keys alone."""

    class Meta:
        table_name = "Orders"

    pk = KeyAttribute("ORDER#{order_id}", hash_key=True)
    shop_id = UnicodeAttribute(null=True)
    note = UnicodeAttribute(null=True)
    by_shop = ByShop()
    shop = CountedIn(Shop.order_tally, index="by-shop")


class TestCascadeByIndex:
    def test_it_takes_the_children_that_the_index_finds_and_no_others(self, tables: Callable[..., None]) -> None:
        tables(Shop, Order)
        for name in ("s", "t"):
            Shop(shop_id=name).save()
        for order in ("0", "1", "2", "3"):
            Order(order_id=order, shop_id="s").save()
        moved = Order.get(order_id="3")
        moved.shop_id = "t"
        moved.save()
        shop = Shop.get(shop_id="s")
        assert (shop.order_tally, shop.orders.recount()) == (3, 3)
        shop.delete()
        assert [order.order_id for order in Order.scan()] == ["3"]
        assert Shop.get(shop_id="t").order_tally == 1

    def test_what_an_index_shows_in_part_can_be_edited_and_deleted(self, tables: Callable[..., None]) -> None:
        tables(Shop, Order)
        Shop(shop_id="s").save()
        for order in ("0", "1"):
            Order(order_id=order, shop_id="s", note="kept").save()
        one, other = Order.by_shop.query("s")
        one.shop_id = None
        one.save()
        assert Order.get(one.pk).note == "kept"
        other.delete()
        assert Shop.get(shop_id="s").order_tally == 0


class TestLeave:
    def test_the_children_stay_and_are_counted_when_the_parent_comes_again(self) -> None:
        for pin in ("1", "2"):
            assert Board.ref(board_id="b").pins.add(pin_id=pin)
        Board.get(board_id="b").delete()
        assert [sk for _, sk in items("BOARD#")] == ["PIN#1", "PIN#2"]
        Board(board_id="b").save()
        assert number("BOARD#b", "pinTally") is None
        assert Board.ref(board_id="b").pins.add(pin_id="3")
        assert number("BOARD#b", "pinTally") == "3"

    def test_a_pin_at_the_last_moment_is_left_too_and_counted_later(self) -> None:
        with before("DeleteItem", lambda: Board.ref(board_id="b").pins.add(pin_id="1")):
            Board.get(board_id="b").delete()
        assert [sk for _, sk in items("BOARD#")] == ["PIN#1"]
        with pytest.raises(ParentMissing):
            Board.ref(board_id="b").pins.add(pin_id="2")
        Board(board_id="b").save()
        assert Board.pin_tally.seed(Board.ref(board_id="b")) == 1

    def test_it_is_deleted_twice_without_complaint(self) -> None:
        one, other = (Board.get(board_id="b") for _ in range(2))
        Board.ref(board_id="b").pins.add(pin_id="1")
        one.delete()
        other.delete()
        assert [sk for _, sk in items("BOARD#")] == ["PIN#1"]

    def test_a_pin_discarded_while_the_board_is_gone_is_not_counted_when_it_is_back(self) -> None:
        board = Board.ref(board_id="b")
        for pin in ("1", "2"):
            assert board.pins.add(pin_id=pin)
        Board.get(board_id="b").delete()
        assert board.pins.discard(pin_id="1")
        with before("TransactWriteItems", Board(board_id="b").save):
            assert board.pins.discard(pin_id="2")
        assert Board.pin_tally.seed(board) == 0
        assert items("BOARD#").keys() == {("BOARD#b", "META")}

    def test_a_child_of_a_parent_that_left_can_be_taken_away(self) -> None:
        Board.ref(board_id="b").pins.add(pin_id="1")
        Board.get(board_id="b").delete()
        Pin(board_id="b", pin_id="1").delete()
        assert items("BOARD#") == {}


class TestPynamoDB:
    """What PynamoDB's models can do, these can."""

    def test_reading(self) -> None:
        like("u", "v")
        assert Post.get("POST#a91f", "META").like_tally == 2
        assert [post.like_tally for post in Post.query("POST#a91f", Post.sk == "META")] == [2]
        assert [found.user_id for found in Like.query("POST#a91f", Like.sk.startswith("LIKE#"))] == ["u", "v"]
        assert [post.like_tally for post in Post.batch_get([("POST#a91f", "META")])] == [2]
        assert Like.count("POST#a91f", Like.sk.startswith("LIKE#")) == 2
        assert len(list(Like.scan(Like.sk.startswith("LIKE#")))) == 2

    def test_what_a_query_found_can_be_saved(self) -> None:
        (post,) = Post.query("POST#a91f", Post.sk == "META")
        like("u")
        post.body = "new"
        post.save()
        assert (Post.get(post_id="a91f").body, number("POST#a91f", "likeTally")) == ("new", "1")

    def test_refresh_follows_the_table(self) -> None:
        post = Post.get(post_id="a91f")
        like("u")
        post.refresh()
        assert post.like_tally == 1
        post.body = "new"
        post.save()
        assert number("POST#a91f", "likeTally") == "1"

    def test_refresh_after_an_edit_of_ones_own_drops_it(self) -> None:
        post = Post.get(post_id="a91f")
        post.body = "unsaved"
        post.refresh()
        post.author_id = "bob"
        post.save()
        stored = item("POST#a91f", "META") or {}
        assert (stored["body"], stored["authorId"]) == ({"S": "old"}, {"S": "bob"})

    def test_tallies_can_be_asked_for_in_filters(self) -> None:
        like("u")
        Post(post_id="b").save()
        assert [post.post_id for post in Post.scan(Post.like_tally >= 1)] == ["a91f"]
        assert [post.post_id for post in Post.scan(Post.like_tally.between(0, 0))] == ["b"]
        assert [post.post_id for post in Post.query("POST#b", filter_condition=Post.like_tally.is_in(0, 1))] == ["b"]

    def test_batch_get_keeps_what_it_found_fit_for_saving(self) -> None:
        Post(post_id="b").save()
        for post in Post.batch_get([("POST#a91f", "META"), ("POST#b", "META"), ("POST#gone", "META")]):
            like("u") if post.post_id == "a91f" else None
            post.body = "batch"
            post.save()
        stored = items("POST#")
        assert {pk: one["body"]["S"] for (pk, sk), one in stored.items() if sk == "META"} == {
            "POST#a91f": "batch",
            "POST#b": "batch",
        }
        assert number("POST#a91f", "likeTally") == "1"

    def test_a_dictionary_of_a_post_shows_its_tally(self) -> None:
        like("u")
        assert Post.get(post_id="a91f").to_simple_dict()["likeTally"] == 1

    def test_a_missing_item_is_pynamodbs_does_not_exist(self) -> None:
        with pytest.raises(Post.DoesNotExist):
            Post.get(post_id="gone")

    def test_a_part_of_an_item_can_be_read(self) -> None:
        post = Post.get("POST#a91f", "META", attributes_to_get=["PK", "SK", "likeTally"])
        assert (post.like_tally, post.body) == (0, None)

    def test_an_edit_of_a_part_leaves_the_rest(self) -> None:
        part = Post.get("POST#a91f", "META", attributes_to_get=["PK", "SK"])
        like("u")
        part.body = "new"
        part.save()
        assert item("POST#a91f", "META") == {
            "likeTally": {"N": "1"},
            "body": {"S": "new"},
            "authorId": {"S": "ada"},
            "createdAt": {"N": "1"},
        }

    def test_an_unseeded_tally_reads_as_none(self) -> None:
        unseed("POST#a91f", "likeTally")
        assert Post.get(post_id="a91f").like_tally is None
        assert Post.like_tally.value(Post.ref(post_id="a91f")) is None

    def test_a_ref_knows_its_key_and_nothing_else(self) -> None:
        ref = Post.ref(post_id="a91f")
        assert (ref.post_id, repr(ref)) == ("a91f", "Post.ref(post_id='a91f')")
        assert ref == Post.ref("POST#a91f") and len({ref, Post.ref("POST#a91f", "META")}) == 1
        with pytest.raises(AttributeError, match=r"has read nothing, so it has no 'body'.*Post\.get\(post_id='a91f'\)"):
            _ = ref.body


def test_a_lost_answer_to_a_delete_is_told_as_unknown_and_can_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Post.Meta, "counted_deadline", 0.05)
    with (
        FaultInjector(connection_for(Post.Meta).client, rates={Fault.LOST_RESPONSE: 1.0}),
        pytest.raises(OutcomeUnknown),
    ):
        Post(post_id="a91f").delete()
    Post(post_id="a91f").delete()
    assert raw().scan(TableName="Town")["Count"] == 3


@pytest.mark.parametrize("circle", ["a", "ab", "abc"])
def test_a_cascade_over_a_circle_comes_to_an_end(circle: str, tables: Callable[..., None]) -> None:
    class ByUp(GlobalSecondaryIndex[Any]):
        class Meta:
            index_name = "by-up"
            projection = KeysOnlyProjection()

        up = UnicodeAttribute(hash_key=True)

    class Node(CountedModel):
        class Meta:
            table_name = "Nodes"

        pk = KeyAttribute("NODE#{node_id}", hash_key=True)
        up = UnicodeAttribute(null=True)
        by_up = ByUp()
        tally = CounterField(on_delete="cascade", settle=0)
        parent = CountedIn(tally, node_id="up", index="by-up")

    tables(Node)
    for name in circle:
        Node(node_id=name).save()
    for name, up in zip(circle, circle[1:] + circle[0], strict=True):
        node = Node.get(node_id=name)
        node.up = up
        node.save()
    assert [node.tally for node in Node.scan()] == [1] * len(circle)
    Node.get(node_id="a").delete()
    assert list(Node.scan()) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda post: post.save(),
        lambda post: post.delete(),
        lambda post: post.post_id,
        lambda post: post.likes.add(user_id="2"),
        lambda post: Post.like_tally.seed(post),
    ],
)
def test_what_was_read_without_its_key_says_so(tables: Callable[..., None], use: Callable[[Any], Any]) -> None:
    tables(Post)
    Post(post_id="keyless", body="x").save()
    part = Post.get(post_id="keyless", attributes_to_get=["body"])
    with pytest.raises(KeyTemplateError, match=r"read without PK and SK.*attributes_to_get=\['PK', 'SK', \.\.\.\]"):
        use(part)
