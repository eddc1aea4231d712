"""``pynacount audit``: what a person and a program read of it, its page, its exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pynacount.commands import audit as command
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Post, items, put


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tables(*ALL)
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    for post, tally, likes in (("a", "2", 2), ("b", "5", 3), ("c", "1", 2)):
        put(f"POST#{post}", "META", createdAt={"N": "1"}, likeTally={"N": tally})
        for index in range(likes):
            put(f"POST#{post}", f"LIKE#USER#{index}")


def mend() -> None:
    put("POST#b", "META", createdAt={"N": "1"}, likeTally={"N": "3"})
    put("POST#c", "META", createdAt={"N": "1"}, likeTally={"N": "2"})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["audit", *arguments, "--workers", "1"])


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_those_that_are_wrong_are_in_a_table_and_the_status_is_1() -> None:
    result = run("social:Post.like_tally")
    assert result.exit_code == 1
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["state", "tally", "count", "drift", "counter", "and", "key"]
    assert sorted(line.split() for line in rows[:2]) == [
        ["drifted", "1", "2", "-1", "Post.like_tally", "PK='POST#c'", "SK='META'"],
        ["drifted", "5", "3", "+2", "Post.like_tally", "PK='POST#b'", "SK='META'"],
    ]
    assert rows[2] == "3 tallies audited: 1 ok, 2 drifted"
    assert "10 items read" in rows[3]
    assert rows[-1] == "mend them: pynacount repair social:Post.like_tally"


def test_where_nothing_is_wrong_the_status_is_0() -> None:
    mend()
    result = run("social:Post.like_tally")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "3 tallies audited: 3 ok")


def test_an_unseeded_parent_is_named_and_is_nothing_wrong() -> None:
    mend()
    put("POST#new", "META", createdAt={"N": "1"})
    result = run("social:Post.like_tally")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:4] == ["unseeded", "-", "0", "-"]
    assert "seed them: pynacount migrate social:Post.like_tally" in result.stdout


def test_all_prints_those_that_are_ok_too() -> None:
    assert "ok " in run("social:Post.like_tally", "--all").stdout


def test_json_is_one_object_for_each_and_a_summary() -> None:
    result = run("social:Post.like_tally", "--json", "--all")
    *found, summary = lines(result)
    assert result.exit_code == 1
    assert {line["key"]["PK"]: (line["state"], line["tally"], line["count"], line["drift"]) for line in found} == {
        "POST#a": ("ok", 2, 2, 0),
        "POST#b": ("drifted", 5, 3, 2),
        "POST#c": ("drifted", 1, 2, -1),
    }
    assert (summary["kind"], summary["tallies"], summary["drifted"], summary["wrong"]) == ("summary", 3, 2, 2)


def test_one_parent_is_audited_by_its_key() -> None:
    good, bad = (run("social:Post.like_tally", "--key", f"post_id={post}") for post in "ab")
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert "ok " in good.stdout
    assert "drifted" in bad.stdout


def test_a_key_that_is_not_there_is_said_in_one_line() -> None:
    result = run("social:Post.like_tally", "--key", "post_id=none")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "there is no parent PK='POST#none'" in result.stderr


def test_a_sample_is_so_many_parents() -> None:
    *_, summary = lines(run("social:Post.like_tally", "--json", "--sample", "2"))
    assert summary["tallies"] == 2


def test_machines_share_a_table_by_segments() -> None:
    found = [lines(run("social:Post.like_tally", "--json", "--all", "--segment", part))[:-1] for part in ("1/2", "2/2")]
    assert {line["key"]["PK"] for one in found for line in one} == {"POST#a", "POST#b", "POST#c"}


def test_the_page_has_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    result = run("social:Post.like_tally", "--html", str(path))
    page = path.read_text()
    assert f"the page is in {path}" in result.stdout
    assert "2 of 3 tallies have drifted" in page
    assert "all parents" in page
    assert "POST#b" in page


@pytest.mark.parametrize("place", ["none/audit.html", "."])
def test_a_page_that_cannot_be_written_is_said_before_anything_is_read(tmp_path: Path, place: str) -> None:
    with record_requests(connection_for(Post.Meta).client) as sent:
        result = run("social:Post.like_tally", "--html", str(tmp_path / place))
    assert (result.exit_code, sent) == (2, [])
    assert "'--html'" in result.stderr and "Traceback" not in result.output


def test_a_throttle_is_waited_for_and_said() -> None:
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(Fault.THROTTLE, Fault.THROTTLE)
        result = run("social:Post.like_tally")
    assert "tried again after ProvisionedThroughputExceededException (2)" in result.stdout


def test_nothing_is_written() -> None:
    before = items()
    run("social:Post")
    assert items() == before


def test_ctrl_c_tells_what_was_found_till_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    audit, closed = command.audit, []

    def interrupted(*args: Any, **options: Any) -> Any:
        try:
            yield next(audit(*args, **options))
            raise KeyboardInterrupt
        finally:
            closed.append(True)

    monkeypatch.setattr(command, "audit", interrupted)
    result = run("social:Post.like_tally", "--html", str(tmp_path / "a.html"))
    assert (result.exit_code, closed) == (1, [True])
    assert "1 tally audited" in result.stdout
    assert "stopped before its end: this is no proof that the rest is right" in result.stdout
    assert "Stopped before its end" in (tmp_path / "a.html").read_text("utf-8")
    assert "stopped; the rest was not looked at" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["social:Nothing"], "Nothing"),
        (["no_such_module"], "no_such_module"),
        (["social:Post", "--sample", "0"], "sample"),
        (["social:Post", "--rcu-per-second", "nan"], "'nan' is no number"),
        (["social:Post", "--segment", "3/2"], "write I/N"),
        (["social:Post", "--segment", "1/2", "--segments", "3"], "contradict"),
        (["social:Post", "--key", "post_id=a", "--sample", "3"], "--key names one parent"),
        (["social:Post", "--sample", "3", "--segment", "1/2"], "chooses its segments"),
        (["social:Post", "--key", "post_id"], "name=value"),
        (["social:Post", "--key", "user_id=3"], "no key variable of Post"),
        (["social", "--key", "post_id=a"], "several counted models"),
    ],
)
def test_a_wrong_call_ends_in_2_with_the_way_out(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
