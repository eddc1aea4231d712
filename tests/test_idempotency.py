"""A request that comes again under its key: done once, told the same, and not done late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models, transaction
from pynacount.connections import connection_for
from pynacount.errors import AlreadyCounted, KeyTemplateError, NotCounted, OutcomeUnknown, ParentMissing, TokenReused
from pynacount.idempotency import MOST_CHARACTERS, idempotency_key, new_id
from pynacount.tallies import audit
from pynacount.testing import Fault, FaultInjector, assert_exact, record_requests
from pynacount.writing import requested
from social import ALL, Album, Like, Photo, Post, Product, Review, User, items, number


class Stats(CountedModel):
    class Meta:
        table_name = "Town"

    pk = KeyAttribute("VIDEO#{video_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("STATS", range_key=True, attr_name="SK")
    plays = CounterField(attr_name="plays")


@pytest.fixture(autouse=True)
def town(tables: Callable[..., None]) -> None:
    tables(*ALL)
    Post(post_id="a").save()


def post() -> Any:
    return Post.ref(post_id="a")


def like(key: str | None, user: str = "u", scope: str = "") -> bool:
    with idempotency_key(key, scope):
        return post().likes.add(user_id=user)


def unlike(key: str | None, user: str = "u") -> bool:
    with idempotency_key(key):
        return post().likes.discard(user_id=user)


def test_a_like_that_comes_again_is_told_what_the_first_was_told() -> None:
    assert [like("k"), like("k"), like("other"), like(None)] == [True, True, False, False]
    assert number("POST#a", "likeTally") == "1"


def test_a_save_that_comes_again_is_no_like_that_was_there_already() -> None:
    for _ in range(2):
        with idempotency_key("k"):
            Like(post_id="a", user_id="u").save()
    with idempotency_key("other"), pytest.raises(AlreadyCounted):
        Like(post_id="a", user_id="u").save()


def test_a_like_that_comes_late_does_not_bring_back_what_was_taken_back() -> None:
    assert like("first") and unlike("second")
    assert like("first")
    assert not post().likes.contains(user_id="u")
    assert number("POST#a", "likeTally") == "0"


def test_an_unlike_that_comes_again_is_told_what_the_first_was_told() -> None:
    like(None)
    assert [unlike("k"), unlike("k"), unlike("other")] == [True, True, False]


def test_so_is_one_that_must_be_read_before_it_is_deleted() -> None:
    Product(product_id="p").save()
    User(user_id="7c20").save()
    Review(product_id="p", number=1, author_id="7c20", stars=5).save()
    for _ in range(2):
        with idempotency_key("k"):
            Product.ref(product_id="p").reviews.remove(number=1)
    with idempotency_key("other"), pytest.raises(NotCounted):
        Product.ref(product_id="p").reviews.remove(number=1)
    assert number("PRODUCT#p", "star-sum") == "0"


def test_a_request_that_wrote_nothing_leaves_its_key_as_good_as_new() -> None:
    like(None)
    assert not like("k")
    unlike(None)
    assert like("k")
    with idempotency_key("late"), pytest.raises(ParentMissing):
        Post.ref(post_id="gone").likes.add(user_id="u")
    Post(post_id="gone").save()
    with idempotency_key("late"):
        assert Post.ref(post_id="gone").likes.add(user_id="u")


def test_a_loaded_post_does_not_count_a_like_twice_in_memory() -> None:
    like("k")
    loaded = Post.get(post_id="a")
    with idempotency_key("k"):
        assert loaded.likes.add(user_id="u")
    assert loaded.like_tally == 1


def test_what_was_replayed_can_be_edited_as_what_was_saved() -> None:
    for stars in (4, 5):
        with idempotency_key("k"):
            review = Review(product_id="p", number=1, stars=3)
            if stars == 4:
                Product(product_id="p").save()
            review.save()
        review.stars = stars
        review.save()
    assert number("PRODUCT#p", "star-sum") == "5"


def test_one_key_for_two_things_is_refused() -> None:
    like("k")
    with pytest.raises(TokenReused, match=r"used before, to create Like PK='POST#a'.*comes now to delete Like"):
        unlike("k")
    assert post().likes.contains(user_id="u")


def test_two_scopes_and_two_users_may_use_one_key() -> None:
    assert like("k", "u")
    assert like("k", "v")
    assert not like("k", "u", scope="another path")
    assert number("POST#a", "likeTally") == "2"


def test_a_request_that_likes_and_takes_back_and_likes_is_done_once_whole() -> None:
    def view() -> list[bool]:
        with idempotency_key("k"):
            return [post().likes.add(user_id="u"), post().likes.discard(user_id="u"), post().likes.add(user_id="u")]

    assert view() == view() == [True, True, True]
    assert number("POST#a", "likeTally") == "1"


def test_a_transaction_of_the_applications_own_is_done_once() -> None:
    for _ in range(2):
        with idempotency_key("k"), transaction() as tx:
            tx.save(Like(post_id="a", user_id="u"))
            tx.save(Like(post_id="a", user_id="v"))
    assert number("POST#a", "likeTally") == "2"


def test_a_large_transaction_goes_without_a_marker() -> None:
    with idempotency_key("k"), transaction() as tx:
        for user in range(requested.MOST_INTENTS + 1):
            tx.save(Like(post_id="a", user_id=f"u{user}"))
    assert not items("ONCE#")


def test_a_cascade_leaves_no_markers() -> None:
    Album(album_id="a").save()
    Photo(album_id="a", photo_id="1").save()
    with idempotency_key("k"):
        Album.get(album_id="a").delete()
    assert not items("ONCE#") and not items("ALBUM#")


def test_a_marker_lives_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requested.time, "time", lambda: 1_000_000.0)
    like("k")
    ((_, marker),) = items("ONCE#").items()
    assert marker["expires"] == {"N": "1086400"}
    monkeypatch.setattr(requested.time, "time", lambda: 1_086_402.0)
    assert not like("k")  # as any second like
    unlike(None)
    assert like("k")


def test_without_a_key_the_request_is_what_it_was() -> None:
    with record_requests(connection_for(Like.Meta).client) as sent:
        like(None)
        like("k", "v")
    assert [len(request["TransactItems"]) for _, request in sent] == [2, 3]


def test_an_increment_takes_the_key_for_its_token() -> None:
    def play(key: str | None, by: int = 1) -> int:
        with idempotency_key(key):
            return Stats.plays.increment(Stats.ref(video_id="v"), by)

    assert [play("k"), play("k"), play("other"), play(None)] == [1, 1, 2, 3]
    with pytest.raises(TokenReused):
        play("k", 2)


def test_an_increment_in_a_table_whose_keys_are_numbers_goes_without(tables: Callable[..., None]) -> None:
    class Hits(CountedModel):
        class Meta:
            table_name = "Hits"

        page = NumberAttribute(hash_key=True)
        hits = CounterField(attr_name="hits")

    tables(Hits)
    for hits in (1, 2):
        with idempotency_key("k"):
            assert Hits.hits.increment(Hits.ref(7)) == hits


def test_two_increments_of_one_request_are_two() -> None:
    def view() -> list[int]:
        with idempotency_key("k"):
            video = Stats.ref(video_id="v")
            return [Stats.plays.increment(video), Stats.plays.increment(video, 5)]

    assert view() == [1, 6]
    assert view() == [6, 6]


def test_a_token_of_the_callers_own_goes_before_the_key() -> None:
    for key in ("k", "other"):
        with idempotency_key(key):
            assert Stats.plays.increment(Stats.ref(video_id="v"), once="order-17") == 1


@contextmanager
def losing(model: Any) -> Iterator[FaultInjector]:
    with FaultInjector(connection_for(model.Meta).client) as injector:
        injector.next(Fault.LOST_RESPONSE, *[Fault.REFUSED_CONNECTION] * 200)
        yield injector


def test_a_view_that_tries_again_after_an_unknown_outcome_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for model in (Stats, Like):
        monkeypatch.setattr(model.Meta, "counted_deadline", 0.2, raising=False)
    with idempotency_key("k"):
        with losing(Stats), pytest.raises(OutcomeUnknown):
            Stats.plays.increment(Stats.ref(video_id="v"))
        assert Stats.plays.increment(Stats.ref(video_id="v")) == 1
        with losing(Like), pytest.raises(OutcomeUnknown):
            post().likes.add(user_id="u")
        assert post().likes.add(user_id="u")
    assert number("POST#a", "likeTally") == "1"


@pytest.mark.parametrize("key", ["", "x" * (MOST_CHARACTERS + 1), "a\nb", "ключ"])
def test_a_key_that_is_none_is_refused_before_anything_is_sent(key: str) -> None:
    with pytest.raises(KeyTemplateError, match="idempotency key"):
        like(key)
    assert number("POST#a", "likeTally") == "0"


def test_markers_are_nothing_to_an_audit() -> None:
    like("k")
    like("other", "v")
    assert len(items("ONCE#")) == 2
    assert_exact(Post)
    assert [found.count for found in audit([Post.like_tally], workers=1)] == [2]


def test_a_child_whose_key_has_a_name_of_the_markers_own_goes_without(tables: Callable[..., None]) -> None:
    class Wall(models.PostMeta):
        class Meta:
            table_name = "Walls"

    class Note(CountedModel):
        class Meta:
            table_name = "Notes"

        post_id = UnicodeAttribute(hash_key=True)
        day = UnicodeAttribute(range_key=True, attr_name=requested.EXPIRES)
        wall = CountedIn(Wall.like_tally)

    tables(Wall, Note)
    Wall(post_id="w").save()
    with idempotency_key("k"):
        Note("w", "monday").save()
    assert Wall.like_tally.value(Wall.ref(post_id="w"), consistent_read=True) == 1


def test_a_child_whose_key_is_a_number_goes_without_a_marker(tables: Callable[..., None]) -> None:
    class Shelf(models.PostMeta):
        class Meta:
            table_name = "Shelves"

    class Book(CountedModel):
        class Meta:
            table_name = "Books"

        post_id = UnicodeAttribute(hash_key=True)
        isbn = NumberAttribute(range_key=True)
        shelf = CountedIn(Shelf.like_tally)

    tables(Shelf, Book)
    Shelf(post_id="s").save()
    with idempotency_key("k"):
        Book("s", 1).save()
    with idempotency_key("k"), pytest.raises(AlreadyCounted):
        Book("s", 1).save()


def test_an_id_is_the_same_when_the_request_comes_again_and_differs_within_it() -> None:
    def ids(key: str | None, owner: str = "") -> list[str]:
        with idempotency_key(key):
            return [new_id(owner), new_id(owner)]

    assert ids("k") == ids("k")
    made = [*ids("k"), *ids("k", "somebody"), *ids("other"), *ids(None), *ids(None)]
    assert len(set(made)) == len(made)


def test_a_counter_whose_writes_go_in_groups_is_no_other(tables: Callable[..., None]) -> None:
    class Crowd(models.PostMeta):
        class Meta:
            table_name = "Crowds"

        like_tally = CounterField(attr_name="likeTally", group_commit=1)
        views = CounterField(attr_name="views", group_commit=1)
        likes: CountedSet[Any] = CountedSet(f"{__name__}:CrowdLike", tally="like_tally")

    class CrowdLike(models.Like):
        __qualname__ = "CrowdLike"

        class Meta:
            table_name = "Crowds"

        post = CountedIn(Crowd.like_tally)

    tables(Crowd, CrowdLike)
    Crowd(post_id="c").save()
    crowd = Crowd.ref(post_id="c")
    for _ in range(2):
        with idempotency_key("k"):
            assert crowd.likes.add(user_id="u")
            assert Crowd.views.increment(crowd) == 1
    for _ in range(2):
        with idempotency_key("back"):
            assert crowd.likes.discard(user_id="u")
