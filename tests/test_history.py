"""The judge of the stress test can say no."""

from __future__ import annotations

from history import Event, is_linearizable


def test_answers_that_fit_an_order_of_the_calls_are_believed() -> None:
    calls = [Event(0, 2, True, True), Event(1, 3, True, False), Event(4, 5, False, True)]
    assert is_linearizable(calls, False, False)


def test_two_callers_told_that_they_added_one_child_are_not_believed() -> None:
    assert not is_linearizable([Event(0, 2, True, True), Event(1, 3, True, True)], False, True)


def test_a_caller_told_already_there_before_anyone_added_it_is_not_believed() -> None:
    assert not is_linearizable([Event(0, 1, True, False), Event(2, 3, True, True)], False, True)


def test_an_answer_that_the_table_contradicts_is_not_believed() -> None:
    assert not is_linearizable([Event(0, 1, True, True)], False, False)
