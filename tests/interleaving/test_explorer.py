"""The search finds what is there to be found, on toy protocols whose faults are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pynamodb.exceptions import PynamoDBException

from pynacount.steps import Protocol, Refusal, Send, Wait

from .explorer import NotDeterministic, Report, SearchLimit, explore
from .mutations import all_guards, take_out, without
from .store import Store

TABLE = "T"
POST = {"PK": {"S": "P"}, "SK": {"S": "META"}}
ONE = {":one": {"N": "1"}}


class Refused(PynamoDBException):
    """The toys' own answered error."""


def like_key(user: str) -> dict[str, dict[str, str]]:
    return {"PK": {"S": "P"}, "SK": {"S": f"LIKE#{user}"}}


def table(tally: int | None = 0, likes: tuple[str, ...] = ()) -> Store:
    post: dict[str, dict[str, str]] = {**POST, **({"tally": {"N": str(tally)}} if tally is not None else {})}
    return Store.of({TABLE: ("PK", "SK")}, {TABLE: [post, *map(like_key, likes)]})


def tally_of(store: Store) -> int | None:
    return store.number("tally", TABLE, "P", "META")


def count_of(store: Store) -> int:
    return len(store.items(TABLE, "P", "LIKE#"))


def read() -> Protocol[int]:
    answer = yield Send("GetItem", {"TableName": TABLE, "Key": POST, "ConsistentRead": True})
    assert not isinstance(answer, Refusal)
    return int(answer["Item"]["tally"]["N"])


def write(value: int, condition: str = "", **values: dict[str, str]) -> Send:
    request = {
        "TableName": TABLE,
        "Key": POST,
        "UpdateExpression": "SET tally = :new",
        "ExpressionAttributeValues": {":new": {"N": str(value)}, **{f":{name}": held for name, held in values.items()}},
    }
    return Send("UpdateItem", {**request, **({"ConditionExpression": condition} if condition else {})})


def careless_increment() -> Protocol[int]:
    now = yield from read()
    yield write(now + 1)
    return now + 1


def conditional_increment() -> Protocol[int]:
    while True:
        now = yield from read()
        answer = yield write(now + 1, "tally = :old", old={"N": str(now)})
        if not isinstance(answer, Refusal):
            return now + 1


def atomic_increment() -> Protocol[None]:
    yield Send(
        "UpdateItem",
        {"TableName": TABLE, "Key": POST, "UpdateExpression": "ADD tally :one", "ExpressionAttributeValues": ONE},
    )


def transaction(user: str, kind: str = "Put", guard: str = "attribute_exists(tally)", once: bool = True) -> Send:
    child: dict[str, Any] = {"Item": like_key(user)} if kind == "Put" else {"Key": like_key(user)}
    if once:
        child["ConditionExpression"] = "attribute_not_exists(SK)" if kind == "Put" else "attribute_exists(SK)"
    update: dict[str, Any] = {
        "Key": POST,
        "UpdateExpression": "ADD tally :by",
        "ExpressionAttributeValues": {":by": {"N": "1" if kind == "Put" else "-1"}},
        **({"ConditionExpression": guard} if guard else {}),
    }
    writes = [{kind: {"TableName": TABLE, **child}}, {"Update": {"TableName": TABLE, **update}}]
    return Send("TransactWriteItems", {"TransactItems": writes})


def like(user: str, **options: Any) -> Callable[[], Protocol[bool]]:
    def protocol() -> Protocol[bool]:
        answer = yield transaction(user, **options)
        if not isinstance(answer, Refusal):
            return True
        if answer.reasons[1] is not None:
            raise Refused("not seeded")
        return False

    return protocol


def like_in_two_writes() -> Protocol[None]:
    yield Send("PutItem", {"TableName": TABLE, "Item": like_key("u")})
    yield from atomic_increment()


def count() -> Protocol[int]:
    total = 0
    start: dict[str, Any] = {}
    while True:
        page = yield Send(
            "Query",
            {
                "TableName": TABLE,
                "Select": "COUNT",
                "KeyConditionExpression": "PK = :pk AND begins_with(SK, :like)",
                "ExpressionAttributeValues": {":pk": {"S": "P"}, ":like": {"S": "LIKE#"}},
                **start,
            },
        )
        assert not isinstance(page, Refusal)
        total += int(page["Count"])
        if "LastEvaluatedKey" not in page:
            return total
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def fence_and_seed(settle: float) -> Callable[[], Protocol[None]]:
    def protocol() -> Protocol[None]:
        yield Send("UpdateItem", {"TableName": TABLE, "Key": POST, "UpdateExpression": "REMOVE tally"})
        if settle:
            yield Wait(settle)
        total = yield from count()
        yield write(total, "attribute_not_exists(tally)")

    return protocol


def seed() -> Protocol[int]:
    total = yield from count()
    yield write(total, "attribute_not_exists(tally) AND attribute_exists(PK)")
    return total


def exact(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
    """A tally that is present equals the count."""
    tally, real = tally_of(store), count_of(store)
    return None if tally in (None, real) else f"tally {tally}, count {real}"


def all_counted(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
    """Every increment that was answered is in the number, and none is in it twice."""
    tally = tally_of(store) or 0
    if len(results) <= tally <= len(results) + len(crashed):
        return None
    return f"tally {tally} after {len(results)} increments and {len(crashed)} crashes"


def holds(report: Report) -> None:
    assert report.violation is None, str(report.violation)
    assert report.quiescent > 0


def fails(report: Report, kind: str = "invariant") -> str:
    assert report.violation is not None
    assert report.violation.kind == kind, str(report.violation)
    return str(report.violation)


def test_a_read_modify_write_loses_an_update() -> None:
    actors = {"a": careless_increment, "b": careless_increment}
    report = explore(actors, table(), all_counted, crashes=0, lost_responses=0)
    told = fails(report)
    assert "tally 1 after 2 increments" in told
    assert report.violation is not None
    assert [event.actor for event in report.violation.trace] == ["a", "b", "a", "b"]


def test_a_conditional_write_loses_none() -> None:
    actors = dict.fromkeys("abc", conditional_increment)
    holds(explore(actors, table(), all_counted, crashes=1, lost_responses=0))


def test_a_guard_taken_out_brings_the_lost_update_back() -> None:
    actors = {"a": conditional_increment, "b": conditional_increment}
    fails(explore(actors, table(), all_counted, lost_responses=0, mutate=take_out("tally = ?")))


def test_two_writes_where_one_is_needed_are_found_by_a_crash_alone() -> None:
    actors = {"a": like_in_two_writes}
    holds(explore(actors, table(), exact, crashes=0, lost_responses=0))
    assert "a crashes" in fails(explore(actors, table(), exact, crashes=1, lost_responses=0))


def test_an_increment_without_a_token_counts_twice_when_its_response_is_lost() -> None:
    actors = {"a": atomic_increment}
    holds(explore(actors, table(), all_counted, lost_responses=0))
    assert "gets no answer" in fails(explore(actors, table(), all_counted, lost_responses=1))


def test_a_transaction_under_one_token_counts_once_and_says_so() -> None:
    def answered(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        told = crashed or results["a"] is True
        return exact(store, results, crashed) or (None if told else f"{results}")

    holds(explore({"a": like("u")}, table(), answered, lost_responses=2))


def test_a_count_after_a_fence_misses_what_is_not_visible_yet() -> None:
    told = fails(explore({"liker": like("u"), "repair": fence_and_seed(0)}, table(), exact, crashes=0))
    assert "(table) shows T P LIKE#u" in told


def test_waiting_before_the_count_cures_it() -> None:
    actors = {"liker": like("u"), "unliker": like("v", kind="Delete"), "repair": fence_and_seed(1)}
    holds(explore(actors, table(1, ("v",)), exact))
    fails(explore(actors, table(1, ("v",)), exact, heed_waits=False))


def test_a_writer_comes_between_two_pages_of_a_count() -> None:
    def unguarded(store: Store) -> Report:
        actors = {"liker": like("a", guard=""), "seeder": seed}
        return explore(actors, store, exact, crashes=0, lost_responses=0)

    fails(unguarded(table(None, ("b",))))
    holds(explore({"liker": like("a"), "seeder": seed}, table(None, ("b",)), exact))


def test_an_error_of_the_library_is_an_answer_and_any_other_is_a_violation() -> None:
    seen: list[object] = []

    def collect(store: Store, results: Mapping[str, Any], crashed: frozenset[str]) -> str | None:
        seen.extend(map(type, results.values()))
        return None

    holds(explore({"a": like("u")}, table(None), collect, crashes=0))
    assert set(seen) == {Refused}

    def broken() -> Protocol[None]:
        yield from read()
        raise KeyError("oops")

    assert "KeyError('oops')" in fails(explore({"a": broken}, table(), collect), "exception")


def test_safety_is_asked_of_every_store_on_the_way() -> None:
    actors = {"repair": fence_and_seed(1)}

    def always_present(store: Store) -> str | None:
        return "the tally is gone" if tally_of(store) is None else None

    fails(explore(actors, table(), exact, crashes=0, safety=always_present), "safety")


def test_a_protocol_without_end_is_a_livelock() -> None:
    def forever() -> Protocol[None]:
        while True:
            yield from read()

    assert "more than 20 steps" in fails(explore({"a": forever}, table(), exact, max_steps=20), "livelock")


def test_a_search_given_up_is_no_verdict() -> None:
    with pytest.raises(SearchLimit):
        explore({"a": conditional_increment, "b": conditional_increment}, table(), all_counted, max_states=10)


def test_a_protocol_that_rolls_dice_cannot_be_searched() -> None:
    dice = iter(range(10_000))

    def gambler() -> Protocol[None]:
        yield from read()
        yield write(next(dice))

    with pytest.raises(NotDeterministic):
        explore({"a": gambler, "b": conditional_increment}, table(), lambda *_: None)


def test_the_same_send_again_keeps_its_token_and_another_like_it_does_not() -> None:
    def again(same: bool) -> Callable[[], Protocol[None]]:
        def protocol() -> Protocol[None]:
            first = transaction("u", once=False)
            yield first
            yield first if same else transaction("u", once=False)

        return protocol

    holds(explore({"a": again(True)}, table(), exact))
    fails(explore({"a": again(False)}, table(), exact))


def test_no_guard_of_the_toy_like_can_be_spared() -> None:
    # With a double click, an unlike and a seeder beside, each guard that was ever sent is needed.
    actors = {"a": like("u"), "again": like("u"), "un": like("v", kind="Delete"), "twice": like("v", kind="Delete")}
    stores = [table(1, ("v",)), table(None, ("v",))]
    guards = {guard for store in stores for guard in all_guards(explore(actors, store, exact, crashes=0).sends)}
    assert {guard.text for guard in guards} == {
        "attribute_not_exists(SK)",
        "attribute_exists(SK)",
        "attribute_exists(tally)",
    }
    for guard in guards:
        found = [explore(actors, store, exact, crashes=0, mutate=without(guard)).violation for store in stores]
        assert any(found), f"nothing notices that this guard is missing: {guard}"


@dataclass(frozen=True, slots=True)
class Case:
    """A condition, the guard to take out, and what should be left."""

    condition: str
    guard: str
    left: str | None
    values: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "case",
    [
        Case("attribute_exists(tally)", "attribute_exists(tally)", None),
        Case("attribute_exists (#0) AND #1 = :1", "attribute_exists(tally)", "#1 = :1", (":1",)),
        Case("attribute_exists (#0) AND #1 = :1", "was = ?", "attribute_exists(#0)"),
        Case("#0 = :1 AND (#1 = :2 OR #0 < :3)", "was = ? OR tally < ?", "#0 = :1", (":1",)),
        Case("#0 = :1 OR (#1 = :2 AND #0 < :3)", "tally < ?", "#0 = :1 OR #1 = :2", (":1", ":2")),
        Case("#0 = :1 OR #1 = :2", "was = ?", "#0 = :1 OR #1 = :2", (":1", ":2")),
        Case("NOT #0 = :1 AND attribute_exists(#1)", "NOT (tally = ?)", "attribute_exists(#1)"),
    ],
    ids=lambda case: f"{case.condition} without {case.guard}",
)
def test_a_guard_taken_out_leaves_a_well_formed_request(case: Case) -> None:
    names = {"#0": "tally", "#1": "was"}
    values = {":1": {"N": "1"}, ":2": {"N": "2"}, ":3": {"N": "3"}, ":new": {"N": "9"}}
    used = {name: value for name, value in {**names, **values}.items() if name in f"{case.condition} :new"}
    send = Send(
        "UpdateItem",
        {
            "TableName": TABLE,
            "Key": POST,
            "UpdateExpression": "SET x = :new",
            "ConditionExpression": case.condition,
            "ExpressionAttributeNames": {name: names[name] for name in used if name in names},
            "ExpressionAttributeValues": {name: values[name] for name in used if name in values},
        },
    )
    mutated = take_out(case.guard)(send)
    assert mutated.request.get("ConditionExpression") == case.left or mutated is send
    if mutated is not send:
        assert set(mutated.request["ExpressionAttributeValues"]) == {":new", *case.values}
    else:
        assert case.left == case.condition
    table().send(mutated)


def test_a_check_without_its_guard_still_stands_in_its_place() -> None:
    check = {"TableName": TABLE, "Key": POST, "ConditionExpression": "attribute_exists(missing)"}
    send = Send("TransactWriteItems", {"TransactItems": [{"ConditionCheck": check}]})
    assert isinstance(table().send(send)[1], Refusal)
    assert table().send(take_out("attribute_exists(missing)")(send))[1] == {}
