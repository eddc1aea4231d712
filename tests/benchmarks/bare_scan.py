"""A parallel scan of a table's keys by boto3, and nothing else: what ``tests.benchmarks.migrate`` is compared to.

    python -m tests.benchmarks.bare_scan TABLE WORKERS

A module of its own, for a process that imports nothing but boto3. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3


def scan_segment(client: Any, table: str, segment: int, segments: int) -> tuple[int, int]:
    """The pages and the items of one segment."""
    request: dict[str, Any] = {
        "TableName": table,
        "ConsistentRead": True,
        "ProjectionExpression": "PK, SK",
        "Segment": segment,
        "TotalSegments": segments,
    }
    pages = items = 0
    while True:
        answer = client.scan(**request)
        pages, items = pages + 1, items + len(answer["Items"])
        if "LastEvaluatedKey" not in answer:
            return pages, items
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def main() -> None:
    table, workers = sys.argv[1], int(sys.argv[2])
    client = boto3.client("dynamodb")
    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        segments = [pool.submit(scan_segment, client, table, number, workers) for number in range(workers)]
        found = [segment.result() for segment in segments]
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "pages": sum(p for p, _ in found), "items": sum(i for _, i in found)}))


if __name__ == "__main__":
    main()
