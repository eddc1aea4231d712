"""What ``pynacount migrate`` takes beside a bare scan of the same table, on DynamoDB Local.

    python -m tests.benchmarks.migrate

A table of posts, whose likes are spread by Zipf's law (one post has nearly a tenth of the million), and before it one
with a tenth of that. In rounds, on each: a parallel scan of the keys by boto3 and nothing else, and the migration, with
as many threads; each in a process of its own. Which one comes first alternates. Between two rounds the posts lose their
tallies again, and after each migration every tally is compared to the number that is known. One scan and one migration
go before that are not measured: the engine's first thousands of writes are several times slower. The figures to look
at are the ratio of the medians, and how the peak memory of the two tables compares.

``seconds`` is from the first request to the last, ``process`` with the start of Python and the imports.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.session import get_session

from pynacount.errors import CounterNotSeeded
from pynacount.testing import DynamoDBLocalEngine
from tests.benchmarks.migrate_models import REQUESTS, Post
from tests.benchmarks.processes import Measured, measured
from tests.loading import like_item, load, post_item, zipf

COMMAND = "from pynacount.cli import main; main()"
BATCH_GET = 100


@dataclass(slots=True)
class Round:
    """One scan and one migration."""

    scan: Measured
    migration: Measured
    requests: dict[str, int]
    waits: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> tuple[float, float]:
        return float(self.scan.last["seconds"]), float(self.migration.last["seconds"])  # type: ignore[arg-type]

    @property
    def process_seconds(self) -> tuple[float, float]:
        return self.scan.seconds, self.migration.seconds


class Table:
    """A table of posts and likes, and how many each post has."""

    name = Post.Meta.table_name

    def __init__(self, client: Any, posts: int, likes: int) -> None:
        self.client, self.likes = client, likes
        self.counts: Counter[str] = Counter(
            dict(zip(map("{:06}".format, range(posts)), zipf(posts, likes), strict=True))
        )

    def fill(self) -> None:
        self.client.create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("PK", "SK")],
            BillingMode="PAY_PER_REQUEST",
        )
        began = time.perf_counter()
        load(
            self.client,
            self.name,
            (like_item(post, f"{n:08}") for post in self.counts for n in range(self.counts[post])),
        )
        self.unseed()
        print(
            f"{len(self.counts):,} posts, {self.likes:,} likes, the most of one post {max(self.counts.values()):,}; "
            f"loaded in {time.perf_counter() - began:.0f} s",
            flush=True,
        )

    def unseed(self) -> None:
        """Put the posts as they were: likeTally and likeTallyPending are gone."""
        load(self.client, self.name, map(post_item, self.counts))

    def tallies(self) -> dict[str, int | None]:
        posts = list(self.counts)

        def get(start: int) -> dict[str, int | None]:
            keys: Any = [{"PK": {"S": f"POST#{p}"}, "SK": {"S": "META"}} for p in posts[start : start + BATCH_GET]]
            request = {self.name: {"Keys": keys, "ConsistentRead": True}}
            answer = self.client.batch_get_item(RequestItems=request)
            assert not answer.get("UnprocessedKeys")
            found = {
                item["PK"]["S"].removeprefix("POST#"): item.get("likeTally") for item in answer["Responses"][self.name]
            }
            return {post: None if tally is None else int(tally["N"]) for post, tally in found.items()}

        with ThreadPoolExecutor(4) as pool:
            return {p: n for part in pool.map(get, range(0, len(posts), BATCH_GET)) for p, n in part.items()}

    def check(self) -> None:
        """Every tally is the number of likes."""
        tallies = self.tallies()
        wrong = {post: (tallies.get(post), count) for post, count in self.counts.items() if tallies.get(post) != count}
        if wrong:
            raise SystemExit(f"{len(wrong)} tallies are not what they should be: {dict(list(wrong.items())[:5])}")


@contextmanager
def writers(table: Table, many: int) -> Iterator[list[float]]:
    """People who like and unlike through the library meanwhile; gives the seconds that each write took."""
    waits: list[float] = []
    stop = threading.Event()
    if not many:
        yield waits
        return
    posts = list(table.counts)

    def write(number: int) -> Counter[str]:
        dice, mine, told = random.Random(number), set[tuple[str, str]](), Counter[str]()
        while not stop.is_set():
            post, user = dice.choice(posts), f"w{number}-{dice.randrange(50)}"
            there = (post, user) in mine
            likes, began = Post.ref(post_id=post).likes, time.perf_counter()
            try:
                answer = likes.discard(user_id=user) if there else likes.add(user_id=user)
            except CounterNotSeeded:  # it has too many likes to be counted on the way
                continue
            waits.append(time.perf_counter() - began)
            assert answer, (post, user)
            mine ^= {(post, user)}
            told[post] += -1 if there else 1
        for post, user in mine:  # the next round begins with the table that this one began with
            assert Post.ref(post_id=post).likes.discard(user_id=user)
            told[post] -= 1
        return told

    with ThreadPoolExecutor(many) as pool:
        people = [pool.submit(write, number) for number in range(many)]
        try:
            yield waits
        finally:
            stop.set()
        for person in people:
            assert not any(person.result().values())


def scan(table: Table, workers: int) -> Measured:
    found = measured(["-m", "tests.benchmarks.bare_scan", table.name, str(workers)], {})
    assert found.last["items"] == table.likes + len(table.counts), found.last
    return found


def migrate(table: Table, workers: int, many: int) -> tuple[Measured, dict[str, int], list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder) / "requests"
        arguments = ["-c", COMMAND, "migrate", "tests.benchmarks.migrate_models:Post"]
        arguments += ["--workers", str(workers), "--yes", "--json"]
        with writers(table, many) as waits:
            found = measured(arguments, {REQUESTS: str(requests)})
        return found, json.loads(requests.read_text()), waits


def rounds(table: Table, many: int, workers: int, writing: int) -> list[Round]:
    scan(table, workers)  # DynamoDB Local gets warm: its JVM compiles what is run often, the path of a write too
    migrate(table, workers, 0)
    table.unseed()
    found: list[Round] = []
    for number in range(many):
        first = scan(table, workers) if number % 2 == 0 else None
        migration, requests, waits = migrate(table, workers, writing)
        table.check()
        table.unseed()
        one = Round(first or scan(table, workers), migration, requests, waits)
        found.append(one)
        (bare, ours), (bare_process, our_process) = one.seconds, one.process_seconds
        print(
            f"  round {number + 1}: scan {bare:6.2f} s (process {bare_process:6.2f}), "
            f"migrate {ours:6.2f} s (process {our_process:6.2f}), ratio {ours / bare:5.2f}; all tallies exact",
            flush=True,
        )
    return found


def report(table: Table, found: list[Round]) -> float:
    """Print what the rounds came to; gives the migration's median peak in MiB."""
    for name, times in (
        ("seconds", [one.seconds for one in found]),
        ("process", [one.process_seconds for one in found]),
    ):
        bare, ours = (statistics.median(column) for column in zip(*times, strict=True))
        pairs = [b / a for a, b in times]
        print(
            f"  {name}, medians: scan {bare:.2f} s, migrate {ours:.2f} s; migrate / scan {ours / bare:.2f} "
            f"(pair by pair {', '.join(f'{pair:.2f}' for pair in pairs)}; median {statistics.median(pairs):.2f})"
        )
    median = statistics.median(one.seconds[1] for one in found)
    summary, scanned = found[-1].migration.last, found[-1].scan.last
    print(
        f"  {len(table.counts) / median:,.0f} parents a second, "
        f"{(table.likes + len(table.counts)) / median:,.0f} items a second"
    )
    sent = ", ".join(f"{name} {many:,}" for name, many in sorted(found[-1].requests.items()))
    print(f"  pages: scan {scanned['pages']}, migrate {summary['pages']}; migrate's requests: {sent}")
    peaks = [[one.scan.peak / 2**20 for one in found], [one.migration.peak / 2**20 for one in found]]
    print(
        f"  peak memory, MiB: scan {statistics.median(peaks[0]):.1f}, migrate {statistics.median(peaks[1]):.1f} "
        f"({', '.join(f'{peak:.1f}' for peak in peaks[1])})"
    )
    cpu = [
        statistics.median(times) for times in zip(*((one.scan.cpu, one.migration.cpu) for one in found), strict=True)
    ]
    print(f"  CPU seconds of the process: scan {cpu[0]:.1f}, migrate {cpu[1]:.1f}; the rest is the engine's")
    if waits := [wait for one in found for wait in one.waits]:
        print(f"  {len(waits):,} likes and unlikes meanwhile, {statistics.median(waits) * 1000:.1f} ms each (median)")
    print(flush=True)
    return statistics.median(peaks[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=20_000, help="posts in the large table")
    parser.add_argument("--likes", type=int, default=1_000_000, help="likes in the large table")
    parser.add_argument("--small", type=int, default=100_000, help="likes in the small table; posts in proportion")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="threads and segments, of scan and migration alike")
    parser.add_argument("--writers", type=int, default=0, help="threads that like and unlike during the migration")
    arguments = parser.parse_args()
    with DynamoDBLocalEngine() as engine:
        config = Config(parameter_validation=False, retries={"total_max_attempts": 4, "mode": "standard"})
        client = get_session().create_client("dynamodb", endpoint_url=engine.endpoint_url, config=config)
        small = Table(client, arguments.posts * arguments.small // arguments.likes, arguments.small)
        large = Table(client, arguments.posts, arguments.likes)
        peaks = []
        for table in (small, large):
            table.fill()
            found = rounds(table, arguments.rounds, arguments.workers, arguments.writers)
            peaks.append(report(table, found))
            engine.reset()
    print(
        f"peak memory of the migration, {large.likes:,} likes to {small.likes:,}: "
        f"{peaks[1]:.1f} MiB / {peaks[0]:.1f} MiB = {peaks[1] / peaks[0]:.2f}"
    )


if __name__ == "__main__":
    main()
