"""What a command shows of work that takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from io import StringIO

import pytest
from rich.console import Console

from pynacount.commands import progress
from pynacount.commands.eta import duration, left, slowed
from pynacount.commands.progress import Progress


def until(condition: Callable[[], bool]) -> None:
    """Wait for it, for half a minute at most."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_on_a_terminal_one_line_moves_by_itself_and_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, items = StringIO(), [0]
    monkeypatch.setattr(progress, "Console", partial(Console, file=screen, force_terminal=True, width=60))
    with Progress(lambda: f"{items[0]} items", as_json=False) as shown:
        items[0] = 1234
        until(lambda: "1234 items" in screen.getvalue())
        shown.say("POST#a: failed")
    assert "POST#a: failed\n" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is erased


def test_where_it_is_piped_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.01)
    with Progress(lambda: "3 items", as_json=False):
        until(lambda: "3 items\n" in capsys.readouterr().out)


def test_beside_json_that_is_piped_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.001)
    with Progress(lambda: "3 items", as_json=True):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")


def test_the_time_that_is_left_is_told_where_it_can_be() -> None:
    assert left(250, 1000, 10) == ", about 30 s left"
    assert left(1000, 1000, 10) == left(0, 1000, 10) == left(10, None, 10) == ""
    assert [duration(seconds) for seconds in (3, 99, 100, 5000, 9000)] == ["3 s", "99 s", "2 min", "83 min", "2 h"]


def test_what_it_is_slowed_by_is_told() -> None:
    met = {"ThrottlingException": 3, "EndpointConnectionError: no answer": 1200}
    assert slowed(met) == ", tried again 1,203 times after EndpointConnectionError"
    assert slowed({}) == ""
