"""The rules of docs/design.md, by every interleaving of the library's own steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from pynacount.steps import Send

from . import elsewhere, many, repairs, scenarios
from .explorer import Report, explore
from .mutations import Guard, all_guards, take_out, without
from .scenarios import Scenario

SCENARIOS = (*scenarios.SCENARIOS, *repairs.SCENARIOS, *elsewhere.SCENARIOS, *many.SCENARIOS)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@cache
def search(scenario: Scenario) -> Report:
    """The whole search, with every guard in place."""
    return run(scenario)


def run(scenario: Scenario, mutate: Callable[[Send], Send] | None = None, *, heed_waits: bool = True) -> Report:
    return explore(
        scenario.actors,
        scenario.store,
        scenario.invariant,
        crashes=scenario.crashes,
        lost_responses=scenario.lost_responses,
        mutate=mutate,
        heed_waits=heed_waits,
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_in_every_order_the_tally_is_the_count_and_every_caller_is_told_the_truth(scenario: Scenario) -> None:
    report = search(scenario)
    assert report.violation is None, str(report.violation)
    assert report.quiescent > 0


def kind_of(guard: Guard) -> tuple[str, str, str]:
    """One guard of the protocol: the same one on every family of models, and wherever it stands in the request."""
    action, text = (
        re.sub(r"(like|reply|view|use|vote|mark|note|seat)Tally", "tally", part) for part in (guard.action, guard.text)
    )
    return f"{guard.operation} {guard.kind}", action, text


def guards_of_the_library() -> dict[tuple[str, str, str], list[tuple[Guard, Scenario]]]:
    """Every guard that the library sent in any scenario, and where."""
    found: dict[tuple[str, str, str], list[tuple[Guard, Scenario]]] = {}
    for scenario in SCENARIOS:
        for guard in all_guards(search(scenario).sends):
            found.setdefault(kind_of(guard), []).append((guard, scenario))
    return found


GUARDS = guards_of_the_library()


@pytest.mark.parametrize("kind", GUARDS, ids=" ".join)
def test_without_any_one_guard_some_order_of_steps_goes_wrong(kind: tuple[str, str, str]) -> None:
    assert any(run(scenario, without(guard)).violation is not None for guard, scenario in GUARDS[kind]), (
        f"no scenario needs it: {[scenario.name for _, scenario in GUARDS[kind]]}"
    )


def test_seeding_over_a_tally_that_came_meanwhile_goes_wrong() -> None:
    scenario = BY_NAME["two writers and a seeder, on a post that was never seeded"]
    assert run(scenario, take_out("attribute_not_exists(likeTally)")).violation is not None


@pytest.mark.parametrize(
    ("name", "guard"),
    [
        (
            "a scan of notes beside a backfill, of an author that was never seeded",
            "attribute_not_exists(noteTallyPending)",
        ),
        ("two scans of notes beside a second backfill and one added", "noteTallyPending = ?"),
        ("two scans of notes beside a second backfill and one added", "attribute_not_exists(noteTally)"),
    ],
)
def test_a_scan_of_children_whose_number_is_set_whatever_came_meanwhile_goes_wrong(name: str, guard: str) -> None:
    assert run(BY_NAME[name], take_out(guard, operation="UpdateItem")).violation is not None


def test_a_scan_of_children_that_begins_before_the_parent_is_recorded_goes_wrong() -> None:
    scenario = BY_NAME["a scan of notes beside a backfill, of an author that was never seeded"]
    actors = {**scenario.actors, "migrate": elsewhere.migrates("a", "b", scans_first=True)}
    assert run(replace(scenario, actors=actors)).violation is not None


def test_a_cascade_that_does_not_close_the_parent_first_goes_wrong() -> None:
    scenario = BY_NAME["a thread deleted with its replies, while one is added and one removed"]

    def leave_open(send: Send) -> Send:
        expression = send.request.get("UpdateExpression", "")
        if "replyTallyClosed" not in expression:
            return send
        return Send(send.operation, {**send.request, "UpdateExpression": expression.replace(" REMOVE replyTally", "")})

    assert run(scenario, leave_open).violation is not None


@pytest.mark.parametrize(
    "name",
    [
        "a thread deleted with its replies, while one is added and one removed",
        "a backfill beside a seeder",
        "a repair beside a like and an unlike",
        "a repair by revision beside a vote and a vote taken back",
        "two likes that are deferred, beside a seeder",
        "a scan of notes beside a backfill and one added, of an author that is seeded",
    ],
)
def test_without_letting_transactions_settle_it_goes_wrong(name: str) -> None:
    assert run(BY_NAME[name], heed_waits=False).violation is not None
