"""Tables for tests and benchmarks at scale: how the likes are spread, and getting them in by batches."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BATCH = 25
"""The most items that one BatchWriteItem takes."""


def zipf(things: int, total: int) -> list[int]:
    """``total`` spread over ``things``, exactly: the n-th gets about an n-th of what the first gets."""
    reached = list(itertools.accumulate(1 / n for n in range(1, things + 1)))
    bounds = [round(total * part / reached[-1]) for part in reached]
    return [end - start for start, end in zip([0, *bounds], bounds, strict=False)]


def post_item(post: str, **attributes: dict[str, Any]) -> dict[str, Any]:
    """A post, as a program wrote it that knew no tally."""
    return {"PK": {"S": f"POST#{post}"}, "SK": {"S": "META"}, "createdAt": {"N": "1700000000"}, **attributes}


def like_item(post: str, user: str, **attributes: dict[str, Any]) -> dict[str, Any]:
    """A like, as a program wrote it that knew no tally."""
    key = {"PK": {"S": f"POST#{post}"}, "SK": {"S": f"LIKE#USER#{user}"}}
    return {**key, "likedAt": {"N": "1700000000"}, **attributes}


def load(client: Any, table: str, items: Iterable[dict[str, Any]], threads: int = 4) -> None:
    """Put all items, whatever was there under their keys."""
    rest, lock = iter(items), threading.Lock()

    def batches() -> Iterator[list[dict[str, Any]]]:
        while True:
            with lock:
                batch = list(itertools.islice(rest, BATCH))
            if not batch:
                return
            yield batch

    def work(_: int) -> None:
        for batch in batches():
            unwritten = {table: [{"PutRequest": {"Item": item}} for item in batch]}
            while unwritten:
                unwritten = client.batch_write_item(RequestItems=unwritten).get("UnprocessedItems")

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
