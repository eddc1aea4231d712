"""A thousand drifted parents under traffic: an audit finds all and no other, repairs mend all, no like is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from loading import like_item, load, post_item
from pynacount import CountedIn, CountedSet, CounterField, models
from pynacount.commands import group
from pynacount.commands.audited import record
from pynacount.commands.records import json_line
from pynacount.tallies import audit, read_audit, repair
from social import raw

pytestmark = pytest.mark.real_engine

POSTS, DRIFTED, WRITERS = 2000, 1000, 4


class BusyPost(models.PostMeta):
    class Meta:
        table_name = "Busy"
        counted_deadline = 60
        max_pool_connections = 60

    like_tally = CounterField(attr_name="likeTally", settle=0.2)
    likes: CountedSet[Any] = CountedSet("BusyLike", tally="like_tally")


class BusyLike(models.Like):
    class Meta(BusyPost.Meta):
        pass

    post = CountedIn(BusyPost.like_tally)


class Writer:
    """Likes and unlikes with users of its own, so that it knows each answer beforehand."""

    def __init__(self, seed: int) -> None:
        self.dice, self.seed = random.Random(seed), seed
        self.likes: set[tuple[str, str]] = set()
        self.answers = 0

    def write(self, stop: threading.Event) -> None:
        while not stop.is_set():
            post, user = str(self.dice.randrange(POSTS)), f"{self.seed}-{self.dice.randrange(3)}"
            likes, there = BusyPost.ref(post_id=post).likes, (post, user) in self.likes
            if self.dice.random() < 0.6:
                assert likes.add(user_id=user) is not there
                self.likes.add((post, user))
            else:
                assert likes.discard(user_id=user) is there
                self.likes.discard((post, user))
            self.answers += 1


CHILD = """
import sys
from pynacount.tallies import read_audit, repair
from test_repairing_at_scale import BusyPost

with open(sys.argv[1]) as saved:
    for done in repair([BusyPost.like_tally], read_audit([BusyPost.like_tally], saved), workers=8):
        print(done.status, flush=True)
"""


def fill() -> dict[str, int]:
    """Posts with tallies that are right but for a thousand of them; gives how far those are off."""
    dice = random.Random(5)
    counts = {str(post): dice.randrange(4) for post in range(POSTS)}
    drift = {post: dice.choice([-7, -1, 1, 2, 30]) for post in dice.sample(list(counts), DRIFTED)}
    tallies = {post: {"N": str(count + drift.get(post, 0))} for post, count in counts.items()}
    load(raw(), "Busy", (post_item(post, likeTally=tally) for post, tally in tallies.items()))
    load(raw(), "Busy", (like_item(post, f"old-{n}") for post, count in counts.items() for n in range(count)))
    return drift


def kill_half_way(saved: Path) -> None:
    """A repair in a process of its own, that is killed when it has mended some."""
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(saved)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for _ in range(DRIFTED // 4):
        assert process.stdout.readline() == "repaired\n"
    process.kill()
    assert process.wait() != 0
    process.stdout.close()


def test_a_thousand_drifted_parents_under_traffic_are_found_and_mended(
    tables: Callable[..., None], tmp_path: Path
) -> None:
    tables(BusyPost)
    drift = fill()
    saved = tmp_path / "audit.jsonl"
    target = f"{__name__}:BusyPost"
    stop, writers = threading.Event(), [Writer(seed) for seed in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS + 2) as pool:
        people = [pool.submit(writer.write, stop) for writer in writers]
        try:
            # An unlike while its post is read can hide a drift from one audit, and not from the next.
            audits = [list(audit([BusyPost.like_tally])) for _ in range(2)]
            wrong = {found.key: found for one in audits for found in one if found.wrong}
            saved.write_text("".join(json_line(record(found)) + "\n" for found in wrong.values()))
            kill_half_way(saved)

            def mend() -> list[str]:
                with saved.open() as rows:
                    audited = read_audit([BusyPost.like_tally], rows)
                    return [done.status for done in repair([BusyPost.like_tally], audited, workers=16)]

            outcomes = [status for run in [pool.submit(mend) for _ in range(2)] for status in run.result()]
            again = CliRunner().invoke(group, ["audit", target])
        finally:
            stop.set()
        for person in people:
            person.result()  # raises where a writer was refused, or told something else than the truth
    assert {found.key.values[0][1].removeprefix("POST#"): found.drift for found in wrong.values()} == drift
    assert set(outcomes) == {"repaired", "unchanged"} and len(outcomes) == 2 * DRIFTED
    assert (again.exit_code, again.stdout.splitlines()[0]) == (0, "2,000 tallies audited: 2,000 ok")
    assert min(writer.answers for writer in writers) > 100

    pages = raw().get_paginator("scan").paginate(TableName="Busy", ConsistentRead=True)
    stored = {(item["PK"]["S"], item["SK"]["S"]): item for page in pages for item in page["Items"]}
    likes = [key for key in stored if key[1] != "META"]
    assert {key for key in likes if "#old-" not in key[1]} == {
        (f"POST#{post}", f"LIKE#USER#{user}") for writer in writers for post, user in writer.likes
    }
    for post in range(POSTS):
        meta = stored[f"POST#{post}", "META"]
        assert "likeTallyWas" not in meta
    counts = dict.fromkeys((f"POST#{post}" for post in range(POSTS)), 0)
    for post_key, _ in likes:
        counts[post_key] += 1
    assert {key: int(stored[key, "META"]["likeTally"]["N"]) for key in counts} == counts
