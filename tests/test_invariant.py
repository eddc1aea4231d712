"""Random programs against the whole library, with faults: at rest every tally is its count, and every answer is true.

The truth is kept here, in Python's own sets and dictionaries, and the table is read without the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pynamodb.attributes import NumberAttribute, UnicodeAttribute

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, commit, models, transaction
from pynacount import uncounted
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterContention,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    ParentNotEmpty,
)
from pynacount.tallies.repairing import Repair
from pynacount.testing import Engine, Fault, FaultInjector, create_tables
from social import ALL, Album, Board, Like, Meta, Photo, Pin, Post, Product, Review, User, items, number, put, raw, unseed

POSTS = st.sampled_from(["a", "b"])
USERS = st.sampled_from(["u", "v", "w"])
NUMBERS = st.integers(1, 3)
STARS = st.sampled_from([None, 0, 1, 5, -2, 0.5])
AUTHORS = st.sampled_from([None, "ada", "bob"])
REVIEWS = st.tuples(st.booleans(), STARS, AUTHORS)
FAULTS = st.lists(st.sampled_from([None, *Fault]), max_size=3)
PASSES = st.integers(0, 3)
FOREVER = 500


class Shelf(CountedModel):
    """Takes its books along when it is deleted, and each of them its notes."""

    Meta = Meta
    pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    book_tally = CounterField(attr_name="bookTally", on_delete="cascade", settle=0)
    books: CountedSet[Any] = CountedSet("Book", tally="book_tally")


class Book(CountedModel):
    """A child that has children, whose keys begin as its own does."""

    Meta = Meta
    pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("BOOK#{book_id}", range_key=True, attr_name="SK")
    shelf = CountedIn(Shelf.book_tally)
    note_tally = CounterField(attr_name="noteTally", on_delete="cascade", settle=0)
    notes: CountedSet[Any] = CountedSet("Note", tally="note_tally")


class Note(CountedModel):
    Meta = Meta
    pk = KeyAttribute("SHELF#{shelf_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("BOOK#{book_id}#NOTE#{number:int}", range_key=True, attr_name="SK")
    book = CountedIn(Book.note_tally)


class Draft(models.PostMeta):
    """A post while old code, which does not count, is still running."""

    Meta = Meta
    pk = KeyAttribute("DRAFT#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", missing="defer", settle=0)
    likes: CountedSet[Any] = CountedSet("DraftLike", tally="like_tally")


class DraftLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("DRAFT#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Draft.like_tally)


class Poll(CountedModel):
    """A parent with two numbers that can be repaired, each by its own means."""

    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    vote_tally = CounterField(attr_name="voteTally", settle=0)
    weight_tally = CounterField(attr_name="weightTally", revision="weightRev", settle=0)
    votes: CountedSet[Any] = CountedSet("Vote", tally="vote_tally")


class Vote(CountedModel):
    Meta = Meta
    pk = KeyAttribute("POLL#{poll_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    weight = NumberAttribute(default=1)
    text = UnicodeAttribute(null=True)
    counted = CountedIn(Poll.vote_tally)
    weighed = CountedIn(Poll.weight_tally, amount="weight")


class Clock:
    """Time that passes only while the driver sleeps, so that a program always goes the same way."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Programs(RuleBasedStateMachine):
    """What all programs have in common."""

    @initialize()
    def empty_table(self) -> None:
        for pk, sk in items():
            raw().delete_item(TableName="Town", Key={"PK": {"S": pk}, "SK": {"S": sk}})
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def counts(self) -> dict[tuple[str, str], Any]:
        """What each tally of the parents that are there must say, where it says anything."""
        raise NotImplementedError

    def children(self) -> set[tuple[str, str]]:
        """The keys of the children that are there."""
        raise NotImplementedError

    def is_parent(self, sk: str) -> bool:
        return sk == "META"

    @invariant()
    def the_table_is_what_the_callers_were_told(self) -> None:
        table = items()
        assert {key for key in table if key[1] != "META"} == self.children()
        assert {pk for pk, sk in table if sk == "META"} == {pk for pk, _ in self.counts()}
        for (pk, name), count in self.counts().items():
            stored = table[pk, "META"].get(name)
            assert stored is None or Decimal(stored["N"]) == count, (pk, name)

    @rule(data=st.data())
    def unseed_behind_the_librarys_back(self, data: st.DataObject) -> None:
        """As if the tally had never been."""
        if tallies := sorted(self.counts()):
            unseed(*data.draw(st.sampled_from(tallies)))

    @contextmanager
    def meeting(self, faults: list[Fault | None]) -> Iterator[None]:
        with FaultInjector(connection_for(Meta).client) as injector:
            injector.next(*faults)
            yield

    @contextmanager
    def expecting(self, error: type[Exception] | tuple[type[Exception], ...] | None) -> Iterator[None]:
        if not error:
            yield
        else:
            with pytest.raises(error):
                yield

    def until_it_gives_up(self, passes: int, fault: Fault, call: Callable[[], Any]) -> Any:
        """The answer of a call that, from some request on, meets nothing but this fault; or how it gave up."""
        before = items()
        try:
            with self.meeting([*[None] * passes, *[fault] * FOREVER]):
                return call()
        except OutcomeUnknown:
            assert fault in (Fault.LOST_RESPONSE, Fault.INTERNAL_ERROR)
            return OutcomeUnknown
        except CounterContention:
            after = items()
            assert before.keys() == after.keys()
            assert all(before[key] == after[key] for key in self.children())
            return CounterContention


class LikePrograms(Programs):
    """Posts, and likes of them."""

    def begin(self) -> None:
        self.posts: set[str] = set()
        self.likes: set[tuple[str, str]] = set()

    def counts(self) -> dict[tuple[str, str], Any]:
        return {(f"POST#{post}", "likeTally"): sum(liked == post for liked, _ in self.likes) for post in self.posts}

    def children(self) -> set[tuple[str, str]]:
        return {(f"POST#{post}", f"LIKE#USER#{user}") for post, user in self.likes}

    @rule(post=POSTS, faults=FAULTS)
    def save_a_new_post(self, post: str, faults: list[Fault | None]) -> None:
        early = any(liked == post for liked, _ in self.likes) and post not in self.posts
        with self.meeting(faults), uncounted() if early else nullcontext():
            Post(post_id=post, body="new").save()
        self.posts.add(post)

    @rule(post=POSTS, user=USERS, faults=FAULTS)
    def edit_a_post_while_it_is_liked(self, post: str, user: str, faults: list[Fault | None]) -> None:
        if post not in self.posts:
            with pytest.raises(Post.DoesNotExist):
                Post.get(post_id=post)
            return
        loaded = Post.get(post_id=post)
        self.like(post, user, [])
        loaded.body = f"edited {user} {len(self.likes)}"
        with self.meeting(faults):
            loaded.save()
        assert Post.get(post_id=post, consistent_read=True).body == loaded.body

    @rule(post=POSTS, faults=FAULTS)
    def delete_a_post(self, post: str, faults: list[Fault | None]) -> None:
        liked = post in self.posts and any(liked == post for liked, _ in self.likes)
        with self.expecting(ParentNotEmpty if liked else None), self.meeting(faults):
            Post(post_id=post).delete()
        if not liked:
            self.posts.discard(post)

    @rule(post=POSTS, user=USERS, faults=FAULTS)
    def like(self, post: str, user: str, faults: list[Fault | None]) -> None:
        there = (post, user) in self.likes
        missing = post not in self.posts
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            assert Post.ref(post_id=post).likes.add(user_id=user) is not there
        if not missing:
            self.likes.add((post, user))

    @rule(post=POSTS, user=USERS, faults=FAULTS)
    def unlike(self, post: str, user: str, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            assert Post.ref(post_id=post).likes.discard(user_id=user) is ((post, user) in self.likes)
        self.likes.discard((post, user))

    @rule(post=POSTS, user=USERS)
    def like_without_counting(self, post: str, user: str) -> None:
        if (post, user) not in self.likes:
            with uncounted() as block:
                Like(post_id=post, user_id=user).save()
            assert (len(block.unseeded), len(block.missing)) == ((1, 0) if post in self.posts else (0, 1))
            self.likes.add((post, user))

    @rule(post=POSTS, user=USERS, adds=st.booleans())
    def give_up_before_the_answer_is_known(self, post: str, user: str, adds: bool) -> None:
        likes = Post.ref(post_id=post).likes
        deadline, Meta.counted_deadline = Meta.counted_deadline, 0.001  # type: ignore[assignment]
        try:
            with FaultInjector(connection_for(Meta).client, rates={Fault.LOST_RESPONSE: 1.0}):
                (likes.add if adds else likes.discard)(user_id=user)
        except (OutcomeUnknown, CounterContention):
            pass
        finally:
            Meta.counted_deadline = deadline
        if (f"POST#{post}", f"LIKE#USER#{user}") in items():
            self.likes.add((post, user))
        else:
            self.likes.discard((post, user))

    @rule(steps=st.dictionaries(st.tuples(POSTS, USERS), st.booleans(), min_size=1, max_size=4), faults=FAULTS)
    def like_and_unlike_in_one_transaction(self, steps: dict[Any, bool], faults: list[Fault | None]) -> None:
        refused: list[type[Exception]] = []
        for (post, user), adds in steps.items():
            if ((post, user) in self.likes) is adds:
                refused.append(AlreadyCounted if adds else NotCounted)
            if adds and post not in self.posts:
                refused.append(ParentMissing)
        with self.expecting(tuple(refused) or None), self.meeting(faults), transaction() as tx:  # type: ignore[arg-type]
            for (post, user), adds in steps.items():
                (tx.save if adds else tx.delete)(Like(post_id=post, user_id=user))
        for pair, adds in steps.items() if not refused else ():
            (self.likes.add if adds else self.likes.discard)(pair)

    @rule(post=POSTS, faults=FAULTS)
    def seed(self, post: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if post in self.posts else ParentMissing), self.meeting(faults):
            assert Post.like_tally.seed(Post.ref(post_id=post)) == sum(liked == post for liked, _ in self.likes)


class ReviewPrograms(Programs):
    """A product with reviews, which count in three of its numbers, and in their authors."""

    def begin(self) -> None:
        self.authors = {"ada"}
        self.reviews: dict[int, tuple[bool, Any, str | None]] = {}
        Product(product_id="p").save()
        User(user_id="ada").save()

    def counts(self) -> dict[tuple[str, str], Any]:
        reviews = self.reviews.values()
        return {
            ("PRODUCT#p", "reviewTally"): len(reviews),
            ("PRODUCT#p", "count"): sum(not hidden for hidden, _, _ in reviews),
            ("PRODUCT#p", "star-sum"): sum(stars or 0 for _, stars, _ in reviews),
            **{(f"USER#{name}", "givenTally"): sum(by == name for _, _, by in reviews) for name in self.authors},
        }

    def children(self) -> set[tuple[str, str]]:
        return {("PRODUCT#p", f"REVIEW#{number}") for number in self.reviews}

    @invariant()
    def each_review_is_as_it_was_last_written(self) -> None:
        table = items("PRODUCT#")
        for number, (hidden, stars, author) in self.reviews.items():
            stored = table["PRODUCT#p", f"REVIEW#{number}"]
            assert stored["hidden"]["BOOL"] is hidden
            assert stored.get("authorId", {}).get("S") == author
            assert (Decimal(stored["stars"]["N"]) if "stars" in stored else None) == stars

    @rule(name=AUTHORS.filter(bool), faults=FAULTS)
    def save_an_author(self, name: str, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            User(user_id=name).save()
        self.authors.add(name)

    @rule(number=NUMBERS, hidden=st.booleans(), stars=STARS, author=AUTHORS, faults=FAULTS)
    def review(self, number: int, hidden: bool, stars: Any, author: str | None, faults: list[Fault | None]) -> None:
        there = number in self.reviews
        missing = author is not None and author not in self.authors
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            added = Product.ref(product_id="p").reviews.add(number=number, hidden=hidden, stars=stars, author_id=author)
            assert added is not there
        if not there and not missing:
            self.reviews[number] = (hidden, stars, author)

    @rule(number=NUMBERS, hidden=st.booleans(), stars=STARS, author=AUTHORS, faults=FAULTS, stale=st.booleans())
    def edit_a_review(
        self, number: int, hidden: bool, stars: Any, author: str | None, faults: list[Fault | None], stale: bool
    ) -> None:
        if number not in self.reviews:
            return
        loaded = Review.get(product_id="p", number=number, consistent_read=True)
        before = self.reviews[number]
        if stale:  # someone else hides or shows it first
            self.edit_a_review(number, not before[0], before[1], before[2], [], False)
        loaded.hidden, loaded.stars, loaded.author_id = hidden, stars, author
        hidden_now = hidden if hidden != before[0] else self.reviews[number][0]  # what is not changed is not written
        missing = author not in (None, before[2]) and author not in self.authors
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            loaded.save()
        if not missing:
            self.reviews[number] = (hidden_now, stars, author)

    @rule(number=NUMBERS, faults=FAULTS, loads=st.booleans())
    def delete_a_review(self, number: int, faults: list[Fault | None], loads: bool) -> None:
        there = number in self.reviews
        review = Review(product_id="p", number=number)
        if loads and there:
            review.refresh(consistent_read=True)
            self.edit_a_review(number, *self.reviews[number][:1], 5, None, [], False)
        with self.expecting(None if there else NotCounted), self.meeting(faults):
            review.delete()
        self.reviews.pop(number, None)


class DeletePrograms(Programs):
    """An album, which takes its photos along, and a board, which leaves its pins behind."""

    def begin(self) -> None:
        self.album = self.board = False
        self.photos: set[str] = set()
        self.pins: set[str] = set()

    def counts(self) -> dict[tuple[str, str], Any]:
        album = {("ALBUM#a", "photoTally"): len(self.photos)} if self.album else {}
        board = {("BOARD#b", "pinTally"): len(self.pins)} if self.board else {}
        return album | board

    def children(self) -> set[tuple[str, str]]:
        photos = {("ALBUM#a", f"PHOTO#{photo}") for photo in self.photos}
        return photos | {("BOARD#b", f"PIN#{pin}") for pin in self.pins}

    @rule(faults=FAULTS)
    def save_album_and_board(self, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            Album(album_id="a", title="t").save()
            Board(board_id="b").save()
        self.album = self.board = True

    @rule(photo=USERS, faults=FAULTS)
    def add_a_photo(self, photo: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if self.album else ParentMissing), self.meeting(faults):
            assert Album.ref(album_id="a").photos.add(photo_id=photo) is (photo not in self.photos)
        if self.album:
            self.photos.add(photo)

    @rule(photo=USERS, faults=FAULTS)
    def delete_a_photo(self, photo: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if photo in self.photos else NotCounted), self.meeting(faults):
            Photo(album_id="a", photo_id=photo).delete()
        self.photos.discard(photo)

    @rule(faults=FAULTS)
    def delete_the_album(self, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            Album(album_id="a").delete()
        self.album, self.photos = False, set()

    @rule(pin=USERS, faults=FAULTS)
    def add_a_pin(self, pin: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if self.board else ParentMissing), self.meeting(faults):
            assert Board.ref(board_id="b").pins.add(pin_id=pin) is (pin not in self.pins)
        if self.board:
            self.pins.add(pin)

    @rule(pin=USERS, faults=FAULTS)
    def delete_a_pin(self, pin: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if pin in self.pins else NotCounted), self.meeting(faults):
            Pin(board_id="b", pin_id=pin).delete()
        self.pins.discard(pin)

    @rule(faults=FAULTS)
    def delete_the_board(self, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            Board(board_id="b").delete()
        self.board = False


@pytest.mark.parametrize("programs", [LikePrograms, ReviewPrograms, DeletePrograms])
def test_at_rest_every_tally_is_its_count_and_every_caller_was_told_the_truth(
    programs: type[Programs], engine: Engine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(commit.time, "sleep", lambda seconds: None)
    programs.engine = engine
    searching = request.config.getoption("--hypothesis-profile") == "search"
    if searching:
        chosen = settings(settings.get_profile("search"), stateful_step_count=50)
    else:  # a failure is told as it is found: to make it shorter can take minutes
        phases = (Phase.explicit, Phase.generate)
        chosen = settings(max_examples=20, derandomize=True, deadline=None, stateful_step_count=30, phases=phases)
    run_state_machine_as_test(programs, settings=chosen)
