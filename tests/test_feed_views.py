"""The views that docs/howto/feed-page.md shows, in Django and in Flask, as they stand there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pynacount.connections import connection_for
from pynacount.testing import Engine, create_tables, record_requests
from social import Meta, Post

PAGE = (Path(__file__).parents[1] / "docs/howto/feed-page.md").read_text()
(TEMPLATE,) = re.findall(r"^```html\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
POSTS = [f"p{number}" for number in range(50)]


def snippet(title: str) -> str:
    (found,) = re.findall(rf'^```python title="{re.escape(title)}"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(autouse=True)
def app(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application that the views import from, and 50 posts, of which the viewer likes one."""
    models: Any = types.ModuleType("app.models")
    models.Post = Post
    monkeypatch.setitem(sys.modules, "app", types.ModuleType("app"))
    monkeypatch.setitem(sys.modules, "app.models", models)
    create_tables(Post)
    for post in POSTS:
        Post(post_id=post).save()
    Post.ref(post_id="p7").likes.add(user_id="7")


def check(html: str, sent: list[tuple[str, dict[str, Any]]], *, logged_in: bool) -> None:
    articles = re.findall(r'<article id="(\w+)">(.*?)</article>', html, re.DOTALL)
    assert [post for post, _ in articles] == POSTS
    assert [post for post, text in articles if "1 likes" in text] == ["p7"]
    assert [post for post, text in articles if "You like this" in text] == (["p7"] if logged_in else [])
    assert [operation for operation, _ in sent] == ["BatchGetItem"]


@pytest.mark.parametrize("logged_in", [True, False])
def test_the_flask_view_shows_a_page_of_50_posts_by_one_request(tmp_path: Path, logged_in: bool) -> None:
    pytest.importorskip("flask")
    names: dict[str, Any] = {"__name__": "feed", "newest_posts": lambda: POSTS}
    exec(snippet("feed.py"), names)
    (tmp_path / "feed.html").write_text(TEMPLATE)
    names["app"].template_folder = str(tmp_path)
    names["app"].secret_key = "for the test"
    client = names["app"].test_client()
    if logged_in:
        with client.session_transaction() as session:
            session["user_id"] = "7"
    with record_requests(connection_for(Meta).client) as sent:
        html = client.get("/feed").get_data(as_text=True)
    check(html, sent, logged_in=logged_in)


@pytest.mark.parametrize("logged_in", [True, False])
def test_the_django_view_shows_a_page_of_50_posts_by_one_request(tmp_path: Path, logged_in: bool) -> None:
    django = pytest.importorskip("django")
    from django.conf import settings
    from django.test import RequestFactory, override_settings

    if not settings.configured:
        settings.configure()
        django.setup()
    (tmp_path / "feed.html").write_text(TEMPLATE)
    names: dict[str, Any] = {"__name__": "feed.views", "newest_posts": lambda: POSTS}
    exec(snippet("feed/views.py"), names)
    request: Any = RequestFactory().get("/feed")
    request.user = types.SimpleNamespace(pk=7, is_authenticated=logged_in)
    engine = {"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [str(tmp_path)]}
    with override_settings(TEMPLATES=[engine]), record_requests(connection_for(Meta).client) as sent:
        html = names["feed"](request).content.decode()
    check(html, sent, logged_in=logged_in)
