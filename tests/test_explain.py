"""What `pynacount explain` shows to paste: the very requests that the library sends."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.session import get_session
from click.testing import CliRunner, Result

import party
import social
import video
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.explaining.pasting import _literal
from pynacount.testing import Engine, create_tables, record_requests
from social import Like, Post, Product, Review, User, item, number

ROOT = Path(__file__).parents[1]
LIKE = ("social:Post", "post_id=a91f", "user_id=7c20", "liked_at=1700000000")
REVIEW = ("product_id=p", "number=1", "author_id=7c20", "stars=5", "hidden=false", "text=good")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["explain", *arguments], prog_name="pynacount")


def text(*arguments: str) -> str:
    done = run(*arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def town(engine: Engine) -> None:
    create_tables(*social.ALL)


# -- as json


def test_the_price_in_a_group_stands_beside_that_of_a_lone_call() -> None:
    create, delete = json.loads(text("test_group_commit:Post.like_tally", "post_id=a91f", "user_id=7c20"))
    assert [(one["wcu"], one["wcu_in_a_group"]) for one in (create, delete)] == [(4, 2.02), (4, 2.02)]
    plays = json.loads(text("test_group_commit:Video.plays", "video_id=v"))
    assert [(one["wcu"], one["wcu_in_a_group"]) for one in plays] == [(1, 0.01), (1, 0.01)]
    for alone in (("test_group_commit:Video.plays", "video_id=v", "--once", "t"), LIKE):
        assert "wcu_in_a_group" not in text(*alone)
    assert "create of a GroupedLike, 4 WCU; in a group of 99 (group_commit), 2.02 each" in text(
        "test_group_commit:Post.like_tally", "post_id=a91f", "user_id=7c20", "--as", "boto3"
    )


def test_the_json_is_the_request_of_the_plan() -> None:
    create, delete = json.loads(text(*LIKE))
    like = Like(post_id="a91f", user_id="7c20", liked_at=1700000000)
    assert (create["model"], create["does"], create["operation"], create["wcu"]) == (
        "Like", "create", "TransactWriteItems", 4,
    )  # fmt: skip
    assert create["request"] == like.plan_save().request()
    assert (delete["does"], delete["wcu"]) == ("delete", 4)
    assert delete["request"] == like.plan_delete().request()


def test_the_requests_are_those_that_are_sent(town: None) -> None:
    Product(product_id="p").save()
    User(user_id="7c20").save()
    with record_requests(connection_for(Review.Meta).client) as sent:
        Review(product_id="p", number=1, author_id="7c20", stars=5, text="good").save()
        Review.get(product_id="p", number=1).delete()
    explained = json.loads(text("social:Product", *REVIEW))
    writes = [request for operation, request in sent if operation == "TransactWriteItems"]
    for request in writes:
        assert request.pop("ClientRequestToken")
        assert request.pop("ReturnConsumedCapacity") == "TOTAL"
    assert [one["request"] for one in explained] == writes


def test_the_parent_may_be_any_that_the_child_counts_in() -> None:
    by_author = json.loads(text("social:User", "user_id=7c20", *(p for p in REVIEW if not p.startswith("author_id"))))
    assert [one["request"] for one in by_author] == [
        one["request"] for one in json.loads(text("social:Product", *REVIEW))
    ]


def test_one_of_the_two_writes() -> None:
    assert [one["does"] for one in json.loads(text(*LIKE, "--only", "delete"))] == ["delete"]


def test_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    assert run(*LIKE).exit_code == 0


def test_a_plain_counter_is_explained_by_its_increment_and_its_decrement() -> None:
    increment, decrement = json.loads(text("video:Stats.seats", "video_id=9f3a", "--by", "2"))
    ref = video.Stats.ref(video_id="9f3a")
    assert (increment["model"], increment["does"], increment["operation"], increment["wcu"]) == (
        "Stats.seats", "increment", "UpdateItem", 1,
    )  # fmt: skip
    assert increment["request"] == video.Stats.seats.plan_increment(ref, 2).request()
    assert (decrement["does"], decrement["request"]) == (
        "decrement", video.Stats.seats.plan_increment(ref, -2).request(),
    )  # fmt: skip


def test_a_token_is_explained_by_the_transaction_with_its_marker() -> None:
    (shown,) = json.loads(text("video:Stock.left", "item_id=a", "--once", "order-17", "--only", "decrement"))
    assert (shown["operation"], shown["wcu"]) == ("TransactWriteItems", 4)
    marker = shown["request"]["TransactItems"][0]["Put"]
    assert marker["Item"]["item_id"] == {"S": "ONCE#order-17#a#left"}


def test_a_model_is_explained_by_all_its_counters_and_a_module_with_one_model_needs_no_name() -> None:
    shown = json.loads(text("video:Room", "room_id=1", "name=ada"))
    assert [(one["model"], one["does"]) for one in shown] == [
        ("Guest", "create"), ("Guest", "delete"), ("Room.views", "increment"), ("Room.views", "decrement"),
    ]  # fmt: skip
    assert len(json.loads(text("video:Stats", "video_id=9f3a"))) == 8


def test_the_boto3_snippet_of_an_increment_runs(engine: Engine) -> None:
    create_tables(video.Stats)
    snippet = text("video:Stats.plays", "video_id=9f3a", "--by", "0.5", "--as", "boto3", "--only", "increment")
    assert "# increment of Stats.plays, 1 WCU\ndynamodb.update_item(" in snippet
    exec(snippet, {})
    exec(snippet, {})
    assert video.Stats.plays.value(video.Stats.ref(video_id="9f3a")) == 1


# -- in shards


@pytest.fixture
def party_tables(engine: Engine) -> None:
    create_tables(*party.ALL)


def test_a_child_of_a_parent_in_shards_is_explained_by_the_shard_that_it_moves(party_tables: None) -> None:
    party.Post(post_id="1").save()
    create, delete = json.loads(text("party:Post", "post_id=1", "user_id=7c20"))
    with record_requests(connection_for(party.Post.Meta).client) as sent:
        party.Post.ref(post_id="1").likes.add(user_id="7c20")
        party.Post.ref(post_id="1").likes.discard(user_id="7c20")
    for (_, request), one in zip(sent, (create, delete), strict=True):
        assert request["TransactItems"] == one["request"]["TransactItems"]
        shard = one["request"]["TransactItems"][1]["Update"]["Key"]["SK"]["S"]
        assert (one["wcu"], one["note"]) == (4, f"Post.like_tally in {shard}, one of 4 shards")
    assert "# create of a Like, 4 WCU, Post.like_tally in META#likeTally#" in text(
        "party:Post", "post_id=1", "user_id=7c20", "--as", "cli"
    )


def test_many_children_name_the_one_shard_that_they_share() -> None:
    users = [f"user_id=u{number}" for number in range(20)]
    (add,) = json.loads(text("party:Post", "post_id=1", *users, "--only", "add_many"))
    (update,) = [one["Update"] for one in add["request"]["TransactItems"] if "Update" in one]
    assert add["note"] == f"Post.like_tally in {update['Key']['SK']['S']}, one of 4 shards"


def test_a_plain_counter_in_shards_is_explained_by_the_write_of_one_of_them(party_tables: None) -> None:
    party.Page.views.increment(party.Page.ref(page_id="1"))  # it makes the shards
    (increment,) = json.loads(text("party:Page.views", "page_id=1", "--by", "4", "--only", "increment"))
    shard = increment["request"]["Key"]["SK"]["S"]
    assert (increment["operation"], increment["wcu"], increment["rcu"]) == ("UpdateItem", 1, 1)
    assert increment["note"] == f"Page.views in {shard}, one of 5 shards"
    pasted = text("party:Page.views", "page_id=1", "--by", "4", "--as", "boto3", "--only", "increment")
    assert "# increment of Page.views, 1 WCU and 1 RCU, Page.views in STATS#views#" in pasted
    exec(pasted, {})
    assert party.Page.views.value(party.Page.ref(page_id="1")) == 5
    assert "note" not in text("party:Page.clicks", "page_id=1")


def test_a_new_parent_is_explained_with_its_shards_when_it_is_asked_for(party_tables: None) -> None:
    (parent,) = json.loads(text("party:Post", "post_id=1", "body=b", "--only", "parent"))
    with record_requests(connection_for(party.Post.Meta).client) as sent:
        party.Post(post_id="1", body="b").save()
    assert [request["TransactItems"] for _, request in sent] == [parent["request"]["TransactItems"]]
    assert (parent["model"], parent["does"], parent["wcu"]) == ("Post", "parent", 2 * (1 + 4))
    assert "# create of a Post, 10 WCU\n" in text("party:Post", "post_id=1", "--only", "parent", "--as", "cli")
    (unspread,) = json.loads(text("social:Post", "post_id=1", "--only", "parent"))
    assert (unspread["operation"], unspread["wcu"]) == ("PutItem", 1)
    assert [one["does"] for one in json.loads(text("party:Post", "post_id=1", "user_id=u"))] == ["create", "delete"]


def test_a_parent_that_cannot_be_created_so_is_told_only_to_who_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party.Post.body, "null", False)
    assert text("party:Post", "post_id=1", "user_id=u")
    done = run("party:Post", "post_id=1", "--only", "parent")
    assert done.exit_code == 2
    assert done.stderr == (
        "pynacount explain: nothing to explain: Post: AttributeNullError: Attribute 'body' cannot be None\n"
    )
    assert text("party:Post", "post_id=1", "body=b", "--only", "parent")


# -- to paste


def test_the_boto3_snippet_runs_and_counts_right(town: None) -> None:
    Post(post_id="a91f").save()
    exec(text(*LIKE, "--as", "boto3", "--only", "create"), {})
    assert number("POST#a91f", "likeTally") == "1"
    assert item("POST#a91f", "LIKE#USER#7c20") == {"likedAt": {"N": "1700000000"}}
    exec(text(*LIKE, "--as", "boto3", "--only", "delete"), {})
    assert number("POST#a91f", "likeTally") == "0"
    assert item("POST#a91f", "LIKE#USER#7c20") is None


def test_the_boto3_snippet_of_both_writes_leaves_all_as_it_was(town: None) -> None:
    Product(product_id="p").save()
    User(user_id="7c20").save()
    before = social.items()
    exec(text("social:Product", *REVIEW, "--as", "boto3"), {})
    after = social.items()
    assert after == before


def test_the_boto3_snippet_is_guarded(town: None) -> None:
    """Of a post that is not there, and of one that is not seeded, it writes nothing."""
    snippet = text(*LIKE, "--as", "boto3", "--only", "create")
    with pytest.raises(Exception, match="ConditionalCheckFailed"):
        exec(snippet, {})
    assert social.items() == {}


def test_a_name_that_is_given_several_times_explains_many_children_at_once(town: None) -> None:
    Post(post_id="a91f").save()
    users = ("user_id=7c20", "user_id=81fa", "user_id=c3d9")
    add, discard = json.loads(text("social:Post", "post_id=a91f", *users, "liked_at=5"))
    assert (add["does"], add["operation"], add["wcu"]) == ("add_many", "TransactWriteItems", 8)
    assert (discard["does"], discard["wcu"]) == ("discard_many", 8)
    likes = Post.ref(post_id="a91f").likes
    elements = [{"user_id": user.partition("=")[2]} for user in users]
    with record_requests(connection_for(Like.Meta).client) as sent:
        likes.add_many([{**element, "liked_at": 5} for element in elements])
        likes.discard_many(elements)
    for (_, request), one in zip(sent, (add, discard), strict=True):
        assert request["TransactItems"] == one["request"]["TransactItems"]


def test_the_boto3_snippet_of_many_children_runs_and_counts_right(town: None) -> None:
    Post(post_id="a91f").save()
    exec(text("social:Post", "post_id=a91f", "user_id=7c20", "user_id=81fa", "--only", "add_many", "--as", "boto3"), {})
    assert number("POST#a91f", "likeTally") == "2"


def test_the_page_of_a_feed_is_explained_when_it_is_asked_for(town: None) -> None:
    (page,) = json.loads(text(*LIKE[:3], "--only", "page"))
    assert (page["model"], page["operation"], page["wcu"], page["rcu"]) == ("Post.likes", "BatchGetItem", 0, 1)
    with record_requests(connection_for(Post.Meta).client) as sent:
        Post.likes.page([Post.ref(post_id="a91f")], viewer={"user_id": "7c20"})
    assert sent[0][1]["RequestItems"] == page["request"]["RequestItems"]
    without_viewer = run("social:Post", "post_id=a91f", "--only", "page", "--as", "cli")
    assert "# page of Post.likes, 0.5 RCU\n" in without_viewer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("social:Post", "post_id=a", "post_id=b", "user_id=u"), "post_id is given twice; one Post is explained"),
        (("social:Post", "post_id=a", "user_id=u", "liked_at=5", "liked_at=6"), "give each of user_id as often"),
        (("social:Post", "post_id=a", "user_id=u", "user_id=a#b"), "element 1"),
        (("social:User", "user_id=u", "number=1", "number=2"), "declares no CountedSet"),
        (("social:Post", "post_id=a", "colour=red", "colour=blue"), "colour: no key variable"),
    ],
)
def test_many_children_that_cannot_be_explained_are_told_so(arguments: tuple[str, ...], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_snippet_is_laid_out_for_reading() -> None:
    snippet = text(*LIKE, "--as", "boto3", "--only", "create")
    assert snippet.startswith(
        "import boto3\n\ndynamodb = boto3.client('dynamodb')\n\n# create of a Like, 4 WCU\n"
        "dynamodb.transact_write_items(\n    TransactItems=["
    )
    assert max(map(len, snippet.splitlines())) <= 88


def test_the_settings_of_meta_are_in_what_is_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(social.Meta, "region", "eu-north-1", raising=False)
    monkeypatch.setattr(social.Meta, "host", "http://localhost:8000", raising=False)
    monkeypatch.setattr(social.Meta, "aws_secret_access_key", "secret", raising=False)
    snippet = text(*LIKE, "--as", "boto3")
    assert "boto3.client('dynamodb', region_name='eu-north-1', endpoint_url='http://localhost:8000')" in snippet
    assert snippet.count("boto3.client") == 1
    assert text(*LIKE, "--as", "cli", "--only", "create").endswith(
        " --region eu-north-1 --endpoint-url http://localhost:8000\n"
    )
    assert "secret" not in snippet


def test_the_cli_command_is_quoted_for_a_shell() -> None:
    like = ("social:Post", "post_id=o'neil $HOME", "user_id=`x`", "liked_at=1")
    comment, command = text(*like, "--as", "cli", "--only", "create").splitlines()
    assert comment == "# create of a Like, 4 WCU"
    words = shlex.split(command)
    assert words[:4] == ["aws", "dynamodb", "transact-write-items", "--cli-input-json"]
    assert len(words) == 5
    expected = Like(post_id="o'neil $HOME", user_id="`x`", liked_at=1).plan_save().request()
    assert json.loads(words[4]) == expected
    done = subprocess.run(["bash", "-c", f'aws() {{ printf %s "$4"; }}\n{command}'], capture_output=True, text=True)
    assert json.loads(done.stdout) == expected


def test_the_cli_json_is_what_the_service_takes(town: None) -> None:
    Post(post_id="a91f").save()
    words = shlex.split(text(*LIKE, "--as", "cli", "--only", "create"), comments=True)
    client: Any = get_session().create_client("dynamodb", endpoint_url=os.environ.get("AWS_ENDPOINT_URL_DYNAMODB"))
    client.transact_write_items(**json.loads(words[4]))
    assert number("POST#a91f", "likeTally") == "1"


def test_literals_are_python() -> None:
    value = {"a": [{"S": "x" * 60}, {"B": b"\x00"}, {}, []], "b": {"N": "1"}, "c": [True, None] * 20}
    assert eval(_literal(value, 4)) == value


# -- what cannot be explained


def test_a_child_whose_key_is_not_complete_is_named() -> None:
    done = run("social:Post", "post_id=a91f")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "pynacount explain: nothing to explain: Like: its key needs user_id=...\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["social:Post", "user_id=7c20"], "post_id: missing from the key of Post; add post_id=..."),
        (["social:Post", "post_id=1", "user_id=2", "colour=red"], "colour: no key variable of Post"),
        (["social:Post", "post_id=a#b", "user_id=2"], "contains '#'"),
        (["social:Post", "post_id=1", "user_id=a#b"], "contains '#'"),
        (["social:Post", "post_id=1", "user_id=2", "liked_at=noon"], "Like.liked_at cannot be 'noon': it is a number"),
        (["social:Product", "product_id=p", "number=one"], "number='one': the key of Review has an int there"),
        (["social:Product", "product_id=p", "number=1", "hidden=maybe"], "it is true or false"),
        (["social:Post", "post_id"], "write name=value"),
        (["social", "post_id=1"], "name one of"),
        (["social:Like", "post_id=1"], "name its parent, social:Post"),
        (["video:Stats.fame", "video_id=1"], "Stats"),
        (["video:Stats.plays", "video_id=1", "colour=red"], "colour: no key variable of Stats"),
        (["video:Stats.plays", "video_id=1", "--by", "many"], "--by 'many' is no number"),
        (["video:Stats.plays", "video_id=1", "--by", "0"], "an amount of 0 moves nothing"),
        (["video:Stats.plays", "video_id=1", "--by", "NaN"], "no number that can be stored"),
        (["video:Stats.plays", "video_id=1", "--once", ""], "once='' must be a text"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_is_right(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


def test_what_the_model_itself_cannot_count_is_told_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(review: Any) -> bool:
        raise RuntimeError("no such\nthing")

    monkeypatch.setattr(Review.seen, "_counts", broken)
    done = run("social:Product", *REVIEW)
    assert done.exit_code == 2
    assert done.stderr == "pynacount explain: nothing to explain: Review: RuntimeError: no such thing\n"


def test_help_fits() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80


def test_without_click_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['click'] = None\nfrom pynacount.cli import main; main()"
    command, environment = [sys.executable, "-c", code, "explain"], {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "click is missing" in done.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--only", "increment"], "--only increment"),
        (["--only", "decrement"], "--only decrement"),
        (["--by", "3"], "--by"),
        (["--once", "order-17"], "--once"),
    ],
)
def test_what_is_for_plain_counters_is_not_passed_over_for_a_count(option: list[str], said: str) -> None:
    done = run("social:Post.like_tally", "post_id=1", "user_id=2", *option)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{said} is for plain counters, and Post.like_tally counts children" in done.stderr
