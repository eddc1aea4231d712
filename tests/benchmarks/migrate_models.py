"""What the measured process of ``tests.benchmarks.migrate`` imports: its models, and a count of what it sends."""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import botocore

from pynacount import CountedIn, models

REQUESTS = "PYNACOUNT_BENCHMARK_REQUESTS"
"""The environment variable that names the file for the requests by operation; without it none are counted."""


class Post(models.PostMeta):
    class Meta:
        table_name = "Social"
        counted_deadline = 60
        max_pool_connections = 64


class Like(models.Like):
    post = CountedIn(Post.like_tally)

    class Meta:
        table_name = "Social"
        counted_deadline = 60
        max_pool_connections = 64


def _count_requests(path: str) -> None:
    sent: Counter[str] = Counter()
    lock = threading.Lock()

    def count(**event: Any) -> None:
        with lock:
            sent[event["event_name"].rpartition(".")[2]] += 1

    # By every session that is made from now on: which clients the library makes of it is its own affair.
    botocore.register_initializer(lambda session: session.register("before-send.dynamodb", count))
    atexit.register(lambda: Path(path).write_text(json.dumps(sent)))


if REQUESTS in os.environ:
    _count_requests(os.environ[REQUESTS])
