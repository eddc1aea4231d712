"""``pynacount migrate``: what it prints, and the exit status that it ends with."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pynacount.commands import group
from pynacount.commands import migrate as command
from pynacount.commands.eta import expected_items
from pynacount.connections import connection_for
from pynacount.tallies.prices import Prices
from pynacount.testing import Fault, FaultInjector, record_requests
from social import ALL, Post, items, number, put


@pytest.fixture(autouse=True)
def social(tables: Callable[..., None]) -> None:
    tables(*ALL)
    for post, likes in {"a": 0, "b": 2, "c": 3}.items():
        put(f"POST#{post}", "META", createdAt={"N": "1"})
        for index in range(likes):
            put(f"POST#{post}", f"LIKE#USER#{index}")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, ["migrate", *arguments])


def tallies() -> list[str | None]:
    return [number(f"POST#{post}", "likeTally") for post in "abc"]


def test_it_seeds_all_and_says_so() -> None:
    result = run("social:Post.like_tally", "--workers", "1")
    assert result.exit_code == 0, result.output
    assert tallies() == ["0", "2", "3"]
    first, second = result.stdout.splitlines()
    assert first == "3 tallies seeded, counting 5; 0 there already"
    assert second.startswith("8 items read in ") and "3 write units, about $0.00 on demand" in second


def test_several_counters_go_in_one_pass() -> None:
    put("PRODUCT#p", "META")
    with record_requests(connection_for(Post.Meta).client) as sent:
        result = run("social:Product", "--workers", "1", "--json")
    assert result.exit_code == 0, result.output
    counters = {json.loads(line)["counter"] for line in result.stdout.splitlines()[:-1]}
    assert counters == {"Product.review_tally", "Product.shown_tally", "Product.star_tally"}
    assert [operation for operation, _ in sent].count("Scan") == 1


def test_json_has_an_object_a_line_and_a_summary_at_last() -> None:
    result = run("social:Post.like_tally", "--workers", "1", "--json")
    *parents, summary = map(json.loads, result.stdout.splitlines())
    assert {(one["key"]["PK"], one["status"], one["tally"]) for one in parents} == {
        ("POST#a", "seeded", 0),
        ("POST#b", "seeded", 2),
        ("POST#c", "seeded", 3),
    }
    assert (summary["kind"], summary["seeded"], summary["failed"], summary["counted"]) == ("summary", 3, 0, 5)


def test_a_dry_run_counts_and_writes_nothing() -> None:
    before = items()
    result = run("social:Post.like_tally", "--workers", "1", "--dry-run", "--write-price", "1000000")
    assert result.exit_code == 0
    assert "3 tallies would be seeded, counting 5" in result.stdout
    assert "about $3." in result.stdout
    assert "the run itself would take about" in result.stdout
    assert items() == before


def test_what_cannot_be_seeded_is_named_and_the_rest_goes_on() -> None:
    for name, stars in (("p", {"S": "five"}), ("q", {"N": "5"})):
        put(f"PRODUCT#{name}", "META")
        put(f"PRODUCT#{name}", "REVIEW#1", stars=stars)
    result = run("social:Product.star_tally", "--workers", "1")
    assert result.exit_code == 1
    assert "Product.star_tally PK='PRODUCT#p' SK='META': failed" in " ".join(result.stdout.split())
    assert "1 could not be seeded, and are left without a tally" in result.stdout
    assert number("PRODUCT#q", "star-sum") == "5"


def test_machines_share_a_table_by_segments() -> None:
    for part in ("1/2", "2/2"):
        assert run("social:Post.like_tally", "--segment", part).exit_code == 0
    assert tallies() == ["0", "2", "3"]


def test_a_state_file_is_gone_on_from_and_belongs_to_one_pass(tmp_path: Path) -> None:
    state = str(tmp_path / "seeding.db")
    assert run("social:Post.like_tally", "--workers", "1", "--state", state).exit_code == 0
    again = run("social:Post.like_tally", "--workers", "1", "--state", state)
    assert "0 items read" in again.stdout
    other = run("social:Post.like_tally", "--workers", "2", "--state", state)
    assert (other.exit_code, other.stderr.count("\n")) == (2, 1)
    assert "is the state of another pass" in other.stderr


def test_a_throttle_is_waited_for_and_said() -> None:
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(Fault.THROTTLE, Fault.THROTTLE)
        result = run("social:Post.like_tally", "--workers", "1")
    assert result.exit_code == 0
    assert "tried again after ProvisionedThroughputExceededException (2)" in result.stdout
    assert tallies() == ["0", "2", "3"]


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def interrupted(*_: Any, **__: Any) -> Any:
        try:
            raise KeyboardInterrupt
            yield
        finally:
            closed.append(True)

    monkeypatch.setattr(command, "migrate", interrupted)
    result = run("social:Post", "--state", "seeding.db")
    assert (result.exit_code, closed) == (1, [True])
    assert "stopped between two parents; call it again with --state seeding.db" in result.stderr
    summary = json.loads(run("social:Post", "--json").stdout)
    assert (summary["kind"], summary["stopped"]) == ("summary", True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["social:Post", "--segment", "3/2"], "write I/N"),
        (["social:Post", "--segment", "x"], "write I/N"),
        (["social:Post", "--segment", "1/2", "--segments", "3"], "contradict"),
        (["social:Nothing"], "Nothing"),
        (["no_such_module"], "no_such_module"),
        (["social:Post", "--workers", "0"], "workers"),
        (["social:Post", "--limit", "0"], "limit"),
    ],
)
def test_a_wrong_call_ends_in_2_with_the_way_out(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_what_is_written_slowly_is_reckoned_with() -> None:
    report = command.Report(Prices(), dry_run=True, workers=2, wcu_per_second=10)
    report.statuses["planned"] = 5000
    assert report.estimate(3.0) == 503.0
    report.wcu_per_second = None
    assert report.estimate(3.0) == pytest.approx(3.0 + 200 * command.STATEMENTS_TAKE / 2)


def test_the_line_of_progress_says_how_far_it_is_and_how_long_it_will_take() -> None:
    report = command.Report(Prices(), dry_run=False, expected=1000)
    report.began -= 10
    report.tracking.items = 250
    assert re.search(r"0 parents, 250 items \(25 a second\), .*, about 30 s left$", report.line())


def test_items_are_expected_where_dynamodb_says_how_many_there_are() -> None:
    assert expected_items([Post.like_tally], None) == 8
    assert expected_items([Post.like_tally], (0, 2)) == 4
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next_error("AccessDeniedException", "no", operation="DescribeTable")
        assert expected_items([Post.like_tally], None) is None


def test_an_endpoint_that_never_answers_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynacount.commit.time.sleep", lambda _: None)
    monkeypatch.setattr("pynacount.tallies.scanning.deadline_of", lambda _: 0.05)
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(*[Fault.REFUSED_CONNECTION] * 100_000, operation="Scan")
        result = run("social:Post.like_tally", "--workers", "1")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "scan of Town: no answer came within" in result.stderr and "AWS_ENDPOINT_URL_DYNAMODB" in result.stderr


def test_a_table_that_is_throttled_from_the_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynacount.commit.time.sleep", lambda _: None)
    monkeypatch.setattr("pynacount.tallies.scanning.deadline_of", lambda _: 0.05)
    with FaultInjector(connection_for(Post.Meta).client) as injector:
        injector.next(*[Fault.THROTTLE] * 50, operation="Scan")
        assert run("social:Post.like_tally", "--workers", "1").exit_code == 0
    assert tallies() == ["0", "2", "3"]


@pytest.mark.parametrize("option", ["--read-price", "--write-price", "--rcu-per-second"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_what_is_no_price_and_no_rate_is_refused(option: str, value: str) -> None:
    result = run("social:Post.like_tally", option, value)
    assert result.exit_code == 2
    assert f"Invalid value for '{option}'" in result.stderr
