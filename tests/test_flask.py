"""pynacount in Flask: its answers, its commands, its filter, its keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, render_template_string
from flask.testing import FlaskClient

from pynacount import errors, idempotency
from pynacount.connections import connection_for
from pynacount.contrib.flask import Pynacount
from pynacount.testing import Fault, FaultInjector
from social import ALL, Like, Post, number, put, unseed

JSON = {"Accept": "application/json"}


@pytest.fixture
def app(tables: Callable[..., None]) -> Flask:
    tables(*ALL)
    Post(post_id="a").save()
    made = Flask(__name__)
    Pynacount(made)

    @made.post("/posts/<post>/likes/<user>")
    def like(post: str, user: str) -> tuple[dict[str, Any], int]:
        Like(post_id=post, user_id=user).save()
        return {"liked": True}, 201

    @made.delete("/posts/<post>/likes/<user>")
    def unlike(post: str, user: str) -> tuple[str, int]:
        Post.ref(post_id=post).likes.remove(user_id=user)
        return "", 204

    @made.get("/raise/<name>")
    def raises(name: str) -> str:
        raise getattr(errors, name)("the parent PK='POST#secret' of table Town")

    @made.post("/number/<int:user>")
    def by_number(user: int) -> str:
        return str(Post.ref(post_id="a").likes.add(user_id=user))

    @made.post("/id")
    def an_id() -> str:
        return idempotency.new_id()

    return made


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()


def test_a_second_like_is_a_conflict_and_a_like_of_no_post_is_not_found(client: FlaskClient) -> None:
    answers = [client.post(path, headers=JSON) for path in ("/posts/a/likes/u", "/posts/a/likes/u", "/posts/b/likes/u")]
    assert [answer.status_code for answer in answers] == [201, 409, 404]
    assert answers[1].mimetype == "application/problem+json"
    assert answers[1].get_json()["code"] == "already-counted"
    assert client.delete("/posts/a/likes/v").status_code == 404
    assert client.post("/posts/a%23b/likes/v").status_code == 400


def test_contention_asks_to_come_again(app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Like.Meta, "counted_deadline", 0.1)
    app.config["PYNACOUNT_RETRY_AFTER"] = 4.2
    with FaultInjector(connection_for(Like.Meta).client) as injector:
        injector.next(*[Fault.CONFLICT] * 100)
        answer = client.post("/posts/a/likes/u")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_no_answer_shows_what_is_for_the_log(
    client: FlaskClient, accept: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pynacount"):
        answer = client.get("/raise/ParentMissing", headers={"Accept": accept})
    assert answer.status_code == 404
    assert "secret" not in answer.text and "does not exist" in answer.text
    assert "PK='POST#secret'" in caplog.text
    assert (answer.mimetype == "text/html") is (accept != "application/json")


def test_what_is_ours_to_mend_is_logged_as_an_error(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get("/raise/CounterNotSeeded").status_code == 503
    assert client.get("/raise/CounterContention").status_code == 503
    logged = [record.levelname for record in caplog.records if record.name.startswith("pynacount")]
    assert logged == ["ERROR", "WARNING"]


def test_the_applications_own_page_is_shown(app: Flask, client: FlaskClient) -> None:
    @app.errorhandler(503)
    def busy(error: Any) -> tuple[str, int]:
        return f"<h1>Ours</h1>{error.description}", 503

    answer = client.get("/raise/OutcomeUnknown")
    assert answer.text.startswith("<h1>Ours</h1>It is not known")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def test_a_handler_of_the_applications_own_goes_before(tables: Callable[..., None]) -> None:
    app = Flask(__name__)
    app.register_error_handler(errors.ParentMissing, lambda error: ("mine", 410))
    Pynacount().init_app(app)

    @app.get("/")
    def raises() -> str:
        raise errors.ParentMissing("x")

    assert app.test_client().get("/").status_code == 410


def test_a_mistake_in_the_program_is_not_answered(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get("/raise/UncountedWrite").status_code == 500
    caplog.clear()
    assert client.post("/number/7").status_code == 500
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "user_id=7 must be a str, not int" in caplog.text


def test_an_answer_says_that_it_was_chosen_by_what_is_wanted(client: FlaskClient) -> None:
    assert "Accept" in client.get("/raise/ParentMissing").headers["Vary"]


@pytest.mark.parametrize("key", ["", "k" * 256, "\u00e9"])
def test_a_key_that_cannot_be_one_is_told_from_a_bad_id(client: FlaskClient, key: str) -> None:
    answer = client.post("/posts/a/likes/u", headers={"Idempotency-Key": key, **JSON})
    assert (answer.status_code, answer.get_json()["code"]) == (400, "bad-idempotency-key")


def test_a_request_that_comes_again_under_its_key_is_told_the_same(client: FlaskClient) -> None:
    def post(key: str) -> int:
        return client.post("/posts/a/likes/u", headers={"Idempotency-Key": key}).status_code

    assert [post("k"), post("k"), post('"k"'), post("other")] == [201, 201, 201, 409]
    assert number("POST#a", "likeTally") == "1"
    assert post("") == 400


def test_the_key_ends_with_its_request(client: FlaskClient) -> None:
    ids = [client.post("/id", headers=headers).text for headers in ({"Idempotency-Key": "k"}, {}, {})]
    assert len(set(ids)) == 3
    assert idempotency.current.get() is None


@pytest.mark.parametrize(
    "setting",
    [
        *({"PYNACOUNT_MODELS": value} for value in (3, None, ["models:Post", 4])),
        *({"PYNACOUNT_RETRY_AFTER": value} for value in ("x", -3, 0, True)),
        {"PYNACOUNT_MODLES": "models"},
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: dict[str, Any]) -> None:
    app = Flask(__name__)
    app.config.update(setting)
    with pytest.raises(ValueError, match="PYNACOUNT_"):
        Pynacount(app)


def test_the_filter_is_there(app: Flask) -> None:
    with app.app_context():
        assert render_template_string("{{ 1234 | short_count }}") == "1.2K"


# -- commands


def run(app: Flask, *arguments: str) -> Any:
    return app.test_cli_runner().invoke(args=["tallies", *arguments], prog_name="flask")


def test_the_commands_are_those_of_pynacount(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    put("POST#b", "META", likeTally={"N": "5"})
    unseed("POST#a", "likeTally")
    found = run(app, "audit", "social:Post", "--workers", "1")
    assert found.exit_code == 1
    assert "mend them: flask tallies repair social:Post" in found.output
    app.config["PYNACOUNT_MODELS"] = "social:Post"
    assert run(app, "repair", "--yes", "--workers", "1").exit_code == 0
    assert run(app, "migrate", "--yes", "--workers", "1").exit_code == 0
    assert run(app, "audit", "--workers", "1").exit_code == 0
    assert run(app, "inspect", "social:Post", "post_id=a").exit_code == 0
    assert "TransactItems" in run(app, "explain", "social:Post", "post_id=a", "user_id=u").output


def test_which_models_are_meant_is_asked_in_one_line(app: Flask) -> None:
    for models, said in (((), "module:Model.counter"), (["social:Post", "social:Album"], "social:Post, social:Album")):
        app.config["PYNACOUNT_MODELS"] = models
        found = run(app, "repair")
        assert found.exit_code == 2
        assert said in found.output and "Traceback" not in found.output


def test_the_help_reads_well_in_80_columns(app: Flask) -> None:
    names = ["audit", "migrate", "repair", "inspect", "explain", "reshard", "stream"]
    for arguments in ([], *([name] for name in names)):
        text = run(app, *arguments, "--help").output
        assert max(map(len, text.splitlines())) <= 80
        assert "Usage: flask tallies" in text
        assert "pynacount" not in text
    assert all(f"  {name} " in run(app, "--help").output for name in names)
