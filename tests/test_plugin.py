"""The pytest plugin, as an application's own tests use it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pynacount.testing import assert_exact
from social import ALL, Like, Post, Product, put

ROOT = Path(__file__).parents[1]
MODELS = """
from pynacount import CountedIn, models

class Post(models.PostMeta):
    class Meta:
        table_name = "Social"

class Like(models.Like):
    class Meta:
        table_name = "Social"
    post = CountedIn(Post.like_tally)
"""
TESTS = """
import os
import pytest
from board_models import Like, Post
from pynacount.testing import assert_exact

@pytest.mark.parametrize("number", [1, 2])
def test_each_begins_empty(counted_tables, number):
    assert list(Post.scan()) == []
    Post(post_id="a").save()
    assert Post.ref(post_id="a").likes.add(user_id="u")
    assert_exact(Post)

def test_which_engine(dynamodb):
    print("runs on", dynamodb.name)

def test_a_table_that_is_asked_for(counted_tables):
    class Other(Post):
        class Meta:
            table_name = "Other"
    counted_tables(Other)
    assert Other.exists()

def test_drift_is_told(counted_tables):
    Post(post_id="a").save()
    with pytest.raises(AssertionError, match="not exact"):
        from botocore.session import get_session
        get_session().create_client("dynamodb").put_item(
            TableName="Social", Item={"PK": {"S": "POST#a"}, "SK": {"S": "LIKE#USER#u"}})
        assert_exact(Post)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "board_models.py").write_text(MODELS)
    (tmp_path / "test_board.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *options: str, **ini: str) -> subprocess.CompletedProcess[str]:
    lines = [f"{name} = {value}" for name, value in {"dynamodb_models": "board_models", **ini}.items()]
    (project / "pytest.ini").write_text("\n".join(["[pytest]", "pythonpath = .", *lines]))
    # The plugin by its module, whether or not the package is installed here.
    command = [sys.executable, "-m", "pytest", "-p", "pynacount.testing.plugin", "-rP", "-q", *options]
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environ = {**own, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, timeout=120)


def test_an_application_tests_on_moto_where_nothing_is_said(project: Path) -> None:
    done = run(project)
    assert "5 passed" in done.stdout and "runs on moto" in done.stdout, done.stdout


@pytest.mark.real_engine
@pytest.mark.parametrize("by", ["option", "ini"])
def test_or_on_dynamodb_local(project: Path, by: str) -> None:
    if by == "option":
        done = run(project, "--dynamodb", "dynamodb-local")
    else:
        done = run(project, dynamodb_engine="dynamodb-local")
    assert "5 passed" in done.stdout and "runs on dynamodb-local" in done.stdout, done.stdout


def test_what_cannot_be_is_told_in_a_line(project: Path) -> None:
    done = run(project, dynamodb_engine="sqlite")
    assert "dynamodb_engine = sqlite: choose one of moto, dynamodb-local" in done.stdout
    done = run(project, dynamodb_models="nosuch")
    assert "dynamodb_models: nosuch does not import" in done.stdout
    done = run(project, dynamodb_models="")
    assert "counted_tables: name your models' modules, as in dynamodb_models" in done.stdout
    done = run(project, "--dynamodb", "sqlite")
    assert "invalid choice" in done.stderr


def test_the_package_says_that_it_has_a_plugin() -> None:
    assert "\npytest11 =\n    pynacount = pynacount.testing.plugin\n" in (ROOT / "setup.cfg").read_text() + "\n"


def test_the_assertion_names_what_is_wrong_and_nothing_else(
    tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    tables(*ALL)
    Post(post_id="a").save()
    put("POST#new", "META")
    assert_exact(Post, Product)
    put("POST#b", "META", likeTally={"N": "5"})
    with pytest.raises(AssertionError) as told:
        assert_exact(Post)
    assert str(told.value) == "not exact:\n  Post.like_tally of PK='POST#b' SK='META': drifted, tally 5, count 0"
    with pytest.raises(TypeError, match=r"assert_exact\(Like\): no children are counted in it"):
        assert_exact(Like)
