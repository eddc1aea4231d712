"""The pages on web frameworks: a new project with their files, and nothing else, has a working like button."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 40

FLASK = """
from pynacount.testing import MotoEngine, create_tables
from models import Like, Post
from app import app

with MotoEngine():
    create_tables(Post, Like)
    Post(post_id="hello", body="Hello!").save()
    client = app.test_client()

    def press(do):
        return client.post("/posts/hello", data={"do": do}, follow_redirects=True).text
"""
DJANGO = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
django.setup()
from django.test import Client
from mysite.models import Like, Post
from pynacount.testing import MotoEngine, create_tables

with MotoEngine():
    create_tables(Post, Like)
    Post(post_id="hello", body="Hello!").save()
    client = Client(headers={"host": "localhost"})

    def press(do):
        return client.post("/posts/hello", {"do": do}, follow=True).content.decode()

    assert client.get("/posts/gone").status_code == 404
"""
TRIED = """
    page = press("like")
    assert "Hello!" in page and 'value="unlike" aria-pressed="true"' in page and "  1\\n" in page, page
    assert "  1\\n" in press("like")
    page = press("unlike")
    assert 'value="like" aria-pressed="false"' in page and "  0\\n" in page, page
    assert (Post.get(post_id="hello").like_tally, list(Post.ref(post_id="hello").likes)) == (0, [])
    assert client.post("/posts/gone", data={"do": "like"}).status_code == 404
    print("it works")
"""


def files(page: str) -> dict[str, str]:
    """The files of a page's first part, by their names."""
    text = (ROOT / "docs/howto" / page).read_text().partition("\n## What an error answers")[0]
    found = {match[1]: match[2] for match in re.finditer(r'^```python title="(.*?)"\n(.*?)^```', text, re.M | re.S)}
    for match in re.finditer(r"`([\w/]+\.html)`:\n\n```django\n(.*?)^```", text, re.M | re.S):
        found[match[1]] = match[2]
    return found


def lines(source: str) -> int:
    return sum(bool(line.strip()) for line in source.splitlines())


def run(folder: Path, *command: str) -> str:
    environ = {"PYTHONPATH": f"{ROOT}:{folder}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["flask.md", "django.md"])
def test_a_new_project_with_the_pages_files_has_a_working_like_button(page: str, tmp_path: Path) -> None:
    if page == "django.md":
        run(tmp_path, "-m", "django", "startproject", "mysite", ".")
    for name, source in files(page).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        before = file.read_text() if name == "mysite/settings.py" else ""
        file.write_text(before + source)
    program = (FLASK if page == "flask.md" else DJANGO) + TRIED
    assert run(tmp_path, "-c", program).endswith("it works\n")


@pytest.mark.parametrize("page", ["flask.md", "django.md"])
def test_it_takes_less_than_forty_lines(page: str) -> None:
    found = files(page)
    assert len(found) >= 3
    assert (
        sum(lines(source) for name, source in found.items() if name.endswith(".py") and name != "try_it.py")
        < MOST_LINES
    )
