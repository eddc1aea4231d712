"""What `pynacount demo` does, what it prints, and that it notices when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pynacount import cli
from pynacount.commands import group
from pynacount.demo import attendance, likes
from pynacount.demo.condensing import condense
from pynacount.demo.parts import Part, Scene, Seeding, Verdict
from pynacount.demo.script import play
from pynacount.testing.tokens import TokenMemory

PUBLISHED = [3, 3, 6, 4, 8, 8, 10, 14, 12, 5, 4, 6, 3, 3]
ROOT = Path(__file__).parents[1]
LIKE = (
    "Put    POST#a91f LIKE#USER#7c20  if attribute_not_exists(SK)",
    "Update POST#a91f META  ADD likeTally 1  if attribute_exists(likeTally)",
)
UNLIKE = (
    "Delete POST#a91f LIKE#USER#7c20  if attribute_exists(SK)",
    "Update POST#a91f META  ADD likeTally -1  if attribute_exists(likeTally)",
)


@pytest.fixture(scope="module")
def parts() -> list[Part]:
    return list(play())


@pytest.fixture(scope="module")
def scenes(parts: list[Part]) -> dict[str, Scene]:
    return {part.title: part for part in parts if isinstance(part, Scene)}


def in_process() -> Result:
    return CliRunner().invoke(group, ["demo"])


def in_shell(*arguments: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, its output piped, with none of this shell's wishes about colour."""
    ours = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "NO_COLOR")}
    code = f"import sys; sys.argv[1:] = {list(arguments)!r}\n{before}\nfrom pynacount.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**ours, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


# -- what happens


def test_nothing_is_wrong(parts: list[Part]) -> None:
    assert [text for part in parts for text in part.wrong()] == []
    assert [type(part) for part in parts] == [Seeding, *[Scene] * 8, Verdict]


def test_the_legacy_table_is_seeded_to_the_published_totals(parts: list[Part]) -> None:
    seeding = parts[0]
    assert isinstance(seeding, Seeding)
    assert (seeding.women, len(seeding.events), seeding.attendances) == (18, 14, 89)
    assert [event.before for event in seeding.events] == [None] * 14
    assert [event.tally for event in seeding.events] == PUBLISHED
    assert [request.operation for request in seeding.call.requests] == ["Scan", "BatchExecuteStatement"]


@pytest.mark.parametrize(
    ("title", "answers", "before", "after", "wcu"),
    [
        ("A like", [True], 0, 1, 4),
        ("A double click", [False], 1, 1, 4),
        ("A replay after a lost response", [True], 1, 2, 4),
        ("An unlike", [True], 2, 1, 4),
        ("A double unlike", [False], 1, 1, 4),
        ("An edit of the post while likes arrive", [None, True, True, None], 1, 3, 9),
        (
            "A number that a script overwrote",
            ["E1 7, not 3; E9 10, not 12", "E1 7 -> 3 by fence; E9 10 -> 12 by fence", "nothing"],
            3,
            3,
            0,
        ),
        ("A like of a deleted post", [None, None, "ParentMissing"], 0, None, 5),
    ],
)
def test_scene(
    scenes: dict[str, Scene], title: str, answers: list[object], before: int, after: int | None, wcu: int
) -> None:
    scene = scenes[title]
    assert [call.answer for call in scene.calls] == answers
    assert (scene.before, scene.after, scene.wcu) == (before, after, wcu)


def test_the_requests_are_those_of_the_wire(scenes: dict[str, Scene]) -> None:
    assert [r.lines for r in scenes["A like"].requests] == [LIKE]
    assert [r.lines for r in scenes["A double click"].requests] == [LIKE]
    assert [r.lines for r in scenes["An unlike"].requests] == [UNLIKE]
    assert [r.lines for r in scenes["A double unlike"].requests] == [UNLIKE]
    assert scenes["A double click"].requests[0].came == "cancelled: ConditionalCheckFailed, None"
    assert scenes["A like of a deleted post"].requests[-1].came == "cancelled: None, ConditionalCheckFailed"


def test_the_replay_is_the_same_request_again(scenes: dict[str, Scene]) -> None:
    first, second = scenes["A replay after a lost response"].requests
    assert first.lines == second.lines
    assert first.token and first.token == second.token
    assert first.came.startswith("no answer: ")
    assert second.came == "done"


def test_the_edit_sends_the_body_and_nothing_else(scenes: dict[str, Scene]) -> None:
    save = scenes["An edit of the post while likes arrive"].requests[-1]
    line = 'POST#a91f META  SET body = "Out of the blue, again"  if attribute_exists(SK)'
    assert (save.operation, save.lines) == ("UpdateItem", (line,))


def test_every_parent_is_in_the_verdict(parts: list[Part]) -> None:
    verdict = parts[-1]
    assert isinstance(verdict, Verdict)
    assert [s.count for s in verdict.standings] == [*PUBLISHED, 3, 0]
    assert [s.tally for s in verdict.standings] == [*PUBLISHED, 3, None]


@pytest.mark.parametrize(
    ("operation", "request_", "line"),
    [
        (
            "UpdateItem",
            {
                "Key": {"PK": {"S": "A"}, "SK": {"S": "B"}},
                "UpdateExpression": "SET #n0 = :v1, b = :v10 REMOVE c",
                "ExpressionAttributeNames": {"#n0": "size"},
                "ExpressionAttributeValues": {":v1": {"S": 'say "ah"'}, ":v10": {"BOOL": True}},
            },
            'A B  SET size = "say \\"ah\\"", b = True REMOVE c',
        ),
        ("GetItem", {"Key": {"PK": {"S": "A"}, "SK": {"S": "B"}}}, "A B"),
        ("PutItem", {"Item": {"n": {"N": "1"}, "SK": {"S": "B"}, "PK": {"S": "A"}}}, "A B"),
    ],
)
def test_condense(operation: str, request_: dict[str, Any], line: str) -> None:
    assert condense(operation, request_) == (line,)


# -- what a person sees


def test_piped() -> None:
    started = time.monotonic()
    done = in_shell("demo")
    assert time.monotonic() - started < 20
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.isascii()
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line != line.rstrip()]
    rows = [line.split() for line in lines if line.startswith("  E") and line.endswith("ok")]
    events = [row for row in rows if len(row) == 5 and not row[0].startswith("EVENT#")]
    assert [row[0] for row in events] == [f"E{n}" for n in range(1, 15)]
    assert [row[1:] for row in events] == [["none", str(n), str(n), "ok"] for n in PUBLISHED]
    assert "WRONG" not in done.stdout
    assert lines[-1].startswith("All right")


def test_it_is_laid_out_for_80_columns_on_wider_screens_too() -> None:
    done = in_shell("demo", COLUMNS="200")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_settings_of_the_developer_do_not_matter(tmp_path: Path) -> None:
    """No connection is made at all, whatever the environment and PynamoDB's own settings file point to."""
    settings = tmp_path / "pynamodb_settings.py"
    settings.write_text('region = "eu-north-1"\nhost = "http://127.0.0.1:9"\n')
    no_sockets = "import socket\ndef no(*_): raise AssertionError('network')\nsocket.socket.connect = no"
    done = in_shell(
        "demo",
        before=no_sockets,
        AWS_PROFILE="nobody",
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        AWS_ENDPOINT_URL_DYNAMODB="http://127.0.0.1:9",
        AWS_REGION="",
        AWS_DEFAULT_REGION="",
        HTTPS_PROXY="http://127.0.0.1:9",
        PYNAMODB_CONFIG=str(settings),
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- what is wrong is noticed


def test_a_wrong_total_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attendance, "PUBLISHED", (*PUBLISHED[:7], 15, *PUBLISHED[8:]))
    done = in_process()
    assert done.exit_code == 1
    assert "E8 has the tally 14; the published total is 15" in done.output
    assert "All right" not in done.output


def test_a_wrong_price_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likes, "LIKE_WCU", 2)
    done = in_process()
    assert done.exit_code == 1
    assert "costs 4 WCU, not 2" in " ".join(done.output.split())


def test_a_wrong_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that knows no tokens runs the replay again, and finds the like there."""
    monkeypatch.setattr(TokenMemory, "committed", lambda *_: False)
    done = in_process()
    assert done.exit_code == 1
    assert "answered False, not True" in " ".join(done.output.split())


# -- the command itself


def test_what_is_right_in_process_exits_0() -> None:
    assert in_process().exit_code == 0


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_fits(arguments: list[str]) -> None:
    done = CliRunner().invoke(group, arguments)
    assert done.exit_code == 0
    assert max(map(len, done.output.splitlines())) <= 80


def test_version() -> None:
    assert in_shell("--version").stdout == "pynacount, version 0.1.0\n"


def test_an_unknown_command_exits_2() -> None:
    assert in_shell("nonsense").returncode == 2


@pytest.mark.parametrize("module", ["click", "rich", "moto"])
def test_what_is_not_installed_is_named_in_one_line(module: str) -> None:
    done = in_shell("demo", before=f"sys.modules[{module!r}] = None")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert module in done.stderr
    assert 'pip install "pynacount[demo]"' in done.stderr


def test_main_is_the_installed_command() -> None:
    assert "pynacount = pynacount.cli:main" in (ROOT / "setup.cfg").read_text()
    assert callable(cli.main)
