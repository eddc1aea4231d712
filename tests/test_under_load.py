"""The boards under gunicorn and many visitors, while workers are killed: no drift, no 500, every like that was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pynacount.testing import Engine, create_tables
from serving import APPLICATIONS, deployed
from social_board import TABLES, Post
from storming import board_posts, storm, told, wrong

SECONDS = 10.0
"""``tests/benchmarks/web_load.py`` does it for longer."""
SERVERS = {
    "threads": ("flask", ["--worker-class", "gthread", "--workers", "2", "--threads", "16"]),
    "forks": ("django", ["--workers", "6"]),
    "preloaded": ("warmed", ["--preload", "--workers", "6"]),
}


@pytest.mark.real_engine
@pytest.mark.parametrize("server", SERVERS)
def test_no_like_is_lost_or_doubled_while_workers_are_killed(
    server: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(APPLICATIONS, "warmed", "warmed:app")
    board, options = SERVERS[server]
    with deployed(board, tmp_path / "log", *options, before=board_posts) as (url, gunicorn):
        found = storm(url, gunicorn.pid, SECONDS)
        assert wrong(found) == [], (tmp_path / "log").read_text()[-3000:]
    print(told(found))
    assert found.statuses[200] > 50 and found.killed > 1
    assert set(found.statuses) <= {0, 200, 503}
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_forked_child_has_no_connection_of_its_parents(engine: Engine) -> None:
    """PynamoDB keeps one for each model; two processes on one socket would read each other's answers."""
    create_tables(*TABLES)
    Post(post_id="a").save()
    assert Post.get(post_id="a").post_id == "a"
    assert Post._connection is not None
    child = os.fork()
    if not child:
        os._exit(0 if Post._connection is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert Post._connection is not None
