"""What a TARGET on the command line means, and what is said of one that means nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute

import social
from pynacount import CountedModel, KeyAttribute
from pynacount.errors import TargetError
from pynacount.targets import key_variables, one_model, pairs_of, resolve

HEAD = """
from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models
class Meta:
    table_name = "{table}"
"""
POSTS = """
class Post(models.PostMeta):
    Meta = Meta
class Like(models.Like):
    Meta = Meta
    post = CountedIn(Post.like_tally)
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``write("app.py", source)`` makes a module in the directory that the command is run in."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)

    def write(name: str, *parts: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join([HEAD.format(table=f"Target{tmp_path.name}"), *parts]))

    yield write
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def labels(target: str) -> list[str]:
    return [counter.label for counter in resolve(target)]


def refusal(target: str, call: Callable[[str], Any] = resolve) -> str:
    with pytest.raises(TargetError) as caught:
        call(target)
    assert "\n" not in caught.value.msg
    return caught.value.msg


# -- what is found


def test_a_module_means_the_counters_of_all_its_models_in_the_order_of_their_definition() -> None:
    assert labels("social") == [
        "Post.like_tally",
        "User.given_tally",
        "Product.review_tally",
        "Product.shown_tally",
        "Product.star_tally",
        "Album.photo_tally",
        "Board.pin_tally",
    ]


def test_a_model_means_its_counters_and_a_counter_means_itself() -> None:
    assert labels("social:Product") == ["Product.review_tally", "Product.shown_tally", "Product.star_tally"]
    assert resolve("social:Product.star_tally") == (social.Product.star_tally,)


def test_the_module_is_imported_from_the_current_directory(write: Callable[..., None]) -> None:
    write("app_here/models.py", POSTS)
    assert labels("app_here.models:Post") == ["Post.like_tally"]
    assert sys.modules["app_here.models"].Post.like_tally is resolve("app_here.models")[0]


def test_an_imported_model_counts_in_the_module_that_imports_it_and_once(write: Callable[..., None]) -> None:
    write("app_posts.py", POSTS)
    write("app_all.py", "import app_posts\nfrom app_posts import Post, Like\nSame = Post\n")
    assert labels("app_all") == ["Post.like_tally"]
    write("app_other.py", "import app_posts")
    assert "app_other has no model" in refusal("app_other")


def test_a_model_without_a_table_is_only_there_to_be_subclassed(write: Callable[..., None]) -> None:
    write("app_ready.py", "from pynacount.models import PostMeta", POSTS)
    assert labels("app_ready") == ["Post.like_tally"]
    assert "PostMeta has no table" in refusal("app_ready:PostMeta")


def test_a_subclass_with_the_keys_and_table_of_its_base_is_not_counted_twice(write: Callable[..., None]) -> None:
    write("app_sub.py", POSTS, "class LongPost(Post):\n    pass\n")
    assert labels("app_sub") == ["Post.like_tally"]
    assert labels("app_sub:LongPost") == ["LongPost.like_tally"]


def test_children_that_count_in_a_subclass_count_in_its_base_too(write: Callable[..., None]) -> None:
    more = """
class LongPost(Post):
    pass
class Clap(models.Like):
    Meta = Meta
    sk = KeyAttribute("CLAP#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(LongPost.like_tally)
"""
    write("app_more.py", POSTS, more)
    assert labels("app_more") == ["Post.like_tally"]


def test_a_subclass_over_a_table_of_its_own_is_counted_too(write: Callable[..., None]) -> None:
    own = """
class Old(Post):
    class Meta:
        table_name = "TargetOld"
    likes = CountedSet("OldLike", tally="like_tally")
class OldLike(models.Like):
    Meta = Old.Meta
    post = CountedIn(Old.like_tally)
"""
    write("app_own.py", POSTS, own)
    assert labels("app_own") == ["Post.like_tally", "Old.like_tally"]


def test_a_plain_counter_is_left_out(write: Callable[..., None]) -> None:
    views = POSTS.replace("    Meta = Meta\nclass Like", "    Meta = Meta\n    views = CounterField()\nclass Like")
    write("app_plain.py", views)
    assert labels("app_plain:Post") == ["Post.like_tally"]
    said = refusal("app_plain:Post.views")
    assert said == "no children are counted in Post.views; Post has like_tally (stored as likeTally)"


# -- what is refused


@pytest.mark.parametrize("target", ["", ":Post", "social:", "social:Post.", "social:.like_tally"])
def test_half_a_target_is_told_the_forms(target: str) -> None:
    assert "write module, module:Model or module:Model.counter" in refusal(target)


def test_a_module_that_is_not_there_is_named() -> None:
    assert refusal("nowhere_at_all.models").startswith("there is no module nowhere_at_all; ")
    assert refusal("social.models").startswith("there is no module social.models; ")


def test_a_file_is_answered_with_its_module() -> None:
    assert refusal("app/models.py:Post") == "app/models.py is a file; name its module, app.models"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind' (app_bad.py, line "),
        ("raise RuntimeError('first\\nsecond')", "RuntimeError: first second (app_bad.py, line 6)"),
        ("raise SystemExit('not configured')", "SystemExit: not configured"),
        ("class A(models.Like):\n    Meta = Meta\n", "DeclarationError: A.post counts in PostMeta.like_tally"),
        ("def f(:", "SyntaxError: "),
    ],
)
def test_a_module_that_does_not_import_is_told_with_its_cause(
    write: Callable[..., None], source: str, said: str
) -> None:
    write("app_bad.py", source)
    message = refusal("app_bad")
    assert message.startswith("app_bad does not import: ")
    assert said in message


def test_a_module_without_counted_models_says_so(write: Callable[..., None]) -> None:
    write("app_empty.py")
    assert refusal("app_empty").startswith("app_empty has no model whose counters children are counted in; ")
    write("app_alone.py", POSTS)
    write("app_likes.py", "from app_alone import Like")
    assert "it has only the children Like; name the module that imports the parents" in refusal("app_likes")


def test_a_model_that_is_not_there_is_answered_with_those_that_are() -> None:
    assert refusal("social:Psot") == "social:Psot is not there; social has Post, User, Product, Album, Board"
    assert refusal("social:raw").startswith("social:raw is no counted model; social has Post")


def test_a_child_is_answered_with_its_parents() -> None:
    assert refusal("social:Like").endswith("name its parent, social:Post")
    assert refusal("social:Review").endswith("name its parent, social:Product, social:User")


def test_a_counter_that_is_not_there_is_answered_with_those_that_are() -> None:
    assert refusal("social:Post.likeTally") == (
        "Post has no counter 'likeTally'; it has like_tally (stored as likeTally)"
    )


def test_children_that_were_never_imported_are_missed(write: Callable[..., None]) -> None:
    write("app_half.py", "class Post(models.PostMeta):\n    Meta = Meta\n")
    for target in ("app_half", "app_half:Post"):
        assert "import its module" in refusal(target)


def test_a_command_that_looks_at_one_item_wants_one_model() -> None:
    assert one_model("social:Product") == resolve("social:Product")
    said = refusal("social", one_model)
    assert said.startswith("social has several counted models; name one of social:Post, social:User")


# -- keys


class Seat(CountedModel):
    class Meta:
        table_name = "Seats"

    pk = KeyAttribute("HALL#{hall}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("ROW#{row:int}#SEAT#{seat:int}", range_key=True, attr_name="SK")


class Reading(CountedModel):
    class Meta:
        table_name = "Readings"

    pk = KeyAttribute("METER#{meter}", hash_key=True, attr_name="PK")
    at = NumberAttribute(range_key=True)


def test_ints_where_the_template_says_int() -> None:
    found = key_variables(Seat, ["seat=12", "hall=7", "row=0"])
    assert found == {"hall": "7", "row": 0, "seat": 12}
    assert str(Seat.ref(**found)) == "Seat.ref(hall='7', row=0, seat=12)"
    with pytest.raises(TargetError, match="row='front': the key of Seat has an int there"):
        key_variables(Seat, ["hall=7", "row=front", "seat=12"])


def test_a_numeric_key_takes_numbers() -> None:
    assert key_variables(Reading, ["meter=a", "at=5"]) == {"meter": "a", "at": 5}
    assert key_variables(Reading, ["meter=a", "at=5.5"]) == {"meter": "a", "at": Decimal("5.5")}
    for text in ("noon", "Infinity"):
        with pytest.raises(TargetError, match="the key of Reading has a number there"):
            key_variables(Reading, ["meter=a", f"at={text}"])


def test_missing_and_strange_variables_are_named() -> None:
    with pytest.raises(TargetError, match=r"^row, seat: missing from the key of Seat; write hall=7 row=... seat=...$"):
        key_variables(Seat, ["hall=7"])
    with pytest.raises(TargetError, match=r"^post_id, x: no key variable of Seat, which has hall, row, seat$"):
        key_variables(Seat, ["post_id=a91f", "hall=7", "x=1"])


def test_a_value_may_hold_an_equals_sign_and_be_empty() -> None:
    assert pairs_of(["a=b=c", "d="]) == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("pairs", [["a91f"], ["=a91f"], ["post_id=1", "post_id=1"]])
def test_what_is_no_pair_is_refused(pairs: list[str]) -> None:
    with pytest.raises(TargetError, match=r"write name=value|give it once"):
        pairs_of(pairs)
