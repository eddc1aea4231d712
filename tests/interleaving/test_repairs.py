"""What a repair must not be: ways that look right and that the search finds wrong; and what the mark is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pynacount.keys import ItemKey
from pynacount.protocols.counting import count
from pynacount.steps import Protocol, Refusal, Send

from .explorer import explore
from .protocols import TABLE, Actor, Post, discards, saves
from .repairs import SCENARIOS
from .scenarios import POSTS, child, like, parent, post, table
from .store import Store

KEY: ItemKey = Post._counting.key_of(post()())
TALLY = Post.like_tally.tally
META = {"TableName": TABLE, "Key": KEY.wire()}


def number() -> Protocol[int | None]:
    """The tally as a consistent read shows it."""
    answer = yield Send("GetItem", {**META, "ConsistentRead": True})
    assert not isinstance(answer, Refusal)
    stored = answer["Item"].get("likeTally")
    return None if stored is None else int(stored["N"])


def write(expression: str, condition: str, **values: int) -> Send:
    return Send(
        "UpdateItem",
        {
            **META,
            "UpdateExpression": expression,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {f":{name}": {"N": str(value)} for name, value in values.items()},
        },
    )


def adds_the_difference() -> Protocol[str]:
    """Count, and add what is missing, in one write."""
    before = yield from number()
    counted = yield from count(TALLY, KEY)
    assert before is not None
    yield write("ADD likeTally :by", "attribute_exists(likeTally)", by=int(counted) - before)
    return "repaired"


def measures(looks: int) -> Actor:
    """Believe ``looks`` agreeing measurements, each with the same tally before and after it, and set the number."""

    def protocol() -> Protocol[str]:
        seen: set[tuple[int | None, int]] = set()
        before = yield from number()
        for _ in range(looks):
            counted = int((yield from count(TALLY, KEY)))
            seen.add((before, counted))
            if (yield from number()) != before or len(seen) > 1:
                return "gave up"
        assert before is not None
        yield write("SET likeTally = :n", "likeTally = :before", n=counted, before=before)
        return "repaired"

    return protocol


def wrong(store: Store, results: Mapping[str, Any], crashed: Any) -> str | None:
    """Whether somebody said that it is repaired, and it is not."""
    children = store.items(TABLE, POSTS.partition, POSTS.prefix)
    tally = store.number("likeTally", TABLE, POSTS.partition, "META")
    said = "repaired" in [result for result in results.values() if isinstance(result, str)]
    return f"tally {tally}, count {len(children)}" if said and tally not in (None, len(children)) else None


def test_two_repairs_that_add_a_measured_difference_add_it_twice() -> None:
    drifted = table(parent(POSTS, likeTally=4), child(POSTS, "a"))
    alone = explore({"one": adds_the_difference}, drifted, wrong, crashes=0, lost_responses=0)
    assert alone.violation is None
    two = {"one": adds_the_difference, "two": adds_the_difference}
    assert explore(two, drifted, wrong, crashes=0, lost_responses=0).violation is not None


def test_one_measurement_proves_nothing() -> None:
    exact = table(parent(POSTS, likeTally=1), child(POSTS, "b"))
    actors = {"repair": measures(1), "add": saves(like("a")), "un": discards(like("b"))}
    assert explore(actors, exact, wrong, crashes=0, lost_responses=0).violation is not None


def test_two_measurements_that_agree_prove_nothing_under_four_writers() -> None:
    exact = table(parent(POSTS, likeTally=2), child(POSTS, "b"), child(POSTS, "d"))
    actors = {
        "repair": measures(2),
        "add a": saves(like("a")),
        "un b": discards(like("b")),
        "add c": saves(like("c")),
        "un d": discards(like("d")),
    }
    assert explore(actors, exact, wrong, crashes=0, lost_responses=0).violation is not None


def test_a_fence_that_leaves_no_lasting_mark_lets_an_old_count_be_set() -> None:
    """Seeded by a writer after the first fence, fenced again by the second repair: the first must not set its count."""

    def without_the_mark(send: Send) -> Send:
        request = dict(send.request)
        expression = request.get("UpdateExpression", "")
        if send.operation != "UpdateItem" or "likeTallyPending" not in expression + request["ConditionExpression"]:
            return send
        request["UpdateExpression"] = re.sub(
            r", likeTallyPending = if_not_exists\(likeTallyPending, :\w+\) \+ :one", "", expression
        )
        request["ConditionExpression"] = (
            "attribute_exists(PK) AND attribute_not_exists(likeTally)"
            if "SET likeTally =" in expression
            else request["ConditionExpression"]
        )
        request["ExpressionAttributeValues"] = {
            name: value
            for name, value in request["ExpressionAttributeValues"].items()
            if name in request["UpdateExpression"]
        }
        if not request["ExpressionAttributeValues"]:
            del request["ExpressionAttributeValues"]
        return Send(send.operation, request)

    (scenario,) = [scenario for scenario in SCENARIOS if scenario.name == "two repairs beside a like"]
    report = explore(
        scenario.actors,
        scenario.store,
        scenario.invariant,
        crashes=0,
        lost_responses=0,
        mutate=without_the_mark,
        heed_waits=True,
    )
    assert report.violation is not None
