"""``pynacount repair``: where what is wrong comes from, what is told and logged of it, and the exit status."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pynacount import commit
from pynacount.commands import group
from pynacount.commands import repair as command
from pynacount.connections import connection_for
from pynacount.keys import ItemKey
from pynacount.tallies import Audited
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Post, item, items, number, put

NAMES = "abc"


def key(pk: str) -> ItemKey:
    return ItemKey("Town", ("PK", "SK"), (("S", pk), ("S", "META")))


def row(pk: str, state: Any = "drifted", counter: str = "Post.like_tally") -> Audited:
    return Audited(counter, key(pk), state, 5, 3, wrong=state not in ("ok", "unseeded"))


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tables(*ALL)
    monkeypatch.setattr(commit.time, "sleep", lambda _: None)
    for name in NAMES:
        put(f"POST#{name}", "META", likeTally={"N": "5"})
        for index in range(3):
            put(f"POST#{name}", f"LIKE#USER#{index}")


@pytest.fixture(autouse=True)
def audits(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the audits were asked for, that find the three posts drifted and others right."""
    asked: list[dict[str, Any]] = []
    real = command.audit

    def audit(counters: Any, **options: Any) -> Iterator[Audited]:
        if "refs" in options:
            yield from real(counters, **options)
            return
        asked.append({"counters": [counter.label for counter in counters], **options})
        yield row("POST#right", "ok")
        yield from (row(f"POST#{name}") for name in NAMES)

    monkeypatch.setattr(command, "audit", audit)
    return asked


def finds(monkeypatch: pytest.MonkeyPatch, *rows: Audited) -> None:
    monkeypatch.setattr(command, "audit", lambda *_, **__: iter(rows))


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(group, ["repair", *arguments, "--workers", "1"], **options)


def tallies() -> list[str | None]:
    return [number(f"POST#{name}", "likeTally") for name in NAMES]


def line(pk: str, **other: Any) -> str:
    found = {"kind": "parent", "counter": "Post.like_tally", "key": {"PK": pk, "SK": "META"}, "state": "drifted"}
    return json.dumps({**found, "tally": 5, "count": 3, "drift": 2, **other}) + "\n"


# -- what is repaired, and what is told of it


def test_what_an_audit_finds_is_repaired_and_told() -> None:
    result = run("social:Post")
    assert result.exit_code == 0, result.output
    assert tallies() == ["3", "3", "3"]
    assert re.sub(r"\d+\.\d s", "N s", result.stdout).splitlines() == [
        *(f"Post.like_tally PK='POST#{name}' SK='META': 5 -> 3 by fence, writers waited N s at most" for name in NAMES),
        "3 of 4 tallies repaired in N s",
        "writers of a parent waited N s at most, N s on average",
    ]


def test_the_audit_is_of_the_target_and_as_fast_as_is_allowed(audits: list[dict[str, Any]]) -> None:
    assert run("social:Post", "--rcu-per-second", "50").exit_code == 0
    assert audits == [{"counters": ["Post.like_tally"], "workers": 1, "rcu_per_second": 50.0}]


def test_json_has_an_object_a_line_and_a_summary_at_last() -> None:
    put("POST#a", "META", likeTally={"N": "3"})
    result = run("social:Post", "--json")
    *parents, summary = map(json.loads, result.stdout.splitlines())
    assert [(one["key"]["PK"], one["status"], one["was"], one["now"], one["by"]) for one in parents] == [
        ("POST#a", "unchanged", 3, 3, "fence"),
        ("POST#b", "repaired", 5, 3, "fence"),
        ("POST#c", "repaired", 5, 3, "fence"),
    ]
    assert (summary["kind"], summary["repaired"], summary["unchanged"], summary["looked_at"]) == ("summary", 2, 1, 4)
    assert (summary["fenced"], summary["stopped"]) == (3, False)
    assert 0 <= summary["waited_mean"] <= summary["waited_max"]


def test_json_stays_on_stdout_where_stderr_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run("social:Post", "--json")
    assert [json.loads(line)["kind"] for line in result.stdout.splitlines()] == [*["parent"] * 3, "summary"]
    assert "4 tallies looked at" in result.stderr


def test_what_was_right_is_said_to_be() -> None:
    put("POST#a", "META", likeTally={"N": "3"})
    result = run("social:Post")
    assert "PK='POST#a' SK='META': 3 was right, counted anew by fence" in result.stdout
    assert "2 of 4 tallies repaired" in result.stdout and "; 1 were right already" in result.stdout


def test_a_dry_run_says_what_would_be_done_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    finds(monkeypatch, row("POST#a"), row("POST#b", "orphaned"))
    with record_requests(connection_for(Post.Meta).client) as sent:
        result = run("social:Post", "--dry-run")
    assert (result.exit_code, sent) == (0, [])
    assert "PK='POST#a' SK='META': would be repaired, 5 -> 3 by fence" in result.stdout
    assert "1 of 2 tallies would be repaired" in result.stdout


def test_what_is_left_or_failed_ends_in_1_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    put("PRODUCT#p", "META", **{"star-sum": {"N": "9"}})
    put("PRODUCT#p", "REVIEW#1", stars={"S": "five"})
    finds(monkeypatch, row("PRODUCT#p", counter="Product.star_tally"), row("POST#x", "orphaned"), row("POST#a"))
    result = run("social")
    assert result.exit_code == 1
    assert "PK='PRODUCT#p' SK='META': failed: " in result.stdout
    assert "PK='POST#x' SK='META': left: children without a parent" in result.stdout
    assert "1 of 3 tallies repaired" in result.stdout
    assert "1 left as they are\n1 could not be repaired\n" in result.stdout


def test_a_key_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    finds(monkeypatch, row("POST#\x1b[2J"))
    result = run("social:Post")
    assert "gone: " in result.stdout and "\x1b" not in result.stdout


def test_a_throttle_is_waited_for_and_said() -> None:
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(Fault.THROTTLE, Fault.THROTTLE)
        result = run("social:Post")
    assert result.exit_code == 0
    assert "tried again after ProvisionedThroughputExceededException (2)" in result.stdout


def test_a_cascade_is_swept_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
    put("ALBUM#a", "PHOTO#1")
    finds(monkeypatch, row("ALBUM#a", "closed", "Album.photo_tally"))
    left = run("social:Album")
    assert (left.exit_code, len(items("ALBUM#"))) == (1, 2)
    assert "--sweep" not in left.stderr and "finish it by a sweep" in left.stdout
    swept = run("social:Album", "--sweep")
    assert (swept.exit_code, items("ALBUM#")) == (0, {})
    assert "deleted with its children" in swept.stdout and "1 parent deleted whose cascade had begun" in swept.stdout


# -- one parent


@pytest.mark.usefixtures("marks_from_0")
class TestKey:
    def test_only_the_parent_of_that_key_is_repaired(self, audits: list[dict[str, Any]]) -> None:
        result = run("social:Post", "--key", "post_id=b")
        assert result.exit_code == 0, result.output
        assert (tallies(), audits) == (["5", "3", "5"], [])

    def test_all_its_counters_are_looked_at(self) -> None:
        put("PRODUCT#p", "META", reviewTally={"N": "1"}, count={"N": "9"}, **{"star-sum": {"N": "4"}})
        put("PRODUCT#p", "REVIEW#1", stars={"N": "4"}, hidden={"BOOL": False})
        result = run("social:Product", "--key", "product_id=p")
        assert "Product.shown_tally PK='PRODUCT#p' SK='META': 9 -> 1 by fence" in result.stdout
        assert "1 of 3 tallies repaired" in result.stdout

    def test_one_that_is_right_is_not_fenced(self) -> None:
        put("POST#a", "META", likeTally={"N": "3"})
        result = run("social:Post", "--key", "post_id=a")
        assert (result.exit_code, item("POST#a", "META")) == (0, {"likeTally": {"N": "3"}})
        assert "0 of 1 tally repaired" in result.stdout

    @pytest.mark.parametrize(
        "marks", [{"likeTally": {"S": "five"}}, {"likeTallyWas": {"N": "5"}, "likeTallyPending": {"N": "1"}}]
    )
    def test_one_that_is_unreadable_or_was_left_fenced_is_repaired(self, marks: Any) -> None:
        put("POST#a", "META", **marks)
        assert run("social:Post", "--key", "post_id=a").exit_code == 0
        assert item("POST#a", "META") == {"likeTally": {"N": "3"}, "likeTallyPending": {"N": "1"}}

    def test_one_that_never_stands_still_is_repaired_since_a_repair_can_tell(self) -> None:
        put("POST#a", "META", likeTally={"N": "99"})
        liked = iter(range(1000))

        def like(**_: Any) -> None:
            put("POST#a", f"LIKE#USER#more{next(liked)}")

        events = connection_for(Post.Meta).client.meta.events
        events.register("before-call.dynamodb.Query", like)
        try:
            result = run("social:Post", "--key", "post_id=a")
        finally:
            events.unregister("before-call.dynamodb.Query", like)
        assert result.exit_code == 0
        assert number("POST#a", "likeTally") == str(3 + next(liked))

    def test_there_must_be_such_a_parent(self) -> None:
        result = run("social:Post", "--key", "post_id=nobody")
        assert result.exit_code == 1
        assert "there is no parent PK='POST#nobody' SK='META' in table Town" in result.stderr

    def test_a_closed_one_is_swept(self) -> None:
        put("ALBUM#a", "META", photoTallyClosed={"BOOL": True})
        assert run("social:Album", "--key", "album_id=a").exit_code == 1
        assert run("social:Album", "--key", "album_id=a", "--sweep").exit_code == 0
        assert items("ALBUM#") == {}


# -- a saved audit


class TestFrom:
    def test_its_rows_are_repaired_and_no_audit_is_made(self, tmp_path: Path, audits: list[dict[str, Any]]) -> None:
        file = tmp_path / "audit.jsonl"
        file.write_text(line("POST#a") + line("POST#b", state="ok") + '{"kind": "summary"}\n')
        result = run("social:Post", "--from", str(file))
        assert result.exit_code == 0, result.output
        assert (tallies(), audits) == (["3", "5", "5"], [])

    def test_it_can_come_by_stdin(self) -> None:
        result = run("social:Post", "--from", "-", input=line("POST#a") + line("POST#c"))
        assert result.exit_code == 0, result.output
        assert tallies() == ["3", "5", "3"]

    def test_it_can_come_by_a_pipe(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(line("POST#b"),))
        writer.start()
        result = run("social:Post", "--from", str(pipe))
        writer.join()
        assert result.exit_code == 0, result.output
        assert tallies() == ["5", "3", "5"]

    @pytest.mark.parametrize(
        ("last", "said"),
        [
            ('{"kind": "par', "no JSON"),
            (line("POST#b", counter="Album.photo_tally"), "'Album.photo_tally' is none of Post.like_tally"),
            (line("USER#b"), "does not follow 'POST#{post_id}'"),
        ],
    )
    def test_a_bad_line_is_named_before_anything_is_repaired(self, tmp_path: Path, last: str, said: str) -> None:
        file = tmp_path / "audit.jsonl"
        file.write_text(line("POST#a") + last)
        result = run("social:Post", "--from", str(file))
        assert (result.exit_code, tallies()) == (2, ["5", "5", "5"])
        assert f"{file}, line 2: " in result.stderr and said in result.stderr
        assert result.stderr.count("\n") == 1


# -- the log


class TestLog:
    def test_each_repair_is_appended_with_what_was_wrong_and_what_is_right(self, tmp_path: Path) -> None:
        log = tmp_path / "repairs.jsonl"
        log.write_text("earlier\n")
        began = datetime.now(timezone.utc) - timedelta(milliseconds=1)
        assert run("social:Post", "--log", str(log)).exit_code == 0
        earlier, *lines = log.read_text().splitlines()
        assert (earlier, len(lines)) == ("earlier", 3)
        found = json.loads(lines[0])
        assert began <= datetime.fromisoformat(found.pop("when")) <= datetime.now(timezone.utc)
        assert found == {
            "model": "Post",
            "counter": "Post.like_tally",
            "key": {"PK": "POST#a", "SK": "META"},
            "status": "repaired",
            "wrong": 5,
            "right": 3,
            "means": "fence",
        }

    def test_a_line_is_out_before_the_next_parent_is_begun(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "repairs.jsonl"
        lines: list[int] = []

        def audit(*_: Any, **__: Any) -> Iterator[Audited]:
            for name in NAMES:
                lines.append(len(log.read_text().splitlines()))
                yield row(f"POST#{name}")

        monkeypatch.setattr(command, "audit", audit)
        assert run("social:Post", "--log", str(log)).exit_code == 0
        assert lines == [0, 1, 2]

    def test_what_was_not_written_is_not_in_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = tmp_path / "repairs.jsonl"
        finds(monkeypatch, row("POST#gone"), row("POST#a", "orphaned"))
        assert run("social:Post", "--log", str(log)).exit_code == 1
        assert run("social:Post", "--log", str(log), "--dry-run").exit_code == 0
        assert log.read_text() == ""


# -- stopping, asking, and wrong calls


class TestCtrlC:
    def stopped(self, monkeypatch: pytest.MonkeyPatch, presses: int, *options: str) -> Result:
        ended = []

        def audit(*_: Any, **__: Any) -> Iterator[Audited]:
            try:
                yield row("POST#a")
                for _ in range(presses):
                    signal.raise_signal(signal.SIGINT)
                yield row("POST#b")
            finally:
                ended.append(True)

        audits = audit()  # kept, so that it does not end by being forgotten
        monkeypatch.setattr(command, "audit", lambda *_, **__: audits)
        before = signal.getsignal(signal.SIGINT)
        result = run("social:Post", *options)
        assert signal.getsignal(signal.SIGINT) is before and ended == [True]
        return result

    @pytest.mark.parametrize("presses", [1, 2])
    def test_it_stops_between_two_parents_and_says_so(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, presses: int
    ) -> None:
        log = tmp_path / "repairs.jsonl"
        result = self.stopped(monkeypatch, presses, "--log", str(log))
        assert (result.exit_code, tallies()) == (1, ["3", "5", "5"])
        assert "finishing the parents at hand; Ctrl-C again to break off" in result.stderr
        assert "stopped between two parents; call it again to go on" in result.stderr
        assert "1 of 1 tally repaired" in result.stdout
        assert len(log.read_text().splitlines()) == 1

    def test_json_says_so_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        result = self.stopped(monkeypatch, 1, "--json")
        assert json.loads(result.stdout.splitlines()[-1])["stopped"] is True


@pytest.mark.real_engine
def test_ctrl_c_lets_the_parents_at_hand_be_finished_and_logged(tmp_path: Path) -> None:
    """By its own process and real threads: what was repaired is in the log, and the rest as it was."""
    for index in range(40):
        put(f"POST#many{index}", "META", likeTally={"N": "9"})
    saved, log = tmp_path / "audit.jsonl", tmp_path / "repairs.jsonl"
    saved.write_text("".join(line(f"POST#many{index}") for index in range(40)))
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    arguments = ["repair", "social:Post", "--from", str(saved), "--log", str(log)]
    child = subprocess.Popen(
        [sys.executable, "-c", "from pynacount.cli import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert "9 -> 0 by fence" in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert child.returncode == 1
    assert "stopped between two parents" in told
    logged = {json.loads(line)["key"]["PK"] for line in log.read_text().splitlines()}
    repaired = {f"POST#many{index}" for index in range(40) if number(f"POST#many{index}", "likeTally") == "0"}
    left = {f"POST#many{index}" for index in range(40) if number(f"POST#many{index}", "likeTally") == "9"}
    assert logged == repaired and len(repaired) + len(left) == 40 and 1 <= len(repaired) < 40


@pytest.mark.parametrize(("answer", "exit_code"), [("n\n", 1), ("y\n", 0)])
def test_on_a_terminal_it_asks_first(monkeypatch: pytest.MonkeyPatch, answer: str, exit_code: int) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda self: True, raising=False)
    result = run("social:Post", "--sweep", input=answer)
    assert "Repair Post.like_tally in the table Town, and delete what a cascade began to delete?" in result.output
    assert result.exit_code == exit_code
    assert tallies() == (["5"] * 3 if exit_code else ["3"] * 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["social:Nothing"], "Nothing"),
        (["no_such_module"], "no_such_module"),
        (["social", "--key", "post_id=a"], "has several counted models"),
        (["social:Post", "--key", "post_id"], "name=value"),
        (["social:Post", "--key", "album_id=a"], "no key variable of Post"),
        (["social:Post", "--key", "post_id=a#b"], "contains '#'"),
        (["social:Post", "--key", "post_id=a", "--from", "-"], "give one of them"),
        (["social:Post", "--from", "nowhere.jsonl"], "nowhere.jsonl"),
        (["social:Post", "--log", "nowhere/repairs.jsonl"], "nowhere/repairs.jsonl"),
    ],
)
def test_a_wrong_call_ends_in_2_with_the_way_out(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output and tallies() == ["5", "5", "5"]


def test_no_rights_are_told_in_one_line() -> None:
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next_error("AccessDeniedException", "no", operation="UpdateItem")
        result = run("social:Post")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "allow it to these credentials" in result.stderr


def test_where_nobody_answers_a_repair_ends_at_once_and_does_not_go_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pynacount.tallies.repairing.PATIENCE", 0.05)
    monkeypatch.setattr(Post.Meta, "counted_deadline", 0.05)
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(*[Fault.REFUSED_CONNECTION] * 100_000)
        result = run("social:Post", "--from", "-", input="".join(line(f"POST#{name}") for name in NAMES))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), result.output
    assert "AWS_ENDPOINT_URL_DYNAMODB" in result.stderr
