"""Random programs against the whole library, with faults: at rest every tally is its count, and every answer is true.

The truth is kept here, in Python's own sets and dictionaries, and the table is read without the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pynamodb.attributes import NumberAttribute

import social
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
from pynacount.errors import (
    AlreadyCounted,
    CounterContention,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    ParentNotEmpty,
)
from pynacount.protocols.repairing import Repair
from pynacount.testing import Engine, Fault, FaultInjector, create_tables
from social import (
    ALL,
    Album,
    Board,
    Like,
    Meta,
    Photo,
    Pin,
    Post,
    Product,
    Review,
    User,
    items,
    put,
    raw,
    unseed,
)

POSTS = st.sampled_from(["a", "b"])
USERS = st.sampled_from(["u", "v", "w"])
NUMBERS = st.integers(1, 3)
STARS = st.sampled_from([None, 0, 1, 5, -2, 0.5])
AUTHORS = st.sampled_from([None, "ada", "bob"])
REVIEWS = st.tuples(st.booleans(), STARS, AUTHORS)
FAULTS = st.lists(st.sampled_from([None, *Fault]), max_size=3)
PASSES = st.sampled_from([0, 0, 0, 1, 2, 3])
LASTING = st.sampled_from([Fault.LOST_RESPONSE, *Fault])
PLACES = [("UpdateItem", 0), ("UpdateItem", 0), ("UpdateItem", 1), ("TransactWriteItems", 1), ("Query", 0)]
"""Where others can come into a call: before which request, and how many of its kind pass first."""
FOREVER = 500

Values = tuple[bool, Any, "str | None"]
"""Whether a review is hidden, its stars, its author."""

Table = dict[tuple[str, str], dict[str, Any]]


class Bookcase(CountedModel):
    """Takes its books along when it is deleted, and each of them its notes."""

    Meta = Meta
    pk = KeyAttribute("BOOKCASE#{case_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    book_tally = CounterField(attr_name="bookTally", on_delete="cascade", settle=0)
    books: CountedSet[Any] = CountedSet("Book", tally="book_tally")


class Book(CountedModel):
    """A child that has children, whose keys begin as its own does."""

    Meta = Meta
    pk = KeyAttribute("BOOKCASE#{case_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("BOOK#{book_id}", range_key=True, attr_name="SK")
    bookcase = CountedIn(Bookcase.book_tally)
    note_tally = CounterField(attr_name="noteTally", on_delete="cascade", settle=0)
    notes: CountedSet[Any] = CountedSet("Note", tally="note_tally")


class Note(CountedModel):
    Meta = Meta
    pk = KeyAttribute("BOOKCASE#{case_id}", hash_key=True, attr_name="PK")
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


class Motion(CountedModel):
    """A parent with two numbers that can be repaired, each by its own means."""

    Meta = Meta
    pk = KeyAttribute("MOTION#{motion_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    vote_tally = CounterField(attr_name="voteTally", settle=0)
    weight_tally = CounterField(attr_name="weightTally", revision="weightRev", settle=0)
    votes: CountedSet[Any] = CountedSet("Vote", tally="vote_tally")


class Vote(CountedModel):
    Meta = Meta
    pk = KeyAttribute("MOTION#{motion_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("VOTE#{user_id}", range_key=True, attr_name="SK")
    weight = NumberAttribute(default=1)
    counted = CountedIn(Motion.vote_tally)
    weighed = CountedIn(Motion.weight_tally, amount="weight")


class Clock:
    """Time that passes only while the driver sleeps, so that a program always goes the same way."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Programs(RuleBasedStateMachine):
    """What all programs have in common; and how many of them there are, as their steps are cheap or dear."""

    examples = 6

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

    def look(self, table: Table) -> None:
        """What else a family knows of the table."""

    @invariant()
    def the_table_is_what_the_callers_were_told(self) -> None:
        table = items()
        self.look(table)
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
    def meeting_forever(self, passes: int, fault: Fault) -> Iterator[None]:
        """From some request on nothing but this fault, and little patience."""
        with pytest.MonkeyPatch.context() as patch, self.meeting([*[None] * passes, *[fault] * FOREVER]):
            patch.setattr(Meta, "counted_deadline", 1)
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
            with self.meeting_forever(passes, fault):
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
    """Posts, one of them older than the library, and likes of them."""

    examples = 4

    def begin(self) -> None:
        self.posts = {"a", "b"}
        self.likes = {("b", "u")}
        Post(post_id="a").save()
        put("POST#b", "META", createdAt={"N": "1"})
        put("POST#b", "LIKE#USER#u")

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
        self.like_or_unlike(post, user, True, [])
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

    @rule(post=POSTS, user=USERS, adds=st.booleans(), faults=FAULTS)
    def like_or_unlike(self, post: str, user: str, adds: bool, faults: list[Fault | None]) -> None:
        likes = Post.ref(post_id=post).likes
        there = (post, user) in self.likes
        missing = adds and post not in self.posts
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            assert (likes.add if adds else likes.discard)(user_id=user) is (there != adds)
        if not missing:
            (self.likes.add if adds else self.likes.discard)((post, user))

    @rule(post=POSTS, user=USERS, adds=st.booleans(), passes=PASSES, fault=LASTING)
    def like_or_unlike_until_it_gives_up(self, post: str, user: str, adds: bool, passes: int, fault: Fault) -> None:
        likes = Post.ref(post_id=post).likes
        there = (post, user) in self.likes
        missing = adds and post not in self.posts
        try:
            call = likes.add if adds else likes.discard
            told = self.until_it_gives_up(passes, fault, lambda: call(user_id=user))
        except ParentMissing:
            assert missing
            return
        if told not in (OutcomeUnknown, CounterContention):
            assert told is (there != adds)
            (self.likes.add if adds else self.likes.discard)((post, user))
            return
        if told is OutcomeUnknown and (f"POST#{post}", f"LIKE#USER#{user}") in items():
            self.likes.add((post, user))
        elif told is OutcomeUnknown:
            self.likes.discard((post, user))
        self.like_or_unlike(post, user, adds, [])  # calling again is safe

    @rule(post=POSTS, user=USERS, adds=st.booleans(), faults=FAULTS)
    def like_or_unlike_without_counting(self, post: str, user: str, adds: bool, faults: list[Fault | None]) -> None:
        refused = (AlreadyCounted if adds else NotCounted) if ((post, user) in self.likes) is adds else None
        with self.meeting(faults), uncounted() as block, self.expecting(refused):
            child = Like(post_id=post, user_id=user)
            (child.save if adds else child.delete)()
        if refused is None:
            assert (len(block.unseeded), len(block.missing)) == ((1, 0) if post in self.posts else (0, 1))
            (self.likes.add if adds else self.likes.discard)((post, user))

    @rule(steps=st.dictionaries(st.tuples(POSTS, USERS), st.booleans(), min_size=1, max_size=4), faults=FAULTS)
    def like_and_unlike_in_one_transaction(self, steps: dict[Any, bool], faults: list[Fault | None]) -> None:
        refused: list[type[Exception]] = []
        for (post, user), adds in steps.items():
            if ((post, user) in self.likes) is adds:
                refused.append(AlreadyCounted if adds else NotCounted)
            if adds and post not in self.posts:
                refused.append(ParentMissing)
        with self.expecting(tuple(refused)), self.meeting(faults), transaction() as tx:
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

    examples = 12

    def begin(self) -> None:
        self.authors = {"ada"}
        self.reviews: dict[int, Values] = {1: (False, 5, "ada"), 2: (True, None, None)}
        put("PRODUCT#p", "META", version={"N": "1"})
        put("PRODUCT#p", "REVIEW#1", hidden={"BOOL": False}, stars={"N": "5"}, authorId={"S": "ada"})
        put("PRODUCT#p", "REVIEW#2", hidden={"BOOL": True})
        put("USER#ada", "META")

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

    def look(self, table: Table) -> None:
        """Each review is as it was last written."""
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

    @rule(name=AUTHORS.filter(bool), faults=FAULTS)
    def delete_an_author(self, name: str, faults: list[Fault | None]) -> None:
        named = name in self.authors and any(by == name for _, _, by in self.reviews.values())
        with self.expecting(ParentNotEmpty if named else None), self.meeting(faults):
            User(user_id=name).delete()
        if not named:
            self.authors.discard(name)

    @rule(number=NUMBERS, values=REVIEWS, faults=FAULTS)
    def review(self, number: int, values: Values, faults: list[Fault | None]) -> None:
        there = number in self.reviews
        missing = self.names_nobody(values)
        hidden, stars, author = values
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            added = Product.ref(product_id="p").reviews.add(number=number, hidden=hidden, stars=stars, author_id=author)
            assert added is not there
        if not there and not missing:
            self.reviews[number] = values

    @rule(data=st.data(), values=REVIEWS, meanwhile=st.none() | REVIEWS, faults=FAULTS)
    def edit_a_review(
        self, data: st.DataObject, values: Values, meanwhile: Values | None, faults: list[Fault | None]
    ) -> None:
        if not self.reviews:
            return
        number = data.draw(st.sampled_from(sorted(self.reviews)))
        loaded, before = self.load(number), self.reviews[number]
        if meanwhile is not None:  # somebody else edits it between our reading and our writing
            self.write(self.load(number), meanwhile, [])
        after = self.reviews[number]
        merged = tuple(ours if ours != was else now for ours, was, now in zip(values, before, after, strict=True))
        self.write(loaded, values, faults, merged)

    @rule(data=st.data(), values=REVIEWS, passes=PASSES, fault=LASTING)
    def edit_a_review_until_it_gives_up(self, data: st.DataObject, values: Values, passes: int, fault: Fault) -> None:
        if not self.reviews or self.names_nobody(values):
            return
        number = data.draw(st.sampled_from(sorted(self.reviews)))
        loaded = self.load(number)
        loaded.hidden, loaded.stars, loaded.author_id = values
        told = self.until_it_gives_up(passes, fault, loaded.save)
        if told in (OutcomeUnknown, CounterContention):
            loaded.save()
        self.reviews[number] = values

    @rule(data=st.data(), faults=FAULTS)
    def edit_a_review_that_is_gone(self, data: st.DataObject, faults: list[Fault | None]) -> None:
        if self.reviews:
            number = data.draw(st.sampled_from(sorted(self.reviews)))
            loaded = self.load(number)
            self.delete_a_review(number, [])
            loaded.text = "too late"
            with pytest.raises(NotCounted), self.meeting(faults):
                loaded.save()

    @rule(number=NUMBERS, faults=FAULTS)
    def delete_a_review(self, number: int, faults: list[Fault | None]) -> None:
        there = number in self.reviews
        with self.expecting(None if there else NotCounted), self.meeting(faults):
            Review(product_id="p", number=number).delete()
        self.reviews.pop(number, None)

    @rule(data=st.data(), meanwhile=REVIEWS, faults=FAULTS)
    def delete_a_review_that_somebody_edits(
        self, data: st.DataObject, meanwhile: Values, faults: list[Fault | None]
    ) -> None:
        if self.reviews:
            number = data.draw(st.sampled_from(sorted(self.reviews)))
            loaded = self.load(number)
            self.write(self.load(number), meanwhile, [])
            with self.meeting(faults):
                loaded.delete()
            del self.reviews[number]

    @rule(
        steps=st.dictionaries(NUMBERS, st.none() | REVIEWS, min_size=1),
        author=AUTHORS,
        his=st.booleans(),
        titled=st.booleans(),
        faults=FAULTS,
    )
    def all_at_once(
        self,
        steps: dict[int, Values | None],
        author: str | None,
        his: bool,
        titled: bool,
        faults: list[Fault | None],
    ) -> None:
        """A new author, edits, new reviews and deletions, and the product's title, in one transaction."""
        if author is not None and his:
            steps = {number: values and (values[0], values[1], author) for number, values in steps.items()}
        refused: list[type[Exception]] = []
        here = self.authors | {author, None}
        loaded = {number: self.load(number) for number, values in steps.items() if values and number in self.reviews}
        product = Product.get(product_id="p", consistent_read=True)
        product.title = f"{len(steps)} {author}" if titled else product.title
        for number, values in steps.items():
            if values is None and number not in self.reviews:
                refused.append(NotCounted)
            elif values and values[2] not in here:
                refused.append(ParentMissing)
        with self.expecting(tuple(refused)), self.meeting(faults), transaction() as tx:
            if titled:
                tx.save(product)
            if author is not None:
                tx.save(User(user_id=author))
            for number, values in steps.items():
                if values is None:
                    tx.delete(Review(product_id="p", number=number))
                elif number in loaded:
                    review = loaded[number]
                    review.hidden, review.stars, review.author_id = values
                    tx.save(review)
                else:
                    hidden, stars, by = values
                    tx.save(Review(product_id="p", number=number, hidden=hidden, stars=stars, author_id=by))
        if not refused:
            self.reviews |= {number: values for number, values in steps.items() if values}
            for number in (number for number, values in steps.items() if not values):
                del self.reviews[number]
            self.authors |= {author} - {None}

    def load(self, number: int) -> Review:
        return Review.get(product_id="p", number=number, consistent_read=True)

    def write(self, loaded: Review, values: Values, faults: list[Fault | None], merged: Values | None = None) -> None:
        """Save this edit; ``merged`` is what it comes to where somebody else edited the review too."""
        moved = values[2] != loaded.author_id
        missing = moved and self.names_nobody(values)
        loaded.hidden, loaded.stars, loaded.author_id = values
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            loaded.save()
        if not missing:
            self.reviews[loaded.number] = merged or values

    def names_nobody(self, values: Values) -> bool:
        return values[2] is not None and values[2] not in self.authors


class DeletePrograms(Programs):
    """An album, which takes its photos along, and a board, which leaves its pins behind."""

    examples = 8

    def begin(self) -> None:
        self.album = self.board = False
        self.photos: set[str] = set()
        self.pins: set[str] = set()
        self.save_album_and_board([])

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


class BookcasePrograms(Programs):
    """A bookcase with notes: a cascade within a cascade, and keys that begin alike."""

    def begin(self) -> None:
        self.bookcase = True
        self.books = {"u": {1, 2}}
        for sk in ("META", "BOOK#u", "BOOK#u#NOTE#1", "BOOK#u#NOTE#2"):
            put("BOOKCASE#s", sk)

    def counts(self) -> dict[tuple[str, str], Any]:
        return {("BOOKCASE#s", "bookTally"): len(self.books)} if self.bookcase else {}

    def children(self) -> set[tuple[str, str]]:
        notes = {f"BOOK#{book}#NOTE#{number}" for book, numbers in self.books.items() for number in numbers}
        return {("BOOKCASE#s", sk) for sk in notes | {f"BOOK#{book}" for book in self.books}}

    def look(self, table: Table) -> None:
        """Each book says how many notes it has."""
        for book, numbers in self.books.items():
            stored = table["BOOKCASE#s", f"BOOK#{book}"].get("noteTally")
            assert stored is None or stored["N"] == str(len(numbers))

    @rule(faults=FAULTS, old=st.booleans())
    def save_the_bookcase(self, faults: list[Fault | None], old: bool) -> None:
        if old and not self.bookcase:
            return self.begin()
        with self.meeting(faults):
            Bookcase(case_id="s").save()
        self.bookcase = True

    @rule(book=USERS, faults=FAULTS)
    def add_a_book(self, book: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if self.bookcase else ParentMissing), self.meeting(faults):
            assert Bookcase.ref(case_id="s").books.add(book_id=book) is (book not in self.books)
        if self.bookcase:
            self.books.setdefault(book, set())

    @rule(book=USERS, number=NUMBERS, faults=FAULTS)
    def add_a_note(self, book: str, number: int, faults: list[Fault | None]) -> None:
        notes = self.books.get(book)
        with self.expecting(ParentMissing if notes is None else None), self.meeting(faults):
            added = Book.ref(case_id="s", book_id=book).notes.add(number=number)
            assert added is (number not in (notes or ()))
        if notes is not None:
            notes.add(number)

    @rule(book=USERS, number=NUMBERS, faults=FAULTS)
    def discard_a_note(self, book: str, number: int, faults: list[Fault | None]) -> None:
        notes = self.books.get(book, set())
        with self.meeting(faults):
            assert Book.ref(case_id="s", book_id=book).notes.discard(number=number) is (number in notes)
        notes.discard(number)

    @rule(book=USERS)
    def unseed_a_book(self, book: str) -> None:
        if book in self.books:
            key = {"PK": {"S": "BOOKCASE#s"}, "SK": {"S": f"BOOK#{book}"}}
            raw().update_item(TableName="Town", Key=key, UpdateExpression="REMOVE noteTally")

    @rule(book=USERS, faults=FAULTS)
    def delete_a_book(self, book: str, faults: list[Fault | None]) -> None:
        with self.expecting(None if book in self.books else NotCounted), self.meeting(faults):
            Book(case_id="s", book_id=book).delete()
        self.books.pop(book, None)

    @rule(passes=st.integers(0, 12), fault=LASTING, faults=FAULTS, gives_up=st.booleans())
    def delete_the_bookcase(self, passes: int, fault: Fault, faults: list[Fault | None], gives_up: bool) -> None:
        try:
            with self.meeting_forever(passes, fault) if gives_up else self.meeting(faults):
                Bookcase(case_id="s").delete()
        except (OutcomeUnknown, CounterContention):
            assert gives_up
            if "bookTallyClosed" in items().get(("BOOKCASE#s", "META"), ()):
                with pytest.raises(ParentMissing, match="is being deleted"):
                    Bookcase.ref(case_id="s").books.add(book_id="late")
            Bookcase(case_id="s").delete()
        self.bookcase, self.books = False, {}


class RolloutPrograms(Programs):
    """Posts and likes under ``missing="defer"``, first beside old code that does not count, then without it."""

    examples = 10

    def begin(self) -> None:
        self.old_code_runs = True
        self.posts: set[str] = set()
        self.likes: set[tuple[str, str]] = set()

    def counts(self) -> dict[tuple[str, str], Any]:
        return {(f"DRAFT#{post}", "likeTally"): sum(liked == post for liked, _ in self.likes) for post in self.posts}

    def children(self) -> set[tuple[str, str]]:
        return {(f"DRAFT#{post}", f"LIKE#USER#{user}") for post, user in self.likes}

    @rule(post=POSTS, faults=FAULTS)
    def save_a_post(self, post: str, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            Draft(post_id=post).save()
        self.posts.add(post)

    @rule(post=POSTS, user=USERS)
    def old_code_likes(self, post: str, user: str) -> None:
        if self.old_code_runs:
            put(f"DRAFT#{post}", f"LIKE#USER#{user}", likedAt={"N": "1"})
            self.likes.add((post, user))

    @rule(post=POSTS, user=USERS)
    def old_code_unlikes(self, post: str, user: str) -> None:
        if self.old_code_runs:
            key = {"PK": {"S": f"DRAFT#{post}"}, "SK": {"S": f"LIKE#USER#{user}"}}
            raw().delete_item(TableName="Town", Key=key)
            self.likes.discard((post, user))

    @rule(post=POSTS)
    def old_code_saves_a_post(self, post: str) -> None:
        if self.old_code_runs and post not in self.posts:
            put(f"DRAFT#{post}", "META", createdAt={"N": "1"})
            self.posts.add(post)

    @rule(instances=st.integers(0, 3))
    def an_instance_of_the_old_code_ends(self, instances: int) -> None:
        self.old_code_runs = self.old_code_runs and instances > 0

    @rule(post=POSTS, user=USERS, faults=FAULTS)
    def like(self, post: str, user: str, faults: list[Fault | None]) -> None:
        there = (post, user) in self.likes
        missing = post not in self.posts
        with self.expecting(ParentMissing if missing else None), self.meeting(faults):
            assert Draft.ref(post_id=post).likes.add(user_id=user) is not there
        if not missing:
            self.likes.add((post, user))

    @rule(post=POSTS, user=USERS, faults=FAULTS)
    def unlike(self, post: str, user: str, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            assert Draft.ref(post_id=post).likes.discard(user_id=user) is ((post, user) in self.likes)
        self.likes.discard((post, user))

    @rule(steps=st.dictionaries(st.tuples(POSTS, USERS), st.booleans(), min_size=1, max_size=4), faults=FAULTS)
    def like_and_unlike_in_one_transaction(self, steps: dict[Any, bool], faults: list[Fault | None]) -> None:
        refused: list[type[Exception]] = []
        for (post, user), adds in steps.items():
            if ((post, user) in self.likes) is adds:
                refused.append(AlreadyCounted if adds else NotCounted)
            if adds and post not in self.posts:
                refused.append(ParentMissing)
        with self.expecting(tuple(refused)), self.meeting(faults), transaction() as tx:
            for (post, user), adds in steps.items():
                (tx.save if adds else tx.delete)(DraftLike(post_id=post, user_id=user))
        for pair, adds in steps.items() if not refused else ():
            (self.likes.add if adds else self.likes.discard)(pair)

    @rule(post=POSTS, faults=FAULTS)
    def seed(self, post: str, faults: list[Fault | None]) -> None:
        if not self.old_code_runs:
            with self.expecting(None if post in self.posts else ParentMissing), self.meeting(faults):
                told = Draft.like_tally.seed(Draft.ref(post_id=post))
                assert told == sum(liked == post for liked, _ in self.likes)


class RepairPrograms(Programs):
    """A motion whose numbers writers outside the library make wrong."""

    examples = 4

    def begin(self) -> None:
        self.votes: dict[str, int] = {}
        self.drift = {"voteTally": 0, "weightTally": 0}
        Motion(motion_id="p").save()

    def true(self, name: str) -> int:
        return len(self.votes) if name == "voteTally" else sum(self.votes.values())

    def counts(self) -> dict[tuple[str, str], Any]:
        return {("MOTION#p", name): self.true(name) + drift for name, drift in self.drift.items()}

    def children(self) -> set[tuple[str, str]]:
        return {("MOTION#p", f"VOTE#{user}") for user in self.votes}

    def look(self, table: Table) -> None:
        """A number that was taken away has not drifted, whoever took it."""
        for name in self.drift.keys() - table["MOTION#p", "META"].keys():
            self.drift[name] = 0

    @rule(user=USERS, weight=NUMBERS, faults=FAULTS)
    def vote(self, user: str, weight: int, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            assert Motion.ref(motion_id="p").votes.add(user_id=user, weight=weight) is (user not in self.votes)
        self.votes.setdefault(user, weight)

    @rule(user=USERS, weight=NUMBERS, faults=FAULTS)
    def change_a_vote(self, user: str, weight: int, faults: list[Fault | None]) -> None:
        if user in self.votes:
            loaded = Vote.get(motion_id="p", user_id=user, consistent_read=True)
            loaded.weight = weight
            with self.meeting(faults):
                loaded.save()
            self.votes[user] = weight

    @rule(user=USERS, faults=FAULTS)
    def take_back_a_vote(self, user: str, faults: list[Fault | None]) -> None:
        with self.meeting(faults):
            assert Motion.ref(motion_id="p").votes.discard(user_id=user) is (user in self.votes)
        self.votes.pop(user, None)

    @rule(user=USERS, weight=NUMBERS)
    def vote_behind_the_librarys_back(self, user: str, weight: int) -> None:
        said = self.counts()
        put("MOTION#p", f"VOTE#{user}", weight={"N": str(weight)})
        self.votes[user] = weight
        self.drift = {name: said["MOTION#p", name] - self.true(name) for name in self.drift}

    @rule(name=st.sampled_from(["vote_tally", "weight_tally"]), fence=st.booleans(), faults=FAULTS)
    def repair(self, name: str, fence: bool, faults: list[Fault | None]) -> None:
        counter = getattr(Motion, name)
        was = social.number("MOTION#p", counter.attr_name)
        with self.meeting(faults):
            done = counter.repair(Motion.ref(motion_id="p"), fence=fence)
        assert done.now == self.true(counter.attr_name)
        if was is not None and Fault.LOST_RESPONSE not in faults:
            assert done == Repair(int(was), done.now, "fence" if fence or name == "vote_tally" else "revision")
        self.drift[counter.attr_name] = 0

    @rule(name=st.sampled_from(["vote_tally", "weight_tally"]), passes=PASSES, fault=LASTING)
    def repair_until_it_gives_up(self, name: str, passes: int, fault: Fault) -> None:
        counter, motion = getattr(Motion, name), Motion.ref(motion_id="p")
        was = counter.value(motion, consistent_read=True)
        told = self.until_it_gives_up(passes, fault, lambda: counter.repair(motion, fence=True))
        shown = counter.value(motion, consistent_read=True)
        assert shown in (was, self.true(counter.attr_name))  # the old number is kept for readers meanwhile
        if isinstance(told, Repair) or shown != was:
            assert shown == self.true(counter.attr_name)
            self.drift[counter.attr_name] = 0

    @rule(name=st.sampled_from(["vote_tally", "weight_tally"]), faults=FAULTS)
    def seed(self, name: str, faults: list[Fault | None]) -> None:
        counter = getattr(Motion, name)
        expected = self.counts()["MOTION#p", counter.attr_name]
        with self.meeting(faults):
            assert counter.seed(Motion.ref(motion_id="p")) == expected


class InterruptedPrograms(Programs):
    """A call on a post, into which somebody else's calls come between two of its requests."""

    unseed_behind_the_librarys_back: Any = None  # it would be every other step
    examples = 6
    model: Any = Post
    child: Any = Like
    kinds = ("add", "add", "discard", "seed", "repair", "add uncounted", "discard uncounted", "save", "delete")

    def begin(self) -> None:
        self.there, self.users = True, frozenset("u")
        put(self.pk, "META", createdAt={"N": "1"})
        put(self.pk, "LIKE#USER#u", likedAt={"N": "1"})

    @property
    def pk(self) -> str:
        return str(self.model(post_id="p").pk)

    def counts(self) -> dict[tuple[str, str], Any]:
        return {(self.pk, "likeTally"): len(self.users)} if self.there else {}

    def children(self) -> set[tuple[str, str]]:
        return {(self.pk, f"LIKE#USER#{user}") for user in self.users}

    @rule(
        data=st.data(),
        seeded=st.booleans(),
        place=st.sampled_from(PLACES),
        faults=FAULTS,
        meanwhile=st.lists(st.tuples(st.integers(0, 8), USERS), min_size=1, max_size=3),
    )
    def a_call_into_which_others_come(
        self,
        data: st.DataObject,
        seeded: bool,
        place: tuple[str, int],
        faults: list[Fault | None],
        meanwhile: list[tuple[int, str]],
    ) -> None:
        kind, user = data.draw(st.sampled_from(self.kinds)), data.draw(USERS)
        steps = [(self.kinds[index % len(self.kinds)], user) for index, user in meanwhile]
        told: list[Any] = []
        if self.there and not seeded:
            unseed(self.pk, "likeTally")
        with self.interrupting(*place, lambda: told.extend(self.do(*step) for step in steps)), self.meeting(faults):
            first = self.do(kind, user, early=True)
        if not told:  # it was done in fewer requests
            steps = []
        ours, theirs = [((kind, user), first)], list(zip(steps, told, strict=True))
        found = {sk for _, sk in items(self.pk)}
        for history in (ours + theirs, theirs + ours):
            there, users, true = self.there, self.users, True
            for step, answer in history:
                expected, there, users = self.expected(*step, there, users)
                true = true and answer == expected
            if true and found == {f"LIKE#USER#{each}" for each in users} | ({"META"} if there else set()):
                self.there, self.users = there, users
                return
        raise AssertionError(
            f"no order of the calls gives these answers, and {found}: {ours}, into which came {theirs}"
        )

    @contextmanager
    def interrupting(self, operation: str, passes: int, happens: Callable[[], None]) -> Iterator[None]:
        """Let something happen once, right before a request of this kind."""
        left = [passes]

        def interrupt(request: Any, **_: Any) -> None:
            if left and not left[0]:
                left.clear()
                Context().run(happens)  # somebody else is not in our uncounted() block
            elif left:
                left[0] -= 1

        events = connection_for(Meta).client.meta.events
        events.register_first(f"before-send.dynamodb.{operation}", interrupt, "interrupt")
        try:
            yield
        finally:
            events.unregister(f"before-send.dynamodb.{operation}", interrupt, "interrupt")

    def do(self, kind: str, user: str, early: bool = False) -> Any:
        ref, child = self.model.ref(post_id="p"), self.child(post_id="p", user_id=user)
        if kind == "save":  # a post that comes after its likes, or beside them, is saved uncounted
            early = early or ((self.pk, "META") not in items(self.pk) and bool(items(self.pk)))
        try:
            with uncounted() if "uncounted" in kind or (kind == "save" and early) else nullcontext():
                if kind in ("add", "discard"):
                    return getattr(ref.likes, kind)(user_id=user)
                if kind == "seed":
                    return self.model.like_tally.seed(ref)
                if kind == "repair":
                    return self.model.like_tally.repair(ref).now
                if kind == "add uncounted":
                    child.save()
                elif kind == "discard uncounted":
                    child.delete()
                elif kind == "save":
                    self.model(post_id="p").save()
                else:
                    self.model(post_id="p").delete()
                return True
        except (AlreadyCounted, NotCounted):
            return False
        except (ParentMissing, ParentNotEmpty) as error:
            return type(error)

    @staticmethod
    def expected(kind: str, user: str, there: bool, users: frozenset[str]) -> tuple[Any, bool, frozenset[str]]:
        """The answer, and what is there then."""
        if kind in ("add", "seed", "repair") and not there:
            return ParentMissing, there, users
        if kind.startswith("add"):
            return user not in users, there, users | {user}
        if kind.startswith("discard"):
            return user in users, there, users - {user}
        if kind == "save":
            return True, True, users
        if kind == "delete":
            return (ParentNotEmpty, True, users) if there and users else (True, False, users)
        return len(users), there, users


class InterruptedRollouts(InterruptedPrograms):
    """The same under ``missing="defer"``, where a like does not seed."""

    examples = 8
    model = Draft
    child = DraftLike
    kinds = ("add", "discard", "seed")


FAMILIES = [
    LikePrograms,
    ReviewPrograms,
    DeletePrograms,
    BookcasePrograms,
    RolloutPrograms,
    RepairPrograms,
    InterruptedPrograms,
    InterruptedRollouts,
]


@pytest.mark.parametrize("programs", FAMILIES)
def test_at_rest_every_tally_is_its_count_and_every_caller_was_told_the_truth(
    programs: type[Programs], engine: Engine, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(commit, "time", Clock())
    create_tables(*ALL)
    searching = request.config.getoption("--hypothesis-profile") == "search"
    if searching:
        chosen = settings(settings.get_profile("search"), stateful_step_count=50)
    else:  # a failure is told as it is found: to make it shorter can take minutes
        phases = (Phase.explicit, Phase.generate)
        chosen = settings(
            max_examples=programs.examples, derandomize=True, deadline=None, stateful_step_count=25, phases=phases
        )
    run_state_machine_as_test(programs, settings=chosen)
