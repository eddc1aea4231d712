"""``add_many()`` and ``discard_many()``: many children in as few transactions as they fit in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pynamodb.attributes import UnicodeAttribute
from pynamodb.exceptions import TransactWriteError

import social
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, bulk, commit, uncounted
from pynacount.connections import connection_for
from pynacount.errors import CounterBoundError, CounterContention, KeyTemplateError, OutcomeUnknown, ParentMissing
from pynacount.testing import Engine, Fault, FaultInjector, create_tables, record_requests
from social import Meta, Post, Product, User, number, put, raw, unseed


class Room(CountedModel):
    Meta = Meta
    pk = KeyAttribute("HALL#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    seat_tally = CounterField(attr_name="seatTally", maximum=120)
    seats: CountedSet[Any] = CountedSet("Seat", tally="seat_tally")


class Seat(CountedModel):
    Meta = Meta
    pk = KeyAttribute("HALL#{room_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("SEAT#{user_id}", range_key=True, attr_name="SK")
    room = CountedIn(Room.seat_tally)


class Team(CountedModel):
    Meta = Meta
    pk = KeyAttribute("TEAM#{team_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    member_tally = CounterField(attr_name="memberTally")
    members: CountedSet[Any] = CountedSet("Player", tally="member_tally")


class Player(CountedModel):
    """Lies in a partition of its own; an attribute says whose child it is."""

    Meta = Meta
    pk = KeyAttribute("PLAYER#{player_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    team_id = UnicodeAttribute(attr_name="teamId")
    team = CountedIn(Team.member_tally)


@pytest.fixture(autouse=True)
def table(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "FIRST_BACKOFF", 0.001)
    create_tables(Post)


def users(*names: str) -> list[dict[str, str]]:
    return [{"user_id": name} for name in names]


def likes(post: str = "a") -> set[str]:
    return {sk.removeprefix("LIKE#USER#") for pk, sk in social.items(f"POST#{post}") if sk != "META"}


def sent(act: Callable[[], Any]) -> list[tuple[str, dict[str, Any]]]:
    """The requests that were sent."""
    with record_requests(connection_for(Meta).client) as requests:
        act()
    return list(requests)


@contextmanager
def consumed_capacity() -> Iterator[list[float]]:
    """What the engine says that each transaction consumed that landed."""
    consumed: list[float] = []

    def look(parsed: Any, **_: Any) -> None:
        consumed.extend(each["CapacityUnits"] for each in parsed.get("ConsumedCapacity", ()))

    events = connection_for(Meta).client.meta.events
    events.register("after-call.dynamodb.TransactWriteItems", look)
    try:
        yield consumed
    finally:
        events.unregister("after-call.dynamodb.TransactWriteItems", look)


def is_exact(post: str = "a") -> bool:
    return number(f"POST#{post}", "likeTally") == str(len(likes(post)))


def test_250_likes_are_three_transactions_of_at_most_99() -> None:
    post = Post(post_id="a")
    post.save()
    requests = sent(lambda: post.likes.add_many([{"user_id": f"u{n}"} for n in range(250)]))
    assert [(name, len(request["TransactItems"])) for name, request in requests] == [
        ("TransactWriteItems", 100),
        ("TransactWriteItems", 100),
        ("TransactWriteItems", 53),
    ]
    assert post.like_tally == 250, "the number in memory follows"
    assert len(likes()) == 250
    assert is_exact()


def test_the_result_says_what_was_added_what_was_there_and_what_failed() -> None:
    Post(post_id="a").save()
    Post.ref(post_id="a").likes.add(user_id="x")
    result = Post.ref(post_id="a").likes.add_many(users("u", "x", "v", "u"))
    assert result.added == 2
    assert result.already == users("x", "u") or result.already == users("u", "x")
    assert result.failed == []
    assert is_exact()


def test_discarding_many_says_what_was_not_there() -> None:
    post = Post(post_id="a")
    post.save()
    post.likes.add_many(users("u", "v", "w"))
    result = post.likes.discard_many(users("u", "x", "w", "w"))
    assert result.discarded == 2
    assert sorted(values["user_id"] for values in result.already) == ["w", "x"]
    assert post.like_tally == 1
    assert likes() == {"v"}
    assert is_exact()


def test_a_missing_parent_fails_every_element_and_nothing_is_written() -> None:
    result = Post.ref(post_id="gone").likes.add_many(users("u", "v"))
    assert (result.added, result.already) == (0, [])
    assert [failed.values for failed in result.failed] == users("u", "v")
    assert all(isinstance(failed.error, ParentMissing) for failed in result.failed)
    assert not social.items("POST#gone")


def test_of_400_likes_of_which_120_exist_hardly_a_transaction_more_is_sent_than_needed() -> None:
    post = Post.ref(post_id="a")
    Post(post_id="a").save()
    names = [f"u{n:04}" for n in range(400)]
    post.likes.add_many(users(*names[::3][:120]))
    requests = sent(lambda: post.likes.add_many(users(*names)))
    transactions = [request for name, request in requests if name == "TransactWriteItems"]
    assert is_exact()
    assert number("POST#a", "likeTally") == "400"
    assert len(transactions) <= math.ceil(280 / 99) + 2  # refused tries included


def test_those_that_follow_a_refusal_are_read_ahead_until_none_of_a_hundred_was_there() -> None:
    post = Post.ref(post_id="a")
    Post(post_id="a").save()
    post.likes.add(user_id="u0000")
    requests = sent(lambda: post.likes.add_many([{"user_id": f"u{n:04}"} for n in range(600)]))
    assert [name for name, _ in requests].count("BatchGetItem") == 1
    assert [name for name, _ in requests].count("TransactWriteItems") == 8  # one of them refused
    assert is_exact()


def test_those_that_are_not_there_to_be_discarded_are_read_ahead_too() -> None:
    post = Post.ref(post_id="a")
    Post(post_id="a").save()
    names = [f"u{n:03}" for n in range(240)]
    post.likes.add_many(users(*names[::4]))
    tale: list[Any] = []
    requests = sent(lambda: tale.append(post.likes.discard_many(users(*names))))
    assert tale[0].discarded == 60
    assert len(tale[0].already) == 180
    assert [name for name, _ in requests].count("BatchGetItem") == 2
    assert [name for name, _ in requests].count("TransactWriteItems") <= 3
    assert number("POST#a", "likeTally") == "0"


def test_where_nothing_exists_nothing_is_read() -> None:
    Post(post_id="a").save()
    requests = sent(lambda: Post.ref(post_id="a").likes.add_many([{"user_id": f"u{n}"} for n in range(300)]))
    assert {name for name, _ in requests} == {"TransactWriteItems"}


def test_likes_of_several_posts_share_transactions() -> None:
    for post in "abc":
        Post(post_id=post).save()
    elements = [{"post_id": post, "user_id": f"u{n}"} for n in range(40) for post in "abc"]
    requests = sent(lambda: Post.likes.add_many(elements))
    assert len(requests) == 2
    for post in "abc":
        assert number(f"POST#{post}", "likeTally") == "40"
        assert is_exact(post)


def test_of_several_posts_one_that_is_missing_fails_its_own_likes_alone() -> None:
    Post(post_id="a").save()
    elements = [{"post_id": post, "user_id": user} for user in "uvw" for post in ("a", "gone")]
    result = Post.likes.add_many(elements)
    assert result.added == 3
    assert [failed.values["post_id"] for failed in result.failed] == ["gone"] * 3
    assert is_exact()


def test_a_busy_post_does_not_fail_the_likes_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meta, "counted_deadline", 0.3)
    for post in "ab":
        Post(post_id=post).save()
    client = connection_for(Meta).client
    busy = b"POST#b"

    def meet(request: Any, **_: Any) -> None:
        if busy in request.body:
            injector.next(Fault.CONFLICT, operation="TransactWriteItems")

    injector = FaultInjector(client)
    client.meta.events.register_first("before-send.dynamodb.*", meet, "busy")
    try:
        with injector:
            result = Post.likes.add_many([{"post_id": post, "user_id": user} for user in "uv" for post in "ab"])
    finally:
        client.meta.events.unregister("before-send.dynamodb.*", meet, "busy")
    assert result.added == 2
    assert [failed.values["post_id"] for failed in result.failed] == ["b", "b"]
    assert all(isinstance(failed.error, CounterContention) for failed in result.failed)
    assert likes("a") == {"u", "v"}
    assert not likes("b")


def test_a_transaction_that_could_not_be_learnt_of_is_told_and_the_next_ones_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Meta, "counted_deadline", 0.3)
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next(*[Fault.LOST_RESPONSE] * 400, operation="TransactWriteItems")

        def elements() -> Iterator[dict[str, str]]:
            for n in range(400):
                if n == 150:
                    injector._script.clear()
                yield {"user_id": f"u{n}"}

        result = post.likes.add_many(elements())
    assert len(result.failed) == 99
    assert all(isinstance(failed.error, OutcomeUnknown) for failed in result.failed)
    assert result.added == 301
    again = post.likes.add_many([failed.values for failed in result.failed])
    assert len(again.already) == 99, "they had landed, and are not counted twice"
    assert is_exact()


def test_as_many_as_there_is_room_for_are_added_in_their_order() -> None:
    Room(room_id="r").save()
    room = Room.ref(room_id="r")
    room.seats.add_many(users("u010", "u110"))
    result = room.seats.add_many([{"user_id": f"u{n:03}"} for n in range(200)])
    assert result.added == 118
    assert len(result.already) == 2
    assert all(isinstance(failed.error, CounterBoundError) and failed.error.value == 120 for failed in result.failed)
    assert [failed.values["user_id"] for failed in result.failed] == [f"u{n:03}" for n in range(120, 200)]
    assert number("HALL#r", "seatTally") == "120"


@pytest.mark.parametrize(
    ("elements", "error", "said"),
    [
        ([{"user_id": "u"}, {"user_id": "a#b"}], KeyTemplateError, "Post.likes.add_many: element 1: .*delimiter"),
        ([{"user_id": "u"}, {"user_id": "x" * 2000}], KeyTemplateError, "element 1: .*bytes long"),
        ([{"user_id": "u", "colour": "red"}], ValueError, "element 0: .*colour"),
        ([{}], KeyTemplateError, "element 0: .*user_id"),
        (["u"], TypeError, r"element 0 is 'u'; give a dict .*: dict\(user_id=...\)"),
        ([{"user_id": "u"}, {"user_id": "v", "post_id": "b"}], KeyTemplateError, "element 1: .*is not the parent's"),
        ({"user_id": "u"}, TypeError, "give a list of dicts"),
        ("users", TypeError, "give a list of dicts"),
        (7, TypeError, "give a list of dicts"),
    ],
)
def test_a_bad_element_of_a_list_is_named_before_anything_is_sent(
    elements: Any, error: type[Exception], said: str
) -> None:
    with record_requests(connection_for(Meta).client) as requests, pytest.raises(error, match=said):
        Post.ref(post_id="a").likes.add_many(elements)
    assert list(requests) == []


def test_a_bad_element_of_a_long_list_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "MOST_KEPT", 2)
    Post(post_id="a").save()
    likes_ = Post.ref(post_id="a").likes
    with record_requests(connection_for(Meta).client) as requests, pytest.raises(KeyTemplateError, match="element 3"):
        likes_.add_many(users("u", "v", "w", "a#b"))
    assert list(requests) == []
    assert likes_.add_many(users("u", "v", "w")).added == 3


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ([{"user_id": "u"}], "element 0: .*post_id"),
        ([{"post_id": "a"}], "element 0: .*user_id"),
        ([{"post_id": "a", "user_id": "u", "liked_at": 5}], "element 0: liked_at is not part"),
    ],
)
def test_over_several_parents_each_element_names_its_parent(elements: Any, said: str) -> None:
    with record_requests(connection_for(Meta).client) as requests, pytest.raises(KeyTemplateError, match=said):
        Post.likes.discard_many(elements)
    assert list(requests) == []


def test_a_bad_element_of_a_generator_is_told_under_failed() -> None:
    Post(post_id="a").save()
    result = Post.ref(post_id="a").likes.add_many(element for element in [*users("u", "a#b", "v"), "w"])  # type: ignore[misc]
    assert result.added == 2
    assert [failed.values for failed in result.failed] == [{"user_id": "a#b"}, "w"]
    assert isinstance(result.failed[0].error, KeyTemplateError)
    assert isinstance(result.failed[1].error, TypeError)


def test_no_elements_are_no_request() -> None:
    assert sent(lambda: Post.ref(post_id="a").likes.add_many([])) == []


def test_what_the_caller_gave_is_not_changed() -> None:
    Post(post_id="a").save()
    elements = users("u")
    Post.ref(post_id="a").likes.add_many(elements)
    assert elements == users("u")


def test_children_that_count_by_their_attributes_are_read_a_hundred_at_a_time_before_they_go() -> None:
    Product(product_id="p", title="t").save()
    product = Product.ref(product_id="p")
    product.reviews.add_many([{"number": n, "stars": n, "hidden": n % 2 == 0} for n in range(1, 6)])
    assert number("PRODUCT#p", "star-sum") == "15"
    assert number("PRODUCT#p", "count") == "3"
    requests = sent(lambda: product.reviews.discard_many([{"number": n} for n in (1, 2, 3, 9)]))
    assert [name for name, _ in requests] == ["BatchGetItem", "TransactWriteItems"]
    assert number("PRODUCT#p", "star-sum") == "9"
    assert number("PRODUCT#p", "reviewTally") == "2"


def test_children_that_count_in_several_parents_fill_a_transaction_with_all_of_them() -> None:
    Product(product_id="p", title="t").save()
    elements = [{"number": n, "author_id": f"w{n}"} for n in range(60)]
    for n in range(60):
        User(user_id=f"w{n}").save()
    requests = sent(lambda: Product.ref(product_id="p").reviews.add_many(elements))
    assert all(len(request["TransactItems"]) <= 100 for _, request in requests)
    assert len(requests) == 2
    assert number("PRODUCT#p", "reviewTally") == "60"


@pytest.mark.parametrize("code", ["AccessDeniedException", "ProvisionedThroughputExceededException"])
def test_where_they_cannot_be_read_together_they_are_settled_all_the_same(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Meta, "counted_deadline", 2)
    Product(product_id="p", title="t").save()
    reviews = Product.ref(product_id="p").reviews
    reviews.add_many([{"number": n, "stars": n} for n in range(110)])
    with FaultInjector(connection_for(Meta).client) as injector:
        for _ in range(300):
            injector.next_error(code, operation="BatchGetItem")
        assert reviews.add_many([{"number": n} for n in range(220)]).added == 110
        discarded = reviews.discard_many([{"number": n} for n in range(0, 120, 2)])
    assert discarded.discarded == 60
    assert number("PRODUCT#p", "reviewTally") == "160"
    assert number("PRODUCT#p", "star-sum") == str(sum(range(1, 110, 2)))


def test_a_child_of_another_parent_is_not_discarded() -> None:
    for team in "ab":
        Team(team_id=team).save()
    Team.members.add_many([{"player_id": "p", "team_id": "a"}, {"player_id": "q", "team_id": "b"}])
    result = Team.ref(team_id="b").members.discard_many([{"player_id": "p"}, {"player_id": "q"}])
    assert result.discarded == 1
    assert result.already == [{"player_id": "p"}]
    result = Team.members.discard_many([{"player_id": "p", "team_id": "a"}])
    assert result.discarded == 1
    assert number("TEAM#a", "memberTally") == "0" == number("TEAM#b", "memberTally")


def test_an_unseeded_post_is_seeded_on_the_way() -> None:
    Post(post_id="a").save()
    put("POST#a", "LIKE#USER#x")
    unseed("POST#a", "likeTally")
    assert Post.ref(post_id="a").likes.add_many(users("u", "v")).added == 2
    assert number("POST#a", "likeTally") == "3"


def test_in_an_uncounted_block_they_are_written_uncounted() -> None:
    Post(post_id="a").save()
    with uncounted():
        assert Post.ref(post_id="a").likes.add_many(users("u", "v")).added == 2
    assert number("POST#a", "likeTally") is None
    assert Post.like_tally.seed(Post.ref(post_id="a")) == 2


def test_what_no_retry_mends_is_raised() -> None:
    raw().delete_table(TableName="Town")
    with pytest.raises(TransactWriteError, match=r"Post.likes.add_many: .*create the table"):
        Post.ref(post_id="a").likes.add_many(users("u"))


def test_few_elements_of_a_long_stream_are_held_at_once() -> None:
    Post(post_id="a").save()
    drawn, ahead = 0, []

    def elements() -> Iterator[dict[str, str]]:
        nonlocal drawn
        for n in range(600):
            drawn += 1
            yield {"user_id": f"u{n}"}

    client = connection_for(Meta).client
    landed = [0]

    def count(params: Any, **_: Any) -> None:
        ahead.append(drawn - landed[0])
        landed[0] += params["body"].count(b'"Put"') if isinstance(params["body"], bytes) else 99

    client.meta.events.register("before-call.dynamodb.TransactWriteItems", count)
    try:
        Post.ref(post_id="a").likes.add_many(elements())
    finally:
        client.meta.events.unregister("before-call.dynamodb.TransactWriteItems", count)
    assert max(ahead) < 400
    assert is_exact()


def test_the_plan_of_many_is_priced_at_little_more_than_2_wcu_a_like() -> None:
    elements = [{"user_id": f"u{n}"} for n in range(198)]
    plans = Post.ref(post_id="a").likes.plan_add_many(elements)
    assert [plan.cost().items for plan in plans] == [100, 100]
    assert sum(plan.cost().wcu for plan in plans) / 198 < 2.03
    assert len(plans[0].request()["TransactItems"]) == 100
    (plan,) = Post.likes.plan_discard_many([{"post_id": "a", "user_id": "u"}, {"post_id": "b", "user_id": "u"}])
    assert plan.cost().items == 4


@pytest.mark.real_engine
def test_of_10_000_likes_of_which_3000_exist_7000_are_added_in_hardly_more_than_71_transactions() -> None:
    Post(post_id="a").save()
    post = Post.ref(post_id="a")
    names = [f"u{n:05}" for n in range(10_000)]
    there = [name for n, name in enumerate(names) if n % 10 < 3]
    assert post.likes.add_many(users(*there)).added == 3_000
    tale: list[Any] = []
    with consumed_capacity() as consumed:
        requests = sent(lambda: tale.append(post.likes.add_many({"user_id": name} for name in names)))
    (result,) = tale
    assert (result.added, len(result.already), result.failed) == (7_000, 3_000, [])
    transactions = [request for name, request in requests if name == "TransactWriteItems"]
    assert len(transactions) <= 1.15 * math.ceil(7_000 / 99), "those included that were refused"
    assert number("POST#a", "likeTally") == "10000" == str(len(likes()))
    new = users(*(name for name in names if name not in set(there)))
    wcu = sum(plan.cost().wcu for plan in post.likes.plan_add_many(new))
    assert wcu / 7_000 <= 2.2
    assert len(consumed) >= math.ceil(7_000 / 99)
    assert sum(consumed) / 7_000 <= 2.2, "as the engine has it"


@settings(max_examples=40)
@given(
    asks=st.lists(st.tuples(st.sampled_from(["a", "b", "gone"]), st.sampled_from("uvwxyz")), max_size=15),
    there=st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from("uvwxyz"))),
    adds=st.booleans(),
    faults=st.lists(st.sampled_from([None, *Fault]), max_size=4),
    as_list=st.booleans(),
)
def test_whatever_is_asked_every_element_gets_one_true_answer(
    asks: list[tuple[str, str]],
    there: set[tuple[str, str]],
    adds: bool,
    faults: list[Fault | None],
    as_list: bool,
) -> None:
    for pk, sk in social.items():
        raw().delete_item(TableName="Town", Key={"PK": {"S": pk}, "SK": {"S": sk}})
    for post in "ab":
        Post(post_id=post).save()
    Post.likes.add_many([{"post_id": post, "user_id": user} for post, user in there])
    elements = [{"post_id": post, "user_id": user} for post, user in asks]
    there_to_come = {ask for ask in asks if ask[0] != "gone"}
    with FaultInjector(connection_for(Meta).client) as injector:
        injector.next(*faults)
        given_ = elements if as_list else iter(elements)
        if adds:
            added = Post.likes.add_many(given_)
            done, already, failed = added.added, added.already, added.failed
        else:
            discarded = Post.likes.discard_many(given_)
            done, already, failed = discarded.discarded, discarded.already, discarded.failed
    assert done == len(there_to_come - there if adds else there_to_come & there)
    assert len(failed) == (sum(post == "gone" for post, _ in asks) if adds else 0)
    assert done + len(already) + len(failed) == len(asks)
    now = there | there_to_come if adds else there - there_to_come
    for post in "ab":
        assert likes(post) == {user for p, user in now if p == post}
        assert is_exact(post)
