"""What `pynacount inspect` finds, shows and exits with; and how commands tell of trouble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner, Result
from pynamodb.exceptions import PynamoDBException, QueryError

import party
import social
from pynacount.amounts import Amount
from pynacount.commands import group
from pynacount.commands.trouble import in_one_line
from pynacount.connections import connection_for
from pynacount.errors import CounterContention, TargetError
from pynacount.inspecting import inspect
from pynacount.inspecting.parts import Parent, Ways
from pynacount.inspecting.texts import notes, plain, verdict
from pynacount.protocols.standings import MOST_LOOKS, Standing, standing
from pynacount.steps import Send, Wait
from pynacount.testing import Engine, FaultInjector, create_tables, record_requests
from social import Board, Post, Product, Review, User, put, unseed

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def town(engine: Engine) -> None:
    create_tables(*social.ALL)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["inspect", *arguments], prog_name="pynacount")


def records(*arguments: str, exit_code: int = 0) -> dict[str, list[dict[str, Any]]]:
    """The lines of ``--json`` by their type."""
    done = run(*arguments, "--json")
    assert done.exit_code == exit_code, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["type"] == "parent"
    assert [line["type"] for line in lines].index("summary") == len(lines) - 1
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault(line["type"], []).append(line)
    return found


def shown(*arguments: str) -> str:
    """What a person sees, in one line."""
    return " ".join(run(*arguments).output.split())


def liked_post(likes: int, **attributes: Any) -> Any:
    Post(post_id="a91f", **attributes).save()
    post = Post.ref(post_id="a91f")
    for number in range(likes):
        post.likes.add(user_id=f"user{number:02}", liked_at=1700000000)
    return post


# -- what is found


def test_a_post_as_it_is_stored_its_tally_beside_its_count_and_its_likes() -> None:
    liked_post(3, body="hello", created_at=1700000000)
    found = records("social:Post", "post_id=a91f")
    (parent,) = found["parent"]
    assert parent["key"] == {"PK": {"S": "POST#a91f"}, "SK": {"S": "META"}}
    assert parent["item"] == social.items()["POST#a91f", "META"]
    (tally,) = found["tally"]
    assert (tally["verdict"], tally["tally"], tally["count"], tally["drift"], tally["looks"]) == ("ok", 3, 3, 0, 1)
    assert [child["key"]["SK"]["S"] for child in found["child"]] == [f"LIKE#USER#user{n:02}" for n in range(3)]
    assert [child["counts"] for child in found["child"]] == [{"Post.like_tally": 1}] * 3
    (summary,) = found["summary"]
    assert (summary["clean"], summary["exists"], summary["drifted"], summary["wrong"]) == (True, True, [], [])
    assert (summary["children"], summary["more"], summary["strays"]) == (3, False, 0)


def test_the_first_children_are_shown_or_all_of_them() -> None:
    liked_post(25)
    for options, shown, more in (
        ((), 20, True),
        (("-n", "3"), 3, True),
        (("-n", "0"), 0, True),
        (("-n", "25"), 25, False),
    ):
        found = records("social:Post", "post_id=a91f", *options)
        assert len(found.get("child", [])) == found["summary"][0]["children"] == shown
        assert found["summary"][0]["more"] == more
    assert len(records("social:Post", "post_id=a91f", "--all")["child"]) == 25


def test_an_item_that_only_begins_like_a_child_is_no_child_but_counted_and_said_to_be() -> None:
    liked_post(2)
    put("POST#a91f", "LIKE#USER#a#b")
    found = records("social:Post", "post_id=a91f", exit_code=1)
    assert [child["key"]["SK"]["S"] for child in found["child"]] == ["LIKE#USER#user00", "LIKE#USER#user01"]
    assert (found["tally"][0]["count"], found["summary"][0]["strays"]) == (3, 1)
    assert "1 of the items here have keys that only begin like a Like's" in shown("social:Post", "post_id=a91f")


def test_children_that_count_in_several_counters_are_shown_once() -> None:
    Product(product_id="p").save()
    User(user_id="7c20").save()
    Review(product_id="p", number=1, author_id="7c20", stars=5).save()
    Review(product_id="p", number=2, author_id="7c20", stars=3, hidden=True).save()
    found = records("social:Product", "product_id=p")
    assert [child["counts"] for child in found["child"]] == [
        {"Product.review_tally": 1, "Product.shown_tally": 1, "Product.star_tally": 5},
        {"Product.review_tally": 1, "Product.shown_tally": 0, "Product.star_tally": 3},
    ]
    assert [tally["tally"] for tally in found["tally"]] == [2, 1, 8]
    assert [tally["drift"] for tally in found["tally"]] == [0, 0, 0]


def test_one_counter_alone() -> None:
    Product(product_id="p").save()
    found = records("social:Product.star_tally", "product_id=p")
    assert [tally["counter"] for tally in found["tally"]] == ["Product.star_tally"]


def test_a_condition_that_breaks_on_a_child_is_told_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    Product(product_id="p").save()
    Review(product_id="p", number=1).save()

    def broken(review: Any) -> bool:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Review.seen, "_counts", broken)
    found = records("social:Product", "product_id=p", exit_code=1)
    assert [tally["verdict"] for tally in found["tally"]] == ["ok", "unknown", "ok"]
    assert found["tally"][1]["problem"] == (
        "Review.seen: the child PK='PRODUCT#p' SK='REVIEW#1' cannot be counted: RuntimeError: no such thing"
    )
    assert found["child"][0]["problem"] == found["price"][0]["problem"] == "RuntimeError: no such thing"


def test_children_that_an_index_finds() -> None:
    Product(product_id="p").save()
    User(user_id="7c20").save()
    Review(product_id="p", number=1, author_id="7c20", stars=5).save()
    found = records("social:User", "user_id=7c20")
    assert found["child"][0]["key"] == {"PK": {"S": "PRODUCT#p"}, "SK": {"S": "REVIEW#1"}}
    assert found["tally"][0]["verdict"] == "ok"
    assert found["price"][0]["items"] == 3  # the review, its product and its author


# -- what is wrong


def test_drift_exits_1_and_is_looked_at_twice() -> None:
    liked_post(2)
    put("POST#a91f", "LIKE#USER#behind", likedAt={"N": "1"})
    found = records("social:Post", "post_id=a91f", exit_code=1)
    (tally,) = found["tally"]
    assert (tally["verdict"], tally["tally"], tally["count"], tally["drift"], tally["looks"]) == ("DRIFT", 2, 3, -1, 2)
    assert found["summary"][0]["drifted"] == ["Post.like_tally"]
    assert not found["summary"][0]["clean"]
    assert "Post.like_tally.repair(Post.ref(post_id='a91f'))" in shown("social:Post", "post_id=a91f")


def test_a_missing_parent_exits_1_and_its_orphans_are_shown() -> None:
    put("POST#gone", "LIKE#USER#7c20", likedAt={"N": "1"})
    found = records("social:Post", "post_id=gone", exit_code=1)
    assert found["tally"][0]["verdict"] == "missing"
    assert (found["tally"][0]["count"], found["summary"][0]["exists"]) == (1, False)
    assert len(found["child"]) == 1
    assert "price" not in found
    assert "There is no such item." in run("social:Post", "post_id=gone").output


def test_an_unseeded_parent_is_clean() -> None:
    liked_post(2)
    unseed("POST#a91f", "likeTally")
    (tally,) = records("social:Post", "post_id=a91f")["tally"]
    assert (tally["verdict"], tally["tally"], tally["count"], tally["drift"]) == ("unseeded", None, 2, None)
    assert "Post.like_tally.seed(Post.ref(post_id='a91f'))" in " ".join(
        run("social:Post", "post_id=a91f").output.split()
    )


def test_a_parent_closed_by_an_unfinished_cascade() -> None:
    put("ALBUM#1", "META", photoTallyClosed={"BOOL": True})
    put("ALBUM#1", "PHOTO#1")
    found = records("social:Album", "album_id=1")
    assert (found["tally"][0]["verdict"], found["tally"][0]["count"]) == ("closed", 1)
    assert "price" not in found
    assert "call delete() again" in shown("social:Album", "album_id=1")


def test_the_marks_beside_a_tally() -> None:
    Board(board_id="1").save()
    (tally,) = records("social:Board", "board_id=1")["tally"]
    assert (tally["verdict"], tally["count"]) == ("unseeded", 0)
    assert tally["pending"] > 0
    put("POST#a91f", "META", createdAt={"N": "1"}, likeTallyWas={"N": "7"})
    (tally,) = records("social:Post", "post_id=a91f")["tally"]
    assert (tally["verdict"], tally["was"]) == ("repairing", 7)
    assert "likeTallyWas keeps 7" in run("social:Post", "post_id=a91f").output


def test_a_tally_that_is_no_number_exits_1() -> None:
    put("POST#a91f", "META", createdAt={"N": "1"}, likeTally={"S": "three"})
    (tally,) = records("social:Post", "post_id=a91f", exit_code=1)["tally"]
    assert (tally["verdict"], tally["tally"], tally["count"]) == ("unreadable", None, 0)


def test_a_child_that_cannot_be_read_is_shown_with_the_cause() -> None:
    Product(product_id="p").save()
    put("PRODUCT#p", "REVIEW#1", stars={"S": "many"})
    found = records("social:Product", "product_id=p", exit_code=1)
    assert "cannot be read" in found["child"][0]["problem"]
    assert "cannot be read" in found["tally"][2]["problem"]
    assert found["summary"][0]["wrong"] == ["Product.review_tally", "Product.shown_tally", "Product.star_tally"]
    assert run("social:Product", "product_id=p").exit_code == 1


# -- looking twice


def looked(*readings: tuple[Amount, Amount, Amount]) -> tuple[Standing, int]:
    """What a standing makes of tally, count and tally again in each look; and how often it waited."""
    answers: Iterator[Any] = iter([number for reading in readings for number in reading])
    protocol = standing(Post.like_tally.tally, Post._counting.key_of(Post.ref(post_id="a91f")))
    waits = 0
    answer: Any = None
    try:
        while True:
            step = protocol.send(answer)
            if isinstance(step, Wait):
                waits += 1
                answer = {}
            elif isinstance(step, Send) and step.operation == "Query":
                answer = {"Count": next(answers), "Items": []}
            else:
                answer = {"Item": {"likeTally": {"N": str(next(answers))}}}
    except StopIteration as end:
        return end.value, waits


def test_a_like_that_was_under_way_is_no_drift() -> None:
    found, waits = looked((5, 6, 6), (6, 6, 6))
    assert (found.drift, found.looks, waits) == (0, 2, 1)


def test_drift_is_what_two_looks_in_a_row_show() -> None:
    found, waits = looked((5, 6, 5), (5, 7, 5), (5, 7, 5))
    assert (found.drift, found.looks, found.moving, waits) == (-2, 3, False, 2)


def test_a_drift_that_dynamodb_could_not_hold_is_told_all_the_same() -> None:
    found, _ = looked(*[(Decimal("1E+100"), Decimal("0.5"), Decimal("1E+100"))] * 2)
    assert (found.drift, found.wrong, verdict(found)) == (Decimal("9" * 100 + ".5"), True, "DRIFT")


def test_a_tally_that_moves_during_every_look_shows_nothing() -> None:
    found, _ = looked(*[(5, 6, 7)] * MOST_LOOKS)
    assert (found.moving, found.wrong, verdict(found)) == (True, True, "moving")
    ways = {"Post.like_tally": Ways("", "", "")}
    parent = Parent("Post", Post._counting.key_of(Post.ref(post_id="a91f")), {"post_id": "a91f"}, {}, 0, ways)
    assert any("look again" in note for note in notes(found, parent))


# -- in shards


def test_a_tally_in_shards_is_their_sum_and_it_is_said_where_they_are() -> None:
    create_tables(*party.ALL)
    party.Post(post_id="1").save()
    for user in range(9):
        party.Post.ref(post_id="1").likes.add(user_id=f"u{user}")
    found = records("party:Post", "post_id=1")
    (tally,) = found["tally"]
    assert (tally["verdict"], tally["tally"], tally["count"], tally["shards"], tally["retiring"]) == ("ok", 9, 9, 4, 0)
    assert found["price"][0]["wcu"] == 4
    assert "the sum of 4 shards, META#likeTally#0 to META#likeTally#3 Like" in shown("party:Post", "post_id=1")


def test_the_shards_are_those_that_the_parent_has_and_not_those_that_are_declared() -> None:
    create_tables(*party.ALL)
    party.Post(post_id="1").save()
    party.Post.ref(post_id="1").likes.add(user_id="u")
    party.Post.like_tally.reshard(party.Post.ref(post_id="1"), 12)
    assert "the sum of 12 shards, META#likeTally#0 to META#likeTally#11 Like" in shown("party:Post", "post_id=1")
    party.Post.like_tally.reshard(party.Post.ref(post_id="1"), 1)
    (tally,) = records("party:Post", "post_id=1")["tally"]
    assert (tally["tally"], tally["shards"]) == (1, 1)
    assert "shards" not in shown("party:Post", "post_id=1")


def test_shards_that_are_being_retired_are_in_the_sum_and_named() -> None:
    create_tables(*party.ALL)
    party.Post(post_id="1").save()
    post = party.Post.ref(post_id="1")
    for user in range(9):
        post.likes.add(user_id=f"u{user}")
    with FaultInjector(connection_for(party.Post.Meta).client) as injector:
        injector.next(None, operation="TransactWriteItems")  # the number is lowered, and no shard frozen
        injector.next_error("AccessDeniedException", operation="TransactWriteItems")
        with pytest.raises(PynamoDBException):
            party.Post.like_tally.reshard(post, 2)
    (tally,) = records("party:Post", "post_id=1")["tally"]
    assert (tally["verdict"], tally["tally"], tally["shards"], tally["retiring"]) == ("ok", 9, 2, 2)
    assert (
        "the sum of 4 shards, META#likeTally#0 to META#likeTally#3, which are being brought into 2; pynacount reshard "
        "--to 2 brings it to its end, if none is running"
    ) in shown("party:Post", "post_id=1")


def test_a_parent_whose_number_of_shards_is_unreadable_is_told_in_one_line() -> None:
    create_tables(*party.ALL)
    wrong = {"PK": {"S": "POST#1"}, "SK": {"S": "META"}, "likeTallyShards": {"S": "many"}}
    connection_for(party.Post.Meta).dispatch("PutItem", {"TableName": "Party", "Item": wrong})
    done = run("party:Post", "post_id=1")
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert "which is no number of shards" in done.stderr


# -- the price


def test_the_price_goes_by_the_sizes_of_what_is_stored() -> None:
    liked_post(1)
    assert records("social:Post", "post_id=a91f")["price"][0]["wcu"] == 4
    liked_post(0, body="x" * 3000)
    assert records("social:Post", "post_id=a91f")["price"][0]["wcu"] == 2 + 2 * 3


def test_the_price_of_a_first_child_goes_by_its_key() -> None:
    liked_post(0)
    (price,) = records("social:Post", "post_id=a91f")["price"]
    assert (price["wcu"], price["by"]) == (4, "key")
    assert "none is stored yet" in shown("social:Post", "post_id=a91f")


# -- what a person sees


def test_the_documentation_shows_what_is_printed() -> None:
    Post(post_id="a91f", body="Out of the blue", created_at=1700000000).save()
    for number, user in enumerate(("1b3d", "7c20", "f00d")):
        Post.ref(post_id="a91f").likes.add(user_id=user, liked_at=1700000100 + number)
    page = (ROOT / "docs/howto/inspect.md").read_text()
    shown = page.partition("$ pynacount inspect app.models:Post post_id=a91f -n 2\n")[2].partition("```")[0]
    assert run("social:Post", "post_id=a91f", "-n", "2").output.replace("table Town", "table Social") == shown


def test_80_columns_ascii_and_no_colour() -> None:
    liked_post(22, body="a long body " * 20)
    done = run("social:Post", "post_id=a91f")
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "\x1b" not in done.output
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]
    assert lines[0] == "Post PK='POST#a91f' SK='META'"
    assert [line.split() for line in lines if "Post.like_tally " in line] == [
        ["Post.like_tally", "22", "22", "0", "ok"]
    ]
    assert "  user_id=user00  +1  likedAt=1700000000" in lines
    assert "  ... and more; --all shows all, -n N the first N" in lines
    assert lines[-1] == "No drift."


def test_what_is_stored_cannot_move_the_cursor_or_print_markup() -> None:
    liked_post(0, body="\x1b[2J[bold]\r\nend")
    output = run("social:Post", "post_id=a91f").output
    assert "\\x1b[2J[bold]\\r\\nend" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"M": {"a": {"N": "1"}, "b": {"L": [{"BOOL": True}]}}}, "{'a': '1', 'b': [True]}"),
        ({"B": b"abc"}, "3 bytes"),
        ({"SS": ["b", "a"]}, "['a', 'b']"),
        ({"NULL": True}, "None"),
    ],
)
def test_values_are_shown_without_their_types(value: dict[str, Any], shown: str) -> None:
    assert plain(value) == shown


def test_nothing_is_written() -> None:
    post = liked_post(2)
    unseed("POST#a91f", "likeTally")
    with record_requests(connection_for(Post.Meta).client) as sent:
        list(inspect((Post.like_tally,), post))
    assert {operation for operation, _ in sent} == {"GetItem", "Query"}


# -- trouble


def in_shell(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which knows no AWS settings but these."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nothing = {
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return subprocess.run(
        [sys.executable, "-c", "from pynacount.cli import main; main()", *arguments],
        env={**ours, **nothing, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=60,
    )


CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize(
    ("environment", "code", "said"),
    [
        ({"AWS_REGION": "eu-north-1"}, 1, "credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"),
        (CREDENTIALS, 1, "You must specify a region; set AWS_REGION, or the model's Meta.region"),
        ({"AWS_REGION": "eu-north-1", "AWS_PROFILE": "nobody"}, 2, "set AWS_PROFILE to a profile that is there"),
    ],
)
def test_missing_settings_are_told_in_one_line_with_the_way_out(
    environment: dict[str, str], code: int, said: str
) -> None:
    done = in_shell("inspect", "social:Post", "post_id=a91f", **environment)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("pynacount inspect: ")
    assert said in done.stderr


@pytest.mark.parametrize("command", [["inspect", "social:Post", "post_id=a"], ["audit", "social:Post"]])
def test_an_endpoint_that_is_no_url_is_told_in_one_line(command: list[str]) -> None:
    settings = {**CREDENTIALS, "AWS_REGION": "eu-north-1", "AWS_ENDPOINT_URL_DYNAMODB": "foo"}
    done = in_shell(*command, **settings)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "Invalid endpoint: foo; write it as a URL, such as http://localhost:8000" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("output", ["--as json", "--as cli"])
def test_an_output_that_is_full_is_told_in_one_line(output: str) -> None:
    arguments = ["explain", "social:Post", "post_id=1", "user_id=2", *output.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from pynacount.cli import main; main()", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=ROOT / "tests",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "the output could not be read or written: No space left on device" in done.stderr


def refused(code: str) -> QueryError:
    """An error of the service, as PynamoDB and the library wrap it."""
    answer: Any = {"Error": {"Code": code, "Message": "No."}}
    return QueryError("Post.like_tally: it was refused.", ClientError(answer, "Query"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused("AccessDeniedException"), "it was refused; allow it to these credentials"),
        (refused("ExpiredTokenException"), "the session has expired; log in again"),
        (refused("UnrecognizedClientException"), "set AWS_PROFILE, or AWS_ACCESS_KEY_ID"),
        (CounterContention("late", EndpointConnectionError(endpoint_url="x")), "late; check AWS_ENDPOINT_URL_DYNAMODB"),
        (TargetError("first\nsecond"), "first second"),
    ],
)
def test_each_trouble_has_its_way_out_in_one_line(error: Exception, said: str) -> None:
    assert said in in_one_line(error)
    assert "\n" not in in_one_line(error)


def test_aws_region_is_taken_where_the_application_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    run("nowhere:Post", "post_id=1")
    assert os.environ["AWS_DEFAULT_REGION"] == "us-east-1"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    run("nowhere:Post", "post_id=1")
    assert os.environ["AWS_DEFAULT_REGION"] == "eu-north-1"


def test_a_table_that_is_not_there_is_told_in_one_line(engine: Engine) -> None:
    engine.reset()
    done = run("social:Post", "post_id=a91f")
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("pynacount inspect: Post: ")
    assert "create the table" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["social:Post"], "post_id: missing"),
        (["social:Post", "post_id=a#b"], "contains '#'"),
        (["social", "post_id=1"], "name one of social:Post"),
        (["nowhere:Post", "post_id=1"], "there is no module nowhere"),
        (["social:Post", "post_id=1", "-n", "-1"], "Invalid value"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_is_right(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_help_fits() -> None:
    done = run("--help")
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80
