"""Conflicts, throttles, faults of the service and lost answers: a retry answers as the first try would have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute, VersionAttribute
from pynamodb.exceptions import PutError, PynamoDBException, TransactWriteError, UpdateError

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, commit, transaction
from pynacount.commit import FIRST_BACKOFF, MAX_BACKOFF
from pynacount.connections import connection_for
from pynacount.errors import (
    AlreadyCounted,
    CounterContention,
    NotCounted,
    OutcomeUnknown,
    ParentMissing,
    PynacountError,
)
from pynacount.testing import Fault, FaultInjector, record_requests

Tables = Callable[..., None]

DEADLINE = 10.0

TRANSIENT = [Fault.CONFLICT, Fault.MIXED, Fault.THROTTLE, Fault.INTERNAL_ERROR, Fault.REFUSED_CONNECTION]
"""Nothing was written."""
ALL_FAULTS = [*TRANSIENT, Fault.LOST_RESPONSE]


class Clock:
    """Time that passes only while the driver sleeps. What is in ``meanwhile`` happens during the next sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.meanwhile: list[Callable[[], Any]] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        while self.meanwhile:
            self.meanwhile.pop(0)()


class Post(CountedModel):
    class Meta:
        table_name = "Retries"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    views = NumberAttribute(default=0)
    like_tally = CounterField(attr_name="likeTally", settle=0)
    shown_tally = CounterField(attr_name="shownTally", settle=0)
    likes: CountedSet[Any] = CountedSet("Like", tally="like_tally")
    ratings: CountedSet[Any] = CountedSet("Rating", tally="shown_tally")


class Like(CountedModel):
    class Meta:
        table_name = "Retries"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    note = UnicodeAttribute(null=True)
    post = CountedIn(Post.like_tally)


class Rating(CountedModel):
    """Counted only while it is shown."""

    class Meta:
        table_name = "Retries"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("RATING#{user_id}", range_key=True, attr_name="SK")
    shown = BooleanAttribute(default=False)
    post = CountedIn(Post.shown_tally, when="shown")


class Page(CountedModel):
    """A parent with a version."""

    class Meta:
        table_name = "Retries"

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    body = UnicodeAttribute(null=True)
    version = VersionAttribute()
    fan_tally = CounterField(attr_name="fanTally", settle=0)
    fans: CountedSet[Any] = CountedSet("Fan", tally="fan_tally")


class Fan(CountedModel):
    class Meta:
        table_name = "Retries"

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("FAN#{user_id}", range_key=True, attr_name="SK")
    page = CountedIn(Page.fan_tally)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(commit, "time", clock)
    return clock


@pytest.fixture
def injector(tables: Tables, clock: Clock) -> Iterator[FaultInjector]:
    """A table with one post and one page, and an injector with nothing to do yet."""
    tables(Post, Like)
    Post(post_id="a", body="old").save()
    Page(page_id="a", body="old").save()
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        yield injector


@pytest.fixture
def post(injector: FaultInjector) -> Any:
    return Post.ref(post_id="a")


@pytest.fixture
def sent(injector: FaultInjector) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    with record_requests(connection_for(Post.Meta).client) as sent:
        yield sent


def tally() -> Any:
    return Post.like_tally.value(Post.ref(post_id="a"), consistent_read=True)


def tokens(sent: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [request["ClientRequestToken"] for operation, request in sent if operation == "TransactWriteItems"]


def operations(injector: FaultInjector) -> list[str]:
    return [call.operation for call in injector.log]


class TestARetryAnswersAsTheFirst:
    @pytest.mark.parametrize("fault", ALL_FAULTS)
    @pytest.mark.parametrize("times", [1, 3])
    def test_a_like_is_counted_once_and_told_true(
        self, post: Any, injector: FaultInjector, fault: Fault, times: int
    ) -> None:
        injector.next(*[fault] * times)
        assert post.likes.add(user_id="u") is True
        assert injector.pending == 0
        assert tally() == post.likes.recount() == 1

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_second_like_is_told_false(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        post.likes.add(user_id="u")
        injector.next(fault, fault)
        assert post.likes.add(user_id="u") is False
        assert injector.pending == 0
        assert tally() == 1

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_an_unlike_is_taken_out_once_and_told_true(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        post.likes.add(user_id="u")
        injector.next(fault, fault)
        assert post.likes.discard(user_id="u") is True
        assert injector.pending == 0
        assert tally() == post.likes.recount() == 0

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_second_unlike_is_told_false(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        injector.next(fault, fault)
        assert post.likes.discard(user_id="u") is False
        assert injector.pending == 0
        assert tally() == 0

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_like_of_a_missing_post_creates_nothing(self, injector: FaultInjector, fault: Fault) -> None:
        injector.next(fault)
        with pytest.raises(ParentMissing):
            Like(post_id="missing", user_id="u").save()
        assert list(Post.query("POST#missing")) == []

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_an_edit_moves_its_tally_once(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        Rating(post_id="a", user_id="u").save()
        rating = Rating.get(post_id="a", user_id="u")
        rating.shown = True
        injector.next(fault)
        rating.save()
        assert injector.pending == 0
        assert Post.shown_tally.value(post) == post.ratings.recount() == 1

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_transaction_of_the_application_is_committed_once(self, injector: FaultInjector, fault: Fault) -> None:
        injector.next(fault)
        with transaction() as tx:
            tx.update(Post(post_id="a"), [Post.views.add(1)])
            tx.save(Like(post_id="a", user_id="u"))
        loaded = Post.get(post_id="a")
        assert (loaded.views, loaded.like_tally) == (1, 1)

    def test_many_faults_of_every_kind_leave_every_number_right(self, post: Any) -> None:
        rates = dict.fromkeys(ALL_FAULTS, 0.1)
        answers = []
        with FaultInjector(connection_for(Post.Meta).client, rates=rates, seed=5) as injector:
            for n in range(60):
                user = str(n % 4)
                answers.append(post.likes.add(user_id=user) if n % 8 < 5 else post.likes.discard(user_id=user))
        there: set[str] = set()
        for n, answer in enumerate(answers):
            user = str(n % 4)
            assert answer is ((user not in there) if n % 8 < 5 else (user in there))
            (there.add if n % 8 < 5 else there.discard)(user)
        assert injector.injected > 20
        assert tally() == post.likes.recount() == len(there)


class TestMixedReasons:
    @pytest.mark.parametrize(
        "reasons",
        [
            ["ConditionalCheckFailed", "TransactionConflict"],
            ["TransactionConflict", "ConditionalCheckFailed"],
            ["ConditionalCheckFailed", "ThrottlingError"],
            ["ProvisionedThroughputExceeded", "ConditionalCheckFailed"],
            ["TransactionConflict", "ThrottlingError"],
            [None, "ProvisionedThroughputExceeded"],
            ["ConditionalCheckFailed", "RequestLimitExceeded"],
        ],
    )
    def test_a_passing_reason_beside_a_condition_is_asked_again(
        self, post: Any, injector: FaultInjector, reasons: list[str | None]
    ) -> None:
        injector.next_error("TransactionCanceledException", reasons=reasons)
        assert post.likes.add(user_id="u") is True
        assert operations(injector)[:2] == ["TransactWriteItems"] * 2
        assert tally() == 1

    def test_a_refused_condition_that_came_without_its_item_is_looked_into(
        self, post: Any, injector: FaultInjector
    ) -> None:
        injector.next_error("TransactionCanceledException", reasons=["ConditionalCheckFailed", None])
        assert post.likes.add(user_id="u") is True
        assert tally() == 1

    def test_a_cancellation_without_reasons_is_never_already_liked(self, post: Any, injector: FaultInjector) -> None:
        injector.next_error("TransactionCanceledException", reasons=[])
        with pytest.raises(PynamoDBException) as error:
            post.likes.add(user_id="u")
        assert not isinstance(error.value, AlreadyCounted)
        assert tally() == 0

    @pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded", "SomethingNew"])
    def test_a_reason_that_does_not_pass_is_said_at_once(
        self, post: Any, injector: FaultInjector, clock: Clock, code: str
    ) -> None:
        injector.next_error("TransactionCanceledException", reasons=[{"Code": code, "Message": "no good"}, None])
        with pytest.raises(PynacountError, match=f"{code}: no good") as error:
            post.likes.add(user_id="u")
        assert not isinstance(error.value, (AlreadyCounted, ParentMissing, CounterContention))
        assert clock.slept == []
        assert tally() == 0

    def test_a_request_that_dynamodb_finds_invalid_is_said_at_once(self, post: Any, injector: FaultInjector) -> None:
        injector.next_error("ValidationException", "Item size has exceeded the maximum allowed size")
        with pytest.raises(PynamoDBException, match="Item size has exceeded"):
            post.likes.add(user_id="u")
        assert tally() == 0

    def test_an_item_that_is_too_large_is_said_at_once(self, post: Any, injector: FaultInjector) -> None:
        with pytest.raises(PynamoDBException, match=r"(?i)size"):
            post.likes.add(user_id="u", note="x" * 410_000)
        assert (tally(), post.likes.recount()) == (0, 0)


class TestTheToken:
    @pytest.mark.parametrize("fault", [f for f in ALL_FAULTS if f is not Fault.REFUSED_CONNECTION])
    def test_retries_keep_their_token(self, post: Any, injector: FaultInjector, sent: Any, fault: Fault) -> None:
        injector.next(fault, fault, fault)
        post.likes.add(user_id="u")
        assert len(tokens(sent)) == 4
        assert len(set(tokens(sent))) == 1

    def test_retries_send_the_same_request(self, post: Any, injector: FaultInjector, sent: Any) -> None:
        injector.next(Fault.CONFLICT, Fault.LOST_RESPONSE)
        post.likes.add(user_id="u")
        (_, first), *others = sent
        assert [other for _, other in others] == [first, first]

    def test_every_operation_has_a_token_of_its_own(self, post: Any, sent: Any) -> None:
        post.likes.add(user_id="u")
        post.likes.add(user_id="u")
        post.likes.discard(user_id="u")
        post.likes.add(user_id="u")
        assert len(set(tokens(sent))) == 4

    def test_saving_the_same_instance_again_is_a_new_operation(self, post: Any, sent: Any) -> None:
        like = Like(post_id="a", user_id="u")
        like.save()
        like.delete()
        like.save()
        assert len(set(tokens(sent))) == 3
        assert tally() == 1

    def test_a_token_fits_dynamodb(self, post: Any, sent: Any) -> None:
        post.likes.add(user_id="u")
        assert 1 <= len(tokens(sent)[0]) <= 36

    def test_a_lazy_seed_in_between_keeps_the_token(self, post: Any, injector: FaultInjector, sent: Any) -> None:
        unseed()
        assert post.likes.add(user_id="u") is True
        assert len(tokens(sent)) == 2
        assert len(set(tokens(sent))) == 1
        assert tally() == 1

    def test_faults_around_a_lazy_seed_keep_the_token(self, post: Any, injector: FaultInjector, sent: Any) -> None:
        unseed()
        injector.next(Fault.THROTTLE, Fault.LOST_RESPONSE, None, operation="TransactWriteItems")
        injector.next(Fault.LOST_RESPONSE, operation="UpdateItem")
        injector.next(Fault.LOST_RESPONSE, operation="Query")
        assert post.likes.add(user_id="u") is True
        assert len(set(tokens(sent))) == 1
        assert tally() == post.likes.recount() == 1

    def test_a_plan_that_changed_gets_a_new_token(self, post: Any, injector: FaultInjector, sent: Any) -> None:
        rating = Rating(post_id="a", user_id="u")
        rating.save()
        stale = Rating.get(post_id="a", user_id="u")
        rating.shown = True
        rating.save()
        sent.clear()
        stale.delete()
        assert len(tokens(sent)) == len(set(tokens(sent))) == 2
        assert Post.shown_tally.value(post) == 0


def unseed() -> None:
    Post._get_connection().update_item("POST#a", "META", actions=[Post.like_tally.remove()])


class TestTheDeadline:
    @pytest.mark.parametrize("fault", [f for f in TRANSIENT if f is not Fault.INTERNAL_ERROR])
    def test_what_was_never_written_ends_in_contention(
        self, post: Any, injector: FaultInjector, clock: Clock, fault: Fault
    ) -> None:
        start = clock.now
        injector.next(*[fault] * 1000)
        with pytest.raises(CounterContention, match=r"Post\.likes|Like\.save.*nothing was written within 10 s"):
            post.likes.add(user_id="u")
        assert DEADLINE - MAX_BACKOFF <= clock.now - start <= DEADLINE

    @pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.INTERNAL_ERROR])
    def test_what_may_have_been_written_ends_in_outcome_unknown(
        self, post: Any, injector: FaultInjector, fault: Fault
    ) -> None:
        injector.next(*[fault] * 1000)
        with pytest.raises(OutcomeUnknown, match="the same item again is safe"):
            post.likes.add(user_id="u")

    def test_a_conflict_after_a_lost_answer_stays_unknown(self, post: Any, injector: FaultInjector) -> None:
        injector.next(Fault.LOST_RESPONSE, *[Fault.CONFLICT] * 1000)
        with pytest.raises(OutcomeUnknown):
            post.likes.add(user_id="u")

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_calling_again_is_safe(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        injector.next(*[fault] * 1000)
        with pytest.raises((CounterContention, OutcomeUnknown)):
            post.likes.add(user_id="u")
        injector._script.clear()
        assert post.likes.add(user_id="u") is (fault is not Fault.LOST_RESPONSE)
        assert tally() == post.likes.recount() == 1

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_calling_an_unlike_again_is_safe(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        post.likes.add(user_id="u")
        injector.next(*[fault] * 1000)
        with pytest.raises((CounterContention, OutcomeUnknown)):
            post.likes.discard(user_id="u")
        injector._script.clear()
        assert post.likes.discard(user_id="u") is (fault is not Fault.LOST_RESPONSE)
        assert tally() == post.likes.recount() == 0

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_no_fault_ever_looks_like_already_liked(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        injector.next(*[fault] * 1000)
        with pytest.raises(PynacountError) as error:
            Like(post_id="a", user_id="u").save()
        assert not isinstance(error.value, (AlreadyCounted, NotCounted, ParentMissing))

    @pytest.mark.parametrize("seconds", [0.5, 3])
    def test_the_models_own_deadline_is_obeyed(
        self,
        post: Any,
        injector: FaultInjector,
        clock: Clock,
        monkeypatch: pytest.MonkeyPatch,
        seconds: float,
    ) -> None:
        monkeypatch.setattr(Like.Meta, "counted_deadline", seconds, raising=False)
        start = clock.now
        injector.next(*[Fault.CONFLICT] * 1000)
        with pytest.raises(CounterContention, match=rf"within {seconds:g} s \(TransactionConflict\)"):
            post.likes.add(user_id="u")
        assert 0 < clock.now - start <= seconds

    def test_a_deadline_of_nothing_still_tries_once(
        self, post: Any, injector: FaultInjector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Like.Meta, "counted_deadline", 0.001, raising=False)
        assert post.likes.add(user_id="u") is True

    def test_a_short_deadline_is_kept_by_the_clock_on_the_wall(
        self, post: Any, injector: FaultInjector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(commit, "time", time)
        monkeypatch.setattr(Like.Meta, "counted_deadline", 0.2, raising=False)
        injector.next(*[Fault.THROTTLE] * 1000)
        start = time.monotonic()
        with pytest.raises(CounterContention):
            post.likes.add(user_id="u")
        assert time.monotonic() - start < 1

    def test_the_backoff_is_jittered_and_grows_to_a_bound(
        self, post: Any, injector: FaultInjector, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bounds: list[tuple[float, float]] = []

        def most(low: float, high: float) -> float:
            bounds.append((low, high))
            return high

        monkeypatch.setattr(commit.random, "uniform", most)
        injector.next(*[Fault.CONFLICT] * 9)
        post.likes.add(user_id="u")
        expected = [min(MAX_BACKOFF, FIRST_BACKOFF * 2**n) for n in range(9)]
        assert bounds == [(0, bound) for bound in expected]
        assert clock.slept == expected

    def test_a_seed_that_conflicts_forever_ends_at_the_deadline_too(
        self, post: Any, injector: FaultInjector, clock: Clock
    ) -> None:
        unseed()
        injector.next(*[Fault.CONFLICT] * 1000, operation="UpdateItem")
        start = clock.now
        with pytest.raises(CounterContention):
            post.likes.add(user_id="u")
        assert clock.now - start <= DEADLINE
        injector._script.clear()
        assert (Post.like_tally.value(post), post.likes.recount()) == (None, 0)


class TestSingleItemWrites:
    """What can be sent twice goes plain; what would be refused or done again goes under a token."""

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_new_post_is_saved(self, injector: FaultInjector, fault: Fault) -> None:
        injector.next(fault)
        new = Post(post_id="b", body="hi")
        new.save()
        stored = Post.get(post_id="b")
        assert (stored.body, stored.like_tally, new.like_tally) == ("hi", 0, 0)

    def test_a_new_post_that_is_liked_before_the_retry_keeps_its_like(
        self, injector: FaultInjector, clock: Clock
    ) -> None:
        injector.next(Fault.LOST_RESPONSE)
        clock.meanwhile.append(lambda: Post.ref(post_id="b").likes.add(user_id="u"))
        Post(post_id="b", body="hi").save()
        stored = Post.get(post_id="b")
        assert (stored.body, stored.like_tally) == ("hi", 1)

    def test_a_new_page_with_a_version_is_saved(self, injector: FaultInjector) -> None:
        injector.next(Fault.LOST_RESPONSE)
        page = Page(page_id="b", body="hi")
        page.save()
        assert (page.version, Page.get(page_id="b").version) == (1, 1)

    def test_a_new_page_with_a_version_that_is_joined_before_the_retry_is_saved(
        self, injector: FaultInjector, clock: Clock
    ) -> None:
        injector.next(Fault.LOST_RESPONSE)
        clock.meanwhile.append(lambda: Page.ref(page_id="b").fans.add(user_id="u"))
        page = Page(page_id="b", body="hi")
        page.save()
        assert (page.version, Page.get(page_id="b").fan_tally) == (1, 1)

    def test_a_new_post_under_a_condition_that_is_liked_before_the_retry_is_saved(
        self, injector: FaultInjector, clock: Clock
    ) -> None:
        injector.next(Fault.LOST_RESPONSE)
        clock.meanwhile.append(lambda: Post.ref(post_id="b").likes.add(user_id="u"))
        Post(post_id="b", body="hi").save(Post.pk.does_not_exist())
        assert Post.get(post_id="b").like_tally == 1

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_an_edit_of_a_post_is_saved(self, injector: FaultInjector, fault: Fault) -> None:
        loaded = Post.get(post_id="a")
        loaded.body = "new"
        injector.next(fault)
        loaded.save()
        assert Post.get(post_id="a").body == "new"

    def test_an_edit_under_a_condition_that_it_ends_itself_is_saved(self, injector: FaultInjector) -> None:
        loaded = Post.get(post_id="a")
        loaded.body = "new"
        injector.next(Fault.LOST_RESPONSE)
        loaded.save(Post.body == "old")
        assert Post.get(post_id="a").body == "new"

    def test_a_condition_that_does_not_hold_is_told_after_a_lost_answer_too(self, injector: FaultInjector) -> None:
        loaded = Post.get(post_id="a")
        loaded.body = "new"
        injector.next(Fault.LOST_RESPONSE)
        with pytest.raises(PutError, match="its condition did not hold"):
            loaded.save(Post.body == "other")
        assert Post.get(post_id="a").body == "old"

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_an_edit_of_a_page_bumps_its_version_once(self, injector: FaultInjector, fault: Fault) -> None:
        page = Page.get(page_id="a")
        page.body = "new"
        injector.next(fault)
        page.save()
        page.body = "newer"
        page.save()
        assert (page.version, Page.get(page_id="a").version, Page.get(page_id="a").body) == (3, 3, "newer")

    def test_an_edit_that_landed_is_told_so_whatever_came_after(self, injector: FaultInjector, clock: Clock) -> None:
        def someone_else() -> None:
            other = Page.get(page_id="a")
            assert other.body == "mine"
            other.body = "theirs"
            other.save()

        mine = Page.get(page_id="a")
        mine.body = "mine"
        injector.next(Fault.LOST_RESPONSE, operation="TransactWriteItems")
        clock.meanwhile.append(someone_else)
        mine.save()
        stored = Page.get(page_id="a")
        assert (mine.version, stored.version, stored.body) == (2, 3, "theirs")

    def test_update_under_a_condition_that_it_ends_itself_answers_as_the_first(self, injector: FaultInjector) -> None:
        injector.next(Fault.LOST_RESPONSE)
        Post(post_id="a").update([Post.body.set("new")], condition=Post.body == "old")
        assert Post.get(post_id="a").body == "new"

    def test_update_of_a_page_with_a_version_answers_as_the_first(self, injector: FaultInjector) -> None:
        page = Page.get(page_id="a")
        injector.next(Fault.LOST_RESPONSE, operation="UpdateItem")
        page.update([Page.body.set("new")])
        assert (page.version, Page.get(page_id="a").version) == (2, 2)

    def test_update_adds_once(self, injector: FaultInjector) -> None:
        injector.next(Fault.LOST_RESPONSE)
        Post(post_id="a").update([Post.views.add(1)])
        assert Post.get(post_id="a").views == 1

    def test_update_that_does_not_hold_is_told(self, injector: FaultInjector) -> None:
        injector.next(Fault.CONFLICT, Fault.THROTTLE)
        with pytest.raises(UpdateError, match="its condition did not hold"):
            Post(post_id="a").update([Post.body.set("new")], condition=Post.body == "other")

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_post_is_deleted(self, injector: FaultInjector, fault: Fault) -> None:
        loaded = Post.get(post_id="a")
        injector.next(fault)
        loaded.delete()
        assert list(Post.query("POST#a")) == []

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_an_uncounted_child_is_saved_and_deleted(self, post: Any, injector: FaultInjector, fault: Fault) -> None:
        rating = Rating(post_id="a", user_id="u")
        for write in (rating.save, rating.delete):
            injector.next(*[f for f in [fault] if f is not Fault.MIXED])
            write()
            assert injector.pending == 0
        assert Post.shown_tally.value(post) == 0
        assert not post.ratings.contains(user_id="u")

    @pytest.mark.parametrize("fault", ALL_FAULTS)
    def test_a_second_uncounted_child_is_refused(self, injector: FaultInjector, fault: Fault) -> None:
        Rating(post_id="a", user_id="u").save()
        injector.next(*[f for f in [fault] if f is not Fault.MIXED])
        with pytest.raises(AlreadyCounted):
            Rating(post_id="a", user_id="u").save()

    def test_a_lost_answer_that_stays_lost_is_outcome_unknown(self, injector: FaultInjector) -> None:
        injector.next(*[Fault.LOST_RESPONSE] * 1000)
        new = Post(post_id="b", body="hi")
        with pytest.raises(OutcomeUnknown):
            new.save()
        injector._script.clear()
        new.save()
        assert Post.get(post_id="b").body == "hi"


class TestWhatDoesNotPass:
    """No rights, no table: PynamoDB's own errors, at once."""

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            ("AccessDeniedException", 400),
            ("ResourceNotFoundException", 400),
            ("UnrecognizedClientException", 400),
            ("ExpiredTokenException", 400),
            ("IdempotentParameterMismatchException", 400),
        ],
    )
    def test_it_is_raised_at_once(
        self, post: Any, injector: FaultInjector, clock: Clock, code: str, status: int
    ) -> None:
        injector.next_error(code, "no", status=status)
        with pytest.raises(TransactWriteError, match=code) as error:
            post.likes.add(user_id="u")
        assert not isinstance(error.value, PynacountError)
        assert operations(injector) == ["TransactWriteItems"]
        assert clock.slept == []

    @pytest.mark.parametrize("code", ["AccessDeniedException", "ResourceNotFoundException"])
    def test_it_is_raised_at_once_for_a_post_too(self, injector: FaultInjector, code: str) -> None:
        injector.next_error(code, "no")
        with pytest.raises(PutError, match=code):
            Post(post_id="b").save()
        loaded = Post(post_id="a")
        injector.next_error(code, "no")
        with pytest.raises(UpdateError, match=code):
            loaded.update([Post.body.set("new")])

    def test_after_a_lost_answer_the_outcome_is_unknown(self, post: Any, injector: FaultInjector) -> None:
        injector.next(Fault.LOST_RESPONSE)
        injector.next_error("AccessDeniedException", "no")
        with pytest.raises(OutcomeUnknown, match="AccessDenied"):
            post.likes.add(user_id="u")
        assert tally() == 1

    def test_a_table_that_does_not_exist_is_named_with_the_way_out(self, engine: Any, clock: Clock) -> None:
        for write in (Like(post_id="a", user_id="u").save, Post(post_id="a").save, Post.ref(post_id="a").likes.recount):
            with pytest.raises(PynamoDBException, match=r"create the table, or mend Meta\.table_name") as error:
                write()
            assert not isinstance(error.value, PynacountError)
        assert clock.slept == []
