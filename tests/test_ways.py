"""What commands advise to do about a tally is what the library does with its counter."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import files
from behind import raw
from files import FileCount, NameCount, Post
from pynacount.commands import group
from pynacount.contrib.overview import overview, way_to_mend_one
from pynacount.errors import CounterNotSeeded
from pynacount.fields import CounterField
from pynacount.tallies import Audited
from pynacount.ways import way_to_mend, way_to_seed


@pytest.fixture(autouse=True)
def _tables(tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    tables(*files.ALL)
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    monkeypatch.setattr("pynacount.tallies.auditing_elsewhere.time.sleep", lambda seconds: None)


def put(table: str, **item: Any) -> None:
    raw().put_item(TableName=table, Item={name: files.wire(value) for name, value in item.items()})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(group, [*arguments], prog_name="pynacount")


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def in_one_line(result: Result) -> str:
    return " ".join(result.output.split())


def drifted_post() -> None:
    put("Board", PK="POST#1", SK="META", likeTally=5)
    put("Board", PK="POST#1", SK="LIKE#ada")


def drifted_name() -> None:
    put("NameCounts", name="NAME#a", uploads=5)
    put("Uploads", upload_id="1", fileName="a")


def test_a_streams_counter_that_drifted_is_mended_by_counting_it_anew(tmp_path: Path) -> None:
    drifted_post()
    way = "mend them: pynacount migrate files:Post.like_tally --anew"
    assert run("audit", "files:Post").stdout.splitlines()[-1] == way
    assert lines(run("audit", "files:Post", "--json"))[-1]["ways_out"] == [way]
    run("audit", "files:Post", "--html", str(tmp_path / "page.html"))
    assert way in (tmp_path / "page.html").read_text()
    assert "looks: pynacount migrate files:Post.like_tally --anew" in in_one_line(
        run("inspect", "files:Post", "post_id=1")
    )


def test_the_command_that_is_advised_takes_the_counter() -> None:
    for counter in (Post.like_tally, FileCount.count, NameCount.uploads):
        for way in (way_to_mend(counter), way_to_seed(counter)):
            if way.command:
                done = run(*shlex.split(way.command)[1:], "--dry-run")
                assert done.exit_code == 0, done.output


def test_nothing_is_advised_that_is_refused_for_a_counter_by_markers() -> None:
    drifted_name()
    audited = run("audit", "files:NameCount")
    assert audited.exit_code == 1
    assert "pynacount migrate files:NameCount.uploads --anew" in in_one_line(audited)
    assert "repair" not in audited.output
    inspected = run("inspect", "files:NameCount", "file_name=a")
    assert "migrate" not in inspected.output
    assert "pynacount audit files:NameCount.uploads" in in_one_line(inspected)


def test_a_streams_tally_that_is_absent_is_seeded_by_migrate() -> None:
    put("Board", PK="POST#1", SK="META")
    assert run("audit", "files:Post").stdout.splitlines()[-1] == "seed them: pynacount migrate files:Post"
    assert "never counted: pynacount migrate files:Post.like_tally" in in_one_line(
        run("inspect", "files:Post", "post_id=1")
    )


@pytest.mark.parametrize("mark", [{"likeTally": "no number"}, {"likeTallyWas": 3}])
def test_no_row_of_a_streams_counter_speaks_of_a_repair(mark: dict[str, Any]) -> None:
    put("Board", PK="POST#1", SK="META", **mark)
    for command in (("audit", "files:Post"), ("inspect", "files:Post", "post_id=1")):
        assert "repair" not in run(*command).output.replace("repairing", "")
    assert "migrate files:Post.like_tally --anew" in run("audit", "files:Post").output


def test_a_page_of_counters_advises_the_same() -> None:
    drifted_post()
    (found,) = overview([Post.like_tally], program="manage.py tallies")
    assert found.wrong
    row = next(one for one in found.rows if isinstance(one, Audited))
    for way in (found.mend, way_to_mend_one(Post.like_tally, row, "manage.py tallies")):
        assert way.said == "manage.py tallies migrate files:Post.like_tally --anew"


# -- a tally that was not counted


def test_an_inspection_that_did_not_count_does_not_say_that_there_is_no_drift() -> None:
    drifted_name()
    done = run("inspect", "files:NameCount", "file_name=a")
    assert (done.exit_code, "No drift" in done.output) == (1, False)
    assert done.output.splitlines()[-1] == "Not told: NameCount.uploads"
    found = lines(run("inspect", "files:NameCount", "file_name=a", "--json"))
    tally = next(line for line in found if line["type"] == "tally")
    assert (tally["verdict"], tally["tally"], tally["count"]) == ("unknown", 5, None)
    assert (found[-1]["clean"], found[-1]["unknown"], found[-1]["wrong"]) == (False, ["NameCount.uploads"], [])


def test_an_absent_tally_that_counts_as_0_is_not_known_without_a_count_either() -> None:
    put("NameCounts", name="NAME#a")
    tally = lines(run("inspect", "files:NameCount", "file_name=a", "--json"))[1]
    assert (tally["state"], tally["verdict"]) == ("zero", "unknown")


def test_an_absent_tally_that_counts_as_0_is_zero_where_there_are_no_children() -> None:
    put("FileCounts", fileName="a", size=0)
    found = lines(run("inspect", "files:FileCount.count", "file_name=a", "--json"))
    assert (found[1]["verdict"], found[-1]["clean"]) == ("zero", True)


def test_a_count_that_only_a_scan_makes_does_not_advise_what_is_refused() -> None:
    counter: CounterField = NameCount.uploads
    put("NameCounts", name="NAME#a")
    with pytest.raises(CounterNotSeeded) as refused:
        NameCount._counting.recount(counter.tally, NameCount._counting.key_of(NameCount.ref(file_name="a")))
    assert "pynacount audit files:NameCount.uploads" in str(refused.value)
    assert "migrate" not in str(refused.value)


def test_the_price_of_a_streams_child_is_that_of_one_plain_write() -> None:
    drifted_post()
    said = "costs 1 WCU: one plain write, by the sizes of what is stored. The consumer of the stream writes apart"
    assert said in in_one_line(run("inspect", "files:Post", "post_id=1"))
    price = next(line for line in lines(run("inspect", "files:Post", "post_id=1", "--json")) if line["type"] == "price")
    assert (price["wcu"], price["operation"], price["streamed"]) == (1, "PutItem", True)
