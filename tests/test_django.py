"""pynacount in Django: its answers, its commands, its checks, its pages. There is no database."""

from __future__ import annotations

import functools
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.checks import CheckMessage, run_checks
from django.core.management import CommandError, call_command
from django.http import HttpRequest, HttpResponse
from django.template import Context, Template
from django.test import Client, RequestFactory, override_settings
from django.urls import include, path
from django.views import View

ROOT = Path(__file__).parents[1]

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        DEBUG=False,
        INSTALLED_APPS=["pynacount.contrib.django"],
        PYNACOUNT={"MODELS": ["social:Post"]},
        ROOT_URLCONF=__name__,
        SECRET_KEY="tests",
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}],
    )
    django.setup()

from pynacount import errors  # noqa: E402
from pynacount.connections import connection_for, forget_connections  # noqa: E402
from pynacount.contrib.commands import commands  # noqa: E402
from pynacount.contrib.django import CountedViewMixin, counted_view  # noqa: E402
from pynacount.contrib.django.management.commands.tallies import Command  # noqa: E402
from pynacount.testing import Fault, FaultInjector, record_requests  # noqa: E402
from social import ALL, Like, Post, number, put  # noqa: E402

JSON = {"Accept": "application/json"}


@counted_view
def like(request: HttpRequest, post: str, user: str) -> HttpResponse:
    Like(post_id=post, user_id=user).save()
    return HttpResponse(status=201)


class LikeView(CountedViewMixin, View):
    def post(self, request: HttpRequest, post: str, user: str) -> HttpResponse:
        Like(post_id=post, user_id=user).save()
        return HttpResponse(status=201)

    def delete(self, request: HttpRequest, post: str, user: str) -> HttpResponse:
        Post.ref(post_id=post).likes.remove(user_id=user)
        return HttpResponse(status=204)


@counted_view
def raises(request: HttpRequest, name: str) -> HttpResponse:
    raise getattr(errors, name)("the parent PK='POST#secret' of table Town")


@counted_view
def by_number(request: HttpRequest, user: int) -> HttpResponse:
    return HttpResponse(Post.ref(post_id="a").likes.add(user_id=user))


urlpatterns = [
    path("posts/<path:post>/likes/<user>", like),
    path("class/<path:post>/likes/<user>", LikeView.as_view()),
    path("raise/<name>", raises),
    path("number/<int:user>", by_number),
    path("counters/", include("pynacount.contrib.django.urls")),
]


@pytest.fixture(autouse=True)
def town(tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    monkeypatch.setattr("pynacount.commit.time.sleep", lambda seconds: None)
    tables(*ALL)
    Post(post_id="a").save()


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


# -- views


@pytest.mark.parametrize("kind", ["posts", "class"])
def test_a_second_like_is_a_conflict_and_a_like_of_no_post_is_not_found(client: Client, kind: str) -> None:
    paths = (f"/{kind}/a/likes/u", f"/{kind}/a/likes/u", f"/{kind}/b/likes/u", f"/{kind}/a%23b/likes/u")
    answers = [client.post(path, headers=JSON) for path in paths]
    assert [answer.status_code for answer in answers] == [201, 409, 404, 400]
    assert answers[1]["Content-Type"] == "application/problem+json"
    assert answers[1].json()["code"] == "already-counted"


def test_a_mixin_answers_for_every_method(client: Client) -> None:
    assert client.delete("/class/a/likes/u").status_code == 404


def test_contention_asks_to_come_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Like.Meta, "counted_deadline", 0.1)
    with (
        override_settings(PYNACOUNT={"RETRY_AFTER": 4.2}),
        FaultInjector(connection_for(Like.Meta).client) as injector,
    ):
        injector.next(*[Fault.CONFLICT] * 5000)
        answer = client.post("/posts/a/likes/u")
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_no_answer_shows_what_is_for_the_log(client: Client, accept: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pynacount")
    answer = client.get("/raise/ParentMissing", headers={"Accept": accept})
    assert answer.status_code == 404
    assert "secret" not in answer.content.decode() and "does not exist" in answer.content.decode()
    assert "PK='POST#secret'" in caplog.text
    assert answer["Content-Type"].startswith("text/html") is (accept != "application/json")


def test_the_projects_own_page_is_shown(client: Client, tmp_path: Path) -> None:
    (tmp_path / "409.html").write_text("<h1>Ours</h1>{{ answer.text }}")
    backend = "django.template.backends.django.DjangoTemplates"
    with override_settings(TEMPLATES=[{"BACKEND": backend, "DIRS": [tmp_path]}]):
        assert client.get("/raise/AlreadyCounted").content == b"<h1>Ours</h1>That is there already."
        other = client.get("/raise/ParentMissing")  # a project without the library's templates
        assert (other.status_code, other["Content-Type"]) == (404, "text/plain; charset=utf-8")


def test_a_mistake_in_the_program_is_not_answered(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    assert client.get("/raise/UncountedWrite").status_code == 500
    caplog.clear()
    assert client.post("/number/7").status_code == 500
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "user_id=7 must be a str, not int" in caplog.text


@pytest.mark.parametrize(
    ("accept", "json"),
    [
        ("application/json;q=0.1, text/html", False),
        ("text/html;q=0.1, application/json", True),
        ("text/html, application/json;q=0.9", False),
        ("application/json;q=0", False),
        ("application/*", True),
        ("application/json, text/plain, */*", True),
        ("text/html;q=nonsense, application/json", True),
    ],
)
def test_an_answer_is_what_is_wanted_most_and_says_that_it_was_chosen(client: Client, accept: str, json: bool) -> None:
    answer = client.get("/raise/ParentMissing", headers={"Accept": accept})
    assert (answer["Content-Type"] == "application/problem+json") is json
    assert "Accept" in answer["Vary"]


@pytest.mark.parametrize("key", ["", "k" * 256, "\u00e9"])
def test_a_key_that_cannot_be_one_is_told_from_a_bad_id(client: Client, key: str) -> None:
    answer = client.post("/posts/a/likes/u", headers={"Idempotency-Key": key, **JSON})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-idempotency-key")
    assert "1 to 255 printable ASCII" in answer.json()["title"]


@pytest.mark.parametrize("kind", ["posts", "class"])
def test_a_request_that_comes_again_under_its_key_is_told_the_same(client: Client, kind: str) -> None:
    def post(key: str) -> int:
        return client.post(f"/{kind}/a/likes/u", headers={"Idempotency-Key": key}).status_code

    assert [post("k"), post("k"), post("other"), post(" ")] == [201, 201, 409, 400]
    assert number("POST#a", "likeTally") == "1"


def test_an_async_view_is_refused_when_it_is_declared() -> None:
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    class Called:
        async def __call__(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse()

    class Plain(View):
        async def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse()

    for one in (view, functools.partial(view), Called(), Plain.as_view()):
        with pytest.raises(TypeError, match="no async interface; make it a plain one"):
            counted_view(one)  # type: ignore[type-var]
    with pytest.raises(TypeError, match=r"Liked\.put is async"):

        class Liked(CountedViewMixin, View):
            async def put(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse()


def test_an_async_view_in_a_plain_coat_is_refused_when_it_is_called(client: Client) -> None:
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse()

    with pytest.raises(TypeError, match="the view of /x is async"):
        counted_view(lambda request: view(request))(RequestFactory().post("/x"))


def test_a_class_is_no_view_function_and_the_mixin_comes_first() -> None:
    with pytest.raises(TypeError, match=r"LikeView is a class; put CountedViewMixin before its other bases"):
        counted_view(LikeView)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="must come before the view's other bases"):

        class Late(View, CountedViewMixin):
            pass


def test_the_filter_is_there() -> None:
    template = Template("{% load pynacount %}{{ count|short_count }} {{ none|short_count }}")
    assert template.render(Context({"count": 1234, "none": None})) == "1.2K –"  # noqa: RUF001


# -- commands


def run(*arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command("tallies", *arguments, stdout=out, **options)
    return out.getvalue()


def drift() -> None:
    put("POST#b", "META", likeTally={"N": "5"})


def test_the_commands_are_those_of_pynacount() -> None:
    drift()
    with pytest.raises(CommandError, match="audit: something is wrong") as told:
        run("audit", "--workers", "1")
    assert told.value.returncode == 1
    assert "1 of 2 tallies repaired" in run("repair", "social:Post", "--noinput", "--workers", "1")
    assert "already" in run("migrate", "--no-input", "--workers", "1")
    assert "1 ok" in run("audit", "social:Post", "--key", "post_id=b", "--noinput")
    assert "No drift" in run("inspect", "social:Post", "post_id=a")
    assert "No drift" in run("inspect", "post_id=a")
    assert "TransactItems" in run("explain", "post_id=a", "user_id=u")
    assert "TransactItems" in run("explain", "social:Post", "post_id=a", "user_id=u")


def test_what_is_wrong_is_told_as_django_tells_it() -> None:
    for arguments, said in (
        (("audit", "nosuch"), "there is no module nosuch"),
        (("audit", "--nosuch"), "No such option"),
        (("audit", "--workers", "0"), "Invalid value for '--workers'"),
        (("inspect", "social:Post"), "post_id: missing"),
        (("nosuch",), "invalid choice"),
    ):
        with pytest.raises(CommandError, match=said) as told:
            run(*arguments)
        assert told.value.returncode in (1, 2)


def test_which_models_are_meant_is_asked_in_one_line() -> None:
    for models, command in (
        ([], ["audit"]),
        (["social:Post", "social:Album"], ["repair"]),
        (["social:Post", "social:Album"], ["inspect", "post_id=a"]),
        (["social:Post", "social:Album"], ["audit", "--key", "post_id=a"]),
        (["social:Post", "social:Album"], ["audit", "--html", os.devnull]),
    ):
        with (
            override_settings(PYNACOUNT={"MODELS": models}),
            pytest.raises(CommandError, match=r"(?i)name (a target|one of social:Post, social:Album)"),
        ):
            run(*command)
    with override_settings(PYNACOUNT={"MODELS": ["social:Post", "social:Post"]}):
        assert "1 tally audited" in run("audit")


def test_an_audit_of_no_target_goes_through_all_models_and_ends_as_the_worst(capsys: Any) -> None:
    with override_settings(PYNACOUNT={"MODELS": ["social:Post", "social:Album"]}):
        told = run("audit", "--workers", "1")
        assert told.index("social:Post:") < told.index("social:Album:")
        drift()
        out = io.StringIO()
        with pytest.raises(CommandError) as failed:
            call_command("tallies", "audit", "--workers", "1", stdout=out)
        assert failed.value.returncode == 1
        assert "1 drifted" in out.getvalue() and "social:Album:" in out.getvalue()
    with override_settings(PYNACOUNT={"MODELS": ["nosuch", "social:Post"]}):
        out = io.StringIO()
        with pytest.raises(CommandError) as failed:
            call_command("tallies", "audit", "--workers", "1", stdout=out)
        assert failed.value.returncode == 2
        assert "1 drifted" in out.getvalue() and "there is no module nosuch" in capsys.readouterr().err


def test_an_audit_that_is_stopped_does_not_go_on_to_the_next_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Iterator[Any]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("pynacount.commands.audit.audit", interrupted)
    out = io.StringIO()
    with override_settings(PYNACOUNT={"MODELS": ["social:Post", "social:Album"]}), pytest.raises(CommandError):
        call_command("tallies", "audit", stdout=out)
    assert "social:Album:" not in out.getvalue()


def test_what_changes_how_tallies_are_stored_needs_its_target() -> None:
    with pytest.raises(CommandError, match="Missing argument 'TARGET'"):
        run("reshard", "--to", "2")
    assert "None" in _help("reshard")


def _help(name: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", HELPED, "tallies", name, "--help"], capture_output=True, text=True, timeout=60, cwd=ROOT
    ).stdout


HELPED = """
import sys
from django.conf import settings
from django.core.management import execute_from_command_line
settings.configure(INSTALLED_APPS=['pynacount.contrib.django'])
execute_from_command_line(["manage.py", *sys.argv[1:]])
"""


def test_no_input_is_taken_before_the_command_too() -> None:
    drift()
    assert "1 of 2 tallies repaired" in run("--no-input", "repair", "--workers", "1")


@pytest.mark.parametrize("name", ["audit", "explain", "repair"])
def test_the_examples_of_a_command_are_as_it_is_called(name: str) -> None:
    text = _help(name)
    assert f"manage.py tallies {name} app.models:Post" in text and "pynacount" not in text


def test_an_endpoint_that_is_no_url_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_connections()
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "nonsense")
    with pytest.raises(CommandError, match="Invalid endpoint: nonsense; write it as a URL"):
        run("audit")
    assert [(message.id, "write it as a URL" in message.msg) for message in checked()] == [("pynacount.W002", True)]
    forget_connections()


def test_verbosity_0_says_nothing_and_still_tells_by_the_status() -> None:
    assert run("audit", "-v0", "--workers", "1") == ""
    drift()
    with pytest.raises(CommandError, match="something is wrong, run it at --verbosity 1 to see what"):
        run("audit", "--verbosity", "0", "--workers", "1")


def test_colour_is_as_django_is_told() -> None:
    assert "\x1b[" in run("inspect", "social:Post", "post_id=a", "--force-color")
    assert "\x1b[" not in run("inspect", "social:Post", "post_id=a", "--no-color")
    assert not {"NO_COLOR", "FORCE_COLOR"} & os.environ.keys()


def test_manage_py_exits_with_the_commands_own_status_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "manage.py").write_text(
        "import sys\n"
        "from django.conf import settings\n"
        "from django.core.management import execute_from_command_line\n"
        "settings.configure(INSTALLED_APPS=['pynacount.contrib.django'])\n"
        "execute_from_command_line(sys.argv)\n"
    )
    for arguments, status, said in (
        (("audit", "nosuch"), 2, "CommandError: there is no module nosuch"),
        (("audit", "--help"), 0, "Usage: manage.py tallies audit"),
        (("--help",), 0, "repair    Mend tallies that drifted, live."),
        (("nosuch",), 2, "invalid choice"),
    ):
        command = [sys.executable, "manage.py", "tallies", *arguments]
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60)
        assert (done.returncode, "Traceback" in done.stderr) == (status, False)
        assert said in done.stdout + done.stderr


def test_the_help_reads_well_in_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Command().create_parser("manage.py", "tallies").print_help()
    for command in commands(list):
        call_command("tallies", command.name, "--help")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


# -- checks


def checked(**pynacount: Any) -> list[CheckMessage]:
    with override_settings(PYNACOUNT={"MODELS": ["social:Post"], **pynacount}):
        return run_checks(tags=["pynacount"])


def ids(**pynacount: Any) -> list[str]:
    return [str(message.id) for message in checked(**pynacount)]


@pytest.fixture
def without_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The engine's own endpoint is one for development."""
    with override_settings(DEBUG=True):
        yield


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"MODLES": []}, "no setting 'MODLES'"),
        ({"MODELS": 5}, "must be a list of targets"),
        ({"RETRY_AFTER": 0}, "seconds above 0"),
        ({"SAMPLE": -1}, "0 or more"),
        ({"CHECK_TABLES": "no"}, "True or False"),
        ({"MAY_LOOK": 5}, "callable"),
        ({"MAY_LOOK": "nope.nope"}, "does not import"),
    ],
)
def test_a_setting_that_cannot_be_is_an_error(given: dict[str, Any], said: str) -> None:
    (message,) = checked(**given)
    assert (message.id, said in message.msg) == ("pynacount.E001", True)


def test_models_that_do_not_import_are_an_error() -> None:
    assert ids(MODELS=["nosuch"]) == ["pynacount.E002"]


@pytest.mark.usefixtures("without_endpoint")
class TestTables:
    def test_all_is_well(self) -> None:
        assert ids() == []

    def test_a_missing_table_and_a_missing_stream_are_errors(
        self, engine: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Post.Meta, "stream_view_type", "NEW_AND_OLD_IMAGES", raising=False)
        (message,) = checked()
        assert message.id == "pynacount.E004" and "StreamViewType=NEW_AND_OLD_IMAGES" in str(message.hint)
        engine.reset()
        assert ids() == ["pynacount.E003"]

    def test_a_sample_that_is_unseeded_or_wrong_is_a_warning(self) -> None:
        drift()
        put("POST#new", "META")
        found = checked()
        assert [message.id for message in found] == ["pynacount.W003", "pynacount.W004"]
        assert "1 of 3 parents" in found[0].msg and "tallies migrate social:Post.like_tally" in str(found[0].hint)
        assert ids(SAMPLE=0) == []

    def test_nothing_is_asked_of_dynamodb_where_it_is_not_to_be(self) -> None:
        with record_requests(connection_for(Post.Meta).client) as sent:
            assert ids(CHECK_TABLES=False) == []
        assert sent == []

    def test_tables_that_cannot_be_asked_for_are_a_warning(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with FaultInjector(connection_for(Post.Meta).client) as injector:
            injector.next(Fault.REFUSED_CONNECTION, operation="DescribeTable")
            assert ids() == ["pynacount.W002"]


def test_an_endpoint_for_development_is_a_warning_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:8000")
    found = checked(CHECK_TABLES=False)
    assert [message.id for message in found] == ["pynacount.W001"]
    assert "$AWS_ENDPOINT_URL_DYNAMODB leads to http://localhost:8000" in found[0].msg
    with override_settings(DEBUG=True):
        assert ids(CHECK_TABLES=False) == []


# -- pages


def anybody(request: HttpRequest) -> bool:
    return True


@pytest.mark.parametrize("page", ["/counters/", "/counters/social:Post.like_tally/?post_id=a"])
def test_the_pages_are_for_those_who_may_look(client: Client, page: str) -> None:
    assert client.get(page).status_code == 403
    with override_settings(DEBUG=True):
        assert client.get(page).status_code == 200
    for allowed in (anybody, f"{__name__}.anybody"):
        with override_settings(PYNACOUNT={"MODELS": ["social:Post"], "MAY_LOOK": allowed}):
            assert client.get(page).status_code == 200
            assert client.post(page).status_code == 405


@override_settings(DEBUG=True)
def test_the_page_shows_counters_and_leads_to_the_repair(client: Client) -> None:
    drift()
    put("POST#<b>", "META", likeTally={"N": "7"})
    page = client.get("/counters/").content.decode()
    assert "Post.like_tally" in page and "3 looked at" in page
    link = "/counters/social:Post.like_tally/?post_id=b"
    assert f'href="{link}"' in page
    assert "<b>" not in page and "&lt;b&gt;" in page
    parent = client.get(link).content.decode()
    assert "python manage.py tallies repair social:Post.like_tally --key post_id=b" in parent
    assert "DRIFT" in parent
    assert number("POST#b", "likeTally") == "5"  # it writes nothing


@override_settings(DEBUG=True)
@pytest.mark.parametrize("page", ["nosuch:Post.like_tally/?post_id=a", "social:Post.like_tally/", "os/?a=b"])
def test_a_page_of_what_is_not_there_is_not_found(client: Client, page: str) -> None:
    assert client.get(f"/counters/{page}").status_code == 404


@override_settings(DEBUG=True)
def test_a_parent_that_is_missing_is_shown_as_missing(client: Client) -> None:
    page = client.get("/counters/social:Post.like_tally/?post_id=gone").content.decode()
    assert "There is no such item" in page


@override_settings(DEBUG=True)
def test_a_parent_that_cannot_be_looked_at_says_why_in_a_line(client: Client, engine: Any) -> None:
    engine.reset()
    answer = client.get("/counters/social:Post.like_tally/?post_id=a")
    assert answer.status_code == 200 and "create the table" in answer.content.decode()


@override_settings(DEBUG=True)
def test_a_parents_page_offers_only_what_helps(client: Client) -> None:
    def commands_of(post: str) -> list[str]:
        page = client.get(f"/counters/social:Post.like_tally/?post_id={post}").content.decode()
        return [line.partition("tallies ")[2] for line in page.split("<pre>")[1:]]

    drift()
    put("POST#new", "META")
    put("POST#orphan", "LIKE#USER#u")
    assert [commands_of(post) for post in ("a", "gone", "orphan")] == [[], [], []]
    assert [command.split()[0] for command in commands_of("new") + commands_of("b")] == ["migrate", "repair"]


@override_settings(DEBUG=True, PYNACOUNT={})
def test_a_page_without_counters_says_how_to_name_them(client: Client) -> None:
    assert "None is named" in client.get("/counters/").content.decode()
