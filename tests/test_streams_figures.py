"""The figures that `pynacount migrate` gives of counters kept from a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import files
from files import Event, FileCount, raw
from pynacount.commands import group
from pynacount.connections import connection_for
from pynacount.streams import migrate
from pynacount.tallies import Tracking
from pynacount.testing import record_requests

FILES = {"a": 3, "b": 7}


@pytest.fixture(autouse=True)
def _files(tables: Callable[..., None]) -> None:
    tables(*files.ALL)
    for name, events in FILES.items():
        for number in range(events):
            Event(file_name=name, event_id=str(number)).save()
        raw().put_item(TableName="FileCounts", Item={"fileName": {"S": name}})


def run(*options: str) -> dict[str, Any]:
    done = CliRunner().invoke(group, ["migrate", "files:FileCount.count", "--json", *options])
    assert done.exit_code == 0, done.output
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return summary


def set_tallies() -> None:
    for name, events in FILES.items():
        raw().put_item(TableName="FileCounts", Item={"fileName": {"S": name}, "count": {"N": str(events)}})


def test_a_dry_run_counts_what_a_run_would_and_writes_nothing() -> None:
    with record_requests(connection_for(Event.Meta).client) as sent:
        summary = run("--dry-run")
    assert (summary["planned"], summary["counted"], summary["present"]) == (2, 10, 0)
    assert {operation for operation, _ in sent} == {"DescribeTable", "Scan", "Query"}
    assert summary["write_units"] == 0


def test_what_is_read_is_what_the_scans_and_the_counts_read() -> None:
    summary = run("--dry-run")
    assert summary["items"] == 2 + 10 + 10  # the parents, the children, and those once more, to be counted
    assert (summary["pages"], summary["read_units"] > 0) == (4, True)


def test_parents_that_have_their_tally_are_told() -> None:
    set_tallies()
    summary = run("--dry-run")
    assert (summary["planned"], summary["present"]) == (0, 2)
    assert run("--dry-run", "--anew")["planned"] == 2


def test_requests_of_others_are_not_in_the_figures() -> None:
    track = Tracking()
    passing = migrate([FileCount.count], tracking=track, dry_run=True)
    next(passing)
    before = (track.items, track.read_units)
    client = connection_for(Event.Meta).client
    with record_requests(client) as sent:
        client.scan(TableName="Events")
    assert (track.items, track.read_units) == before != (0, 0)
    assert list(passing)
    client.scan(TableName="Events")
    assert track.items == 22
    assert all("ReturnConsumedCapacity" not in request for _, request in sent)


@pytest.mark.real_engine
def test_a_run_tells_what_it_read_and_wrote() -> None:
    set_tallies()
    for number in range(4):
        Event(file_name="c", event_id=str(number)).save()
    summary = run()
    assert (summary["seeded"], summary["counted"], summary["present"]) == (1, 4, 2)
    assert summary["write_units"] == 3  # the fence, its end, and the tally
    assert summary["items"] > 2 + 14 and summary["dollars"] > 0
