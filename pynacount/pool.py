"""Increments of many plain counters at once: DynamoDB has no batch increment, so a few threads share the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic

from pynamodb.exceptions import PynamoDBException
from typing_extensions import TypeVar

from pynacount.keys import ItemKey

R = TypeVar("R", default=Any)

DEFAULT_WORKERS = 8
"""Requests under way at once; botocore keeps 10 connections open, where ``max_pool_connections`` is not set."""


@dataclass(frozen=True, slots=True)
class Incremented(Generic[R]):
    """What came of ``increment_many()``: every ref is in one of the two, in the order in which they were given.

    ``values`` are the numbers as they are then; ``failed`` the errors of those that were not counted, or of which it is
    not known: each as ``increment()`` would have raised it.
    """

    values: dict[R, int]
    failed: dict[R, PynamoDBException]


def amounts_of(refs: Any, by: Any, about: str) -> dict[Any, Any]:
    """The amount of each ref: of a mapping its own, else ``by``.

    Raises ``ValueError`` for a ref that comes twice, and for both a mapping and a ``by``.
    """
    if isinstance(refs, Mapping):
        if by != 1:
            raise ValueError(f"{about}(by={by!r}): the dict has an amount for each ref; leave by= out")
        return dict(refs)
    if isinstance(refs, (str, bytes)) or not isinstance(refs, Iterable):
        raise TypeError(f"{about}({refs!r:.60}): give a list of refs, or a dict of refs and amounts")
    found: dict[Any, Any] = {}
    for ref in refs:
        if ref in found:
            raise ValueError(f"{about}: {ref!r} comes twice; give a dict with the whole amount: {{ref: 2}}")
        found[ref] = by
    return found


def refuse_twice(keys: Mapping[Any, ItemKey], about: str) -> None:
    """Raise ``ValueError`` where two refs, or a ref and an instance, are of one item."""
    known: dict[ItemKey, Any] = {}
    for ref, key in keys.items():
        other = known.setdefault(key, ref)
        if other is not ref:
            raise ValueError(
                f"{about}: the item {key} comes twice, as {other!r} and as {ref!r}; give one of them, with the whole "
                f"amount: {{ref: 2}}"
            )


def check_workers(workers: Any, about: str) -> None:
    """Raise ``ValueError`` for what is no number of threads."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ValueError(f"{about}(workers={workers!r}) must be an int of 1 or more")


def run_each(calls: Mapping[R, Callable[[], int]], workers: int) -> Incremented[R]:
    """Make every call, so many at once. Threads are started only for more than one, and have ended on return.

    Another exception than PynamoDB's ends it: calls that have not begun are not made, and it is raised.
    """
    if workers == 1 or len(calls) < 2:
        told = {ref: _told(call) for ref, call in calls.items()}
    else:
        told = _in_threads(calls, min(workers, len(calls)))
    return Incremented(
        {ref: one for ref, one in told.items() if not isinstance(one, PynamoDBException)},
        {ref: one for ref, one in told.items() if isinstance(one, PynamoDBException)},
    )


def _in_threads(calls: Mapping[R, Callable[[], int]], workers: int) -> dict[R, int | PynamoDBException]:
    with ThreadPoolExecutor(workers, thread_name_prefix="pynacount-increment") as pool:
        futures = {ref: pool.submit(copy_context().run, _told, call) for ref, call in calls.items()}
        try:
            return {ref: future.result() for ref, future in futures.items()}
        except BaseException:
            for future in futures.values():
                future.cancel()
            raise


def _told(call: Callable[[], int]) -> int | PynamoDBException:
    try:
        return call()
    except PynamoDBException as error:
        return error
