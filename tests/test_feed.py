"""``Post.likes.page()``: the tallies of a feed page, and whether the viewer likes each, in one request."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pynamodb.attributes import UnicodeAttribute

import social
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models
from pynacount.connections import connection_for
from pynacount.errors import CounterContention, CounterTypeError, KeyTemplateError
from pynacount.feed import PageRow
from pynacount.testing import Engine, create_tables, record_requests
from social import Meta, Post, Product, item, put, unseed


class OtherTable:
    table_name = "Elsewhere"
    counted_deadline = 20


class Team(CountedModel):
    """Its players lie in another table, and an attribute says whose player one is."""

    Meta = Meta
    pk = KeyAttribute("TEAM#{team_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    player_tally = CounterField(attr_name="playerTally")
    players: CountedSet[Any] = CountedSet("FeedPlayer", tally="player_tally")


class FeedPlayer(CountedModel):
    Meta = OtherTable
    player_id = UnicodeAttribute(hash_key=True, attr_name="playerId")
    team_id = UnicodeAttribute(attr_name="teamId")
    shirt = UnicodeAttribute(null=True)
    team = CountedIn(Team.player_tally)


class Tag(models.PostMeta):
    """Its absent tally counts as 0."""

    Meta = Meta
    pk = KeyAttribute("TAG#{post_id}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally", missing="zero")
    likes: CountedSet[Any] = CountedSet("TagLike", tally="like_tally")


class TagLike(models.Like):
    Meta = Meta
    pk = KeyAttribute("TAG#{post_id}", hash_key=True, attr_name="PK")
    post = CountedIn(Tag.like_tally)


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    create_tables(Post, FeedPlayer)


def posts(*names: str) -> list[Post]:
    return [Post.ref(post_id=name) for name in names]


def test_each_row_has_the_tally_and_whether_the_viewer_likes_it_in_the_order_of_the_refs() -> None:
    for name in "abc":
        Post(post_id=name).save()
    Post.likes.add_many([{"post_id": p, "user_id": u} for p, u in ["au", "av", "bw", "cu"]])
    refs = posts("c", "gone", "a", "b", "a")
    rows = Post.likes.page(refs, viewer={"user_id": "u"})
    assert [row.ref for row in rows] == refs
    assert [(row.exists, row.tally, row.mine) for row in rows] == [
        (True, 1, True),
        (False, None, False),
        (True, 2, True),
        (True, 1, False),
        (True, 2, True),
    ]


def test_without_a_viewer_nothing_is_said_of_one() -> None:
    Post(post_id="a").save()
    (row,) = Post.likes.page(posts("a"))
    assert row == PageRow(ref=Post.ref(post_id="a"), exists=True, tally=0, mine=None)


@pytest.mark.parametrize(
    ("refs", "with_viewer", "requests"), [(50, True, 1), (51, True, 2), (100, False, 1), (101, False, 2), (0, True, 0)]
)
def test_a_page_of_50_posts_is_one_request(refs: int, with_viewer: bool, requests: int) -> None:
    page = posts(*(f"p{n}" for n in range(refs)))
    with record_requests(connection_for(Meta).client) as sent:
        rows = Post.likes.page(page, viewer={"user_id": "u"} if with_viewer else None)
    assert [operation for operation, _ in sent] == ["BatchGetItem"] * requests
    assert len(rows) == refs
    for _, request in sent:
        assert len(request["RequestItems"]["Town"]["Keys"]) <= 100


def test_what_is_sent_asks_for_the_keys_and_the_number_alone() -> None:
    with record_requests(connection_for(Meta).client) as sent:
        Post.likes.page(posts("a"), viewer={"user_id": "u"})
    ((_, request),) = sent
    block = request["RequestItems"]["Town"]
    assert block == {
        "Keys": [
            {"PK": {"S": "POST#a"}, "SK": {"S": "META"}},
            {"PK": {"S": "POST#a"}, "SK": {"S": "LIKE#USER#u"}},
        ],
        "ConsistentRead": False,
        "ProjectionExpression": "PK, SK, likeTally, likeTallyWas, likeTallyShards, likeTallyRetiring",
    }


def test_a_consistent_read_can_be_asked_for() -> None:
    with record_requests(connection_for(Meta).client) as sent:
        Post.likes.page(posts("a"), consistent_read=True)
    ((_, request),) = sent
    assert request["RequestItems"]["Town"]["ConsistentRead"] is True


def test_an_unseeded_tally_is_none_and_during_a_repair_the_number_from_before_it() -> None:
    Post(post_id="a").save()
    Post(post_id="b").save()
    unseed("POST#a", "likeTally")
    put("POST#b", "META", likeTallyWas={"N": "41"})
    assert [row.tally for row in Post.likes.page(posts("a", "b"))] == [None, 41]
    assert [row.exists for row in Post.likes.page(posts("a", "b"))] == [True, True]


def test_where_an_absent_tally_counts_as_0_it_is_0_but_for_a_parent_that_is_not_there() -> None:
    put("TAG#a", "META")
    rows = Tag.likes.page([Tag.ref(post_id="a"), Tag.ref(post_id="gone")])
    assert [(row.exists, row.tally) for row in rows] == [(True, 0), (False, None)]


def test_posts_that_were_loaded_can_be_given_too() -> None:
    Post(post_id="a", body="hi").save()
    (row,) = Post.likes.page([Post.get(post_id="a")], viewer={"user_id": "u"})
    assert row.ref.body == "hi"


def test_a_child_whose_key_does_not_say_whose_it_is_is_looked_at() -> None:
    for team in "ab":
        Team(team_id=team).save()
    Team.players.add_many([{"player_id": "p", "team_id": "a", "shirt": "7"}])
    teams = [Team.ref(team_id=team) for team in "ab"]
    with record_requests(connection_for(Meta).client) as sent:
        rows = Team.players.page(teams, viewer={"player_id": "p"})
    assert [(row.tally, row.mine) for row in rows] == [(1, True), (0, False)]
    ((_, request),) = sent
    assert request["RequestItems"]["Elsewhere"]["ProjectionExpression"] == "playerId, teamId"
    assert len(request["RequestItems"]["Elsewhere"]["Keys"]) == 1, "one child, asked for once"


@pytest.mark.parametrize(
    ("viewer", "said"),
    [
        ({}, "needs user_id too"),
        ({"user": "u"}, "viewer has user, which is no part of a Like's own key; give user_id"),
        ({"user_id": "u", "post_id": "a"}, "viewer has post_id"),
        ({"user_id": "a#b"}, "delimiter"),
        ({"user_id": None}, "must be a str"),
    ],
)
def test_a_viewer_whose_key_cannot_be_told_is_refused_before_anything_is_sent(viewer: Any, said: str) -> None:
    with record_requests(connection_for(Meta).client) as sent, pytest.raises(KeyTemplateError, match=said):
        Post.likes.page(posts("a"), viewer=viewer)
    assert list(sent) == []


def test_children_of_whom_one_viewer_has_several_cannot_be_told() -> None:
    refs = [Product.ref(product_id="p")]
    with pytest.raises(KeyTemplateError, match=r"Product.reviews.page: viewer has author_id, .* give number"):
        Product.reviews.page(refs, viewer={"author_id": "ada"})


@pytest.mark.parametrize(
    ("refs", "said"),
    [
        (["a91f"], "'a91f' is no Post"),
        (7, "Post.likes.page.7.: give a list of refs"),
        ([Product.ref(product_id="p")], "is no Post"),
    ],
)
def test_what_is_no_list_of_refs_is_refused(refs: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Post.likes.page(refs)


def test_a_viewer_that_is_no_dict_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a dict: viewer=dict\(user_id=...\)"):
        Post.likes.page(posts("a"), viewer="7c20")  # type: ignore[arg-type]


def test_a_number_that_is_none_is_told_with_its_key() -> None:
    put("POST#a", "META", likeTally={"S": "many"})
    with pytest.raises(CounterTypeError, match="POST#a"):
        Post.likes.page(posts("a"))


def unprocessed(times: int, keep: int) -> Any:
    """Let the table leave all but ``keep`` keys unprocessed, so often."""
    left = [times]

    def throttle(parsed: dict[str, Any], **_: Any) -> None:
        if left[0] and "Town" in parsed.get("Responses", {}):
            left[0] -= 1
            items = parsed["Responses"]["Town"]
            dropped = items[keep:]
            keys = [{name: item[name] for name in ("PK", "SK")} for item in dropped]
            parsed["Responses"]["Town"] = items[:keep]
            parsed["UnprocessedKeys"] = {"Town": {"Keys": keys}} if keys else {}

    return throttle


def test_keys_that_were_left_unprocessed_are_asked_for_again_with_those_that_follow() -> None:
    names = [f"p{n:03}" for n in range(120)]
    for name in names:
        put(f"POST#{name}", "META", likeTally={"N": "5"})
    events = connection_for(Meta).client.meta.events
    handler = unprocessed(1, 70)
    events.register("after-call.dynamodb.BatchGetItem", handler)
    try:
        with record_requests(connection_for(Meta).client) as sent:
            rows = Post.likes.page(posts(*names))
    finally:
        events.unregister("after-call.dynamodb.BatchGetItem", handler)
    assert [row.tally for row in rows] == [5] * 120
    assert [len(request["RequestItems"]["Town"]["Keys"]) for _, request in sent] == [100, 50]


def test_a_throttled_table_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meta, "counted_deadline", 0.3)
    put("POST#a", "META", likeTally={"N": "5"})
    events = connection_for(Meta).client.meta.events
    handler = unprocessed(1_000, 0)
    events.register("after-call.dynamodb.BatchGetItem", handler)
    began = time.monotonic()
    try:
        with pytest.raises(CounterContention, match=r"Post.likes.page: the table is throttled, and the 1 items"):
            Post.likes.page(posts("a"))
    finally:
        events.unregister("after-call.dynamodb.BatchGetItem", handler)
    assert time.monotonic() - began < 3


def test_the_plan_of_a_page_is_what_is_sent_and_its_price() -> None:
    refs = posts(*(f"p{n}" for n in range(60)))
    plan = Post.likes.plan_page(refs, viewer={"user_id": "u"})
    with record_requests(connection_for(Meta).client) as sent:
        Post.likes.page(refs, viewer={"user_id": "u"})
    assert [request["RequestItems"] for _, request in sent] == [request["RequestItems"] for request in plan.requests()]
    assert (plan.cost().rcu, plan.cost().wcu, plan.cost().items) == (60.0, 0, 120)
    assert Post.likes.plan_page(refs, consistent_read=True).cost().rcu == 60.0


def test_a_page_writes_nothing() -> None:
    Post(post_id="a").save()
    unseed("POST#a", "likeTally")
    Post.likes.page(posts("a"), viewer={"user_id": "u"})
    assert "likeTally" not in (item("POST#a", "META") or {})
    assert len(social.items()) == 1
