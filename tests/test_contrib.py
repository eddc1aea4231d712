"""What the integrations for web frameworks share."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pynacount import errors, idempotency
from pynacount.contrib.answers import ANSWERED, answer_to
from pynacount.contrib.counts import short_count
from pynacount.contrib.overview import counters_of, overview, way_to_mend_one
from pynacount.contrib.requests import of_request
from pynacount.errors import KeyTemplateError
from social import ALL, Like, Post, put

STATUSES = {
    errors.AlreadyCounted: 409,
    errors.NotCounted: 404,
    errors.ParentMissing: 404,
    errors.ParentNotEmpty: 409,
    errors.CounterBoundError: 409,
    errors.CheckFailed: 409,
    errors.KeyTemplateError: 400,
    errors.IdempotencyKeyError: 400,
    errors.TokenReused: 422,
    errors.CounterContention: 503,
    errors.OutcomeUnknown: 503,
    errors.CounterNotSeeded: 503,
}


def test_every_error_that_a_user_can_cause_has_an_answer() -> None:
    assert {kind: answer_to(kind("PK='POST#a'")).status for kind in ANSWERED} == STATUSES  # type: ignore[union-attr]


def test_mistakes_in_the_program_have_none() -> None:
    kinds = [v for v in vars(errors).values() if isinstance(v, type) and v.__module__ == errors.__name__]
    unanswered = {kind.__name__ for kind in kinds if answer_to(kind("x")) is None}
    assert unanswered == {
        *("PynacountError", "UncountedWrite", "KeyTypeError", "CounterTypeError", "DeclarationError"),
        *("StateError", "PlanError", "StreamRecordError", "TargetError"),
    }


def test_no_answer_shows_a_key_or_a_table() -> None:
    answer = answer_to(errors.ParentMissing("the parent PK='POST#a' does not exist in table Town"))
    assert answer is not None
    assert "POST" not in str(answer.problem()) and "Town" not in str(answer.problem())


def test_only_what_passes_by_itself_asks_to_try_again() -> None:
    asked = {kind for kind in ANSWERED if answer_to(kind("x")).headers(1.5) == {"Retry-After": "2"}}  # type: ignore[union-attr]
    assert asked == {kind for kind, status in STATUSES.items() if status == 503}


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        *((None, "–"), (0, "0"), (7, "7"), (999, "999"), (1000, "1K"), (1234, "1.2K"), (1999, "1.9K")),  # noqa: RUF001
        *((9999, "9.9K"), (10_000, "10K"), (999_999, "999K"), (10**6, "1M"), (3_450_000, "3.4M"), (10**9, "1B")),
        *((10**15, "1,000T"), (-1234, "-1.2K"), (Decimal("4.56"), "4.5"), (Decimal("1234.5"), "1.2K"), (-1, "-1")),
    ],
)
def test_a_count_is_short_and_never_tells_too_much(count: Any, shown: str) -> None:
    assert short_count(count) == shown


def test_what_is_no_count_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="give a tally, an int or a Decimal, not str"):
        short_count("12345")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "method", "path", "same"),
    [
        ("k", "POST", "/a", True),
        ('"k"', "POST", "/a", True),
        (" k ", "POST", "/a", True),
        ("k", "DELETE", "/a", False),
        ("k", "POST", "/b", False),
    ],
)
def test_a_key_is_of_one_method_and_one_path(key: str, method: str, path: str, same: bool) -> None:
    def made(key: str, method: str, path: str) -> str:
        with of_request(key, method, path):
            return idempotency.new_id()

    assert (made(key, method, path) == made("k", "POST", "/a")) is same


@pytest.mark.parametrize(("key", "method"), [(None, "POST"), ("k", "GET"), ("", "HEAD")])
def test_what_has_no_key_or_writes_nothing_is_not_marked(key: str | None, method: str) -> None:
    with of_request(key, method, "/a"):
        assert idempotency.current.get() is None


@pytest.mark.parametrize("key", ["", '""', "   "])
def test_an_empty_key_is_refused(key: str) -> None:
    with pytest.raises(KeyTemplateError, match="idempotency key"), of_request(key, "POST", "/a"):
        pass


def test_an_overview_tells_how_a_sample_of_each_counter_stands(
    tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(*ALL)
    monkeypatch.setattr("pynacount.tallies.suspects.time.sleep", lambda seconds: None)
    for name, tally in (("ok", 0), ("wrong", 5)):
        put(f"POST#{name}", "META", likeTally={"N": str(tally)})
    put("POST#new", "META")
    counters = counters_of(["social:Post", "social:Post.like_tally"])
    (found,) = overview(counters)
    assert (found.label, found.table, found.attribute, found.children) == (
        *("Post.like_tally", "Town", "likeTally"),
        (Like.__name__,),
    )
    assert (found.looked_at, found.wrong, found.unseeded, found.problem) == (3, 1, 1, "")
    drifted = next(row for row in found.rows if row.wrong)
    assert (drifted.tally, drifted.count) == (5, 0)
    assert found.mend.said == "pynacount repair social:Post.like_tally"
    mend = way_to_mend_one(counters[0], drifted, "flask tallies")
    assert mend.said == "flask tallies repair social:Post.like_tally --key post_id=wrong"
    assert Post.like_tally.value(Post.ref(post_id="wrong")) == 5  # nothing was written


def test_an_overview_of_a_table_that_is_missing_says_so(engine: Any) -> None:
    (found,) = overview(counters_of(["social:Post"]))
    assert "create the table" in found.problem
    (found,) = overview(counters_of(["social:Post"]), sample=0)
    assert (found.problem, found.looked_at) == ("", 0)
