"""Reading a stream of several shards up to now: shards that lag, that show empty pages, and that split."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest

from files import Tagging
from pynacount.errors import CounterContention
from pynacount.steps import Send
from pynacount.streams import fenced
from pynacount.streams.fenced import FencedStream
from pynacount.streams.moves import is_fence
from pynacount.streams.reading import Stream

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/Taggings/stream/2026-07-01T00:00:00.000"


class Shards:
    """A stream whose records lie in shards by their key; each shows a record only some looks after it was written."""

    def __init__(self, many: int, seed: int = 0) -> None:
        self.chance = random.Random(seed)
        self.parents: dict[str, str | None] = {}
        self.records: dict[str, list[dict[str, Any]]] = {}
        self.lag: dict[str, int] = {}
        self.closed: set[str] = set()
        self.number = 0
        for _ in range(many):
            self.open(None)

    def open(self, parent: str | None) -> None:
        name = f"shard-{len(self.parents)}"
        self.parents[name], self.records[name], self.lag[name] = parent, [], 0

    def split(self, name: str) -> None:
        self.closed.add(name)
        self.open(name), self.open(name)

    def write(self, key: str, event: str = "INSERT") -> None:
        open_ = [name for name in self.parents if name not in self.closed]
        shard = open_[zlib.crc32(key.encode()) % len(open_)]
        self.number += 1
        image = {"tagging_id": {"S": key}, "pynacountFence": {"S": "{}"}}
        self.records[shard].append(
            {
                "eventName": event,
                "dynamodb": {
                    "Keys": {"tagging_id": {"S": key}},
                    "NewImage" if event == "INSERT" else "OldImage": image,
                    "SequenceNumber": f"{self.number:021}",
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                },
            }
        )
        self.lag[shard] = self.chance.randrange(3)

    # -- the client of the stream

    def describe_stream(self, StreamArn: str) -> Any:
        shards = [
            {
                "ShardId": name,
                **({"ParentShardId": parent} if parent else {}),
                "SequenceNumberRange": {"EndingSequenceNumber": "1"} if name in self.closed else {},
            }
            for name, parent in self.parents.items()
        ]
        return {"StreamDescription": {"Shards": shards}}

    def get_shard_iterator(self, StreamArn: str, ShardId: str, **place: Any) -> Any:
        return {"ShardIterator": f"{ShardId}:0"}

    def get_records(self, ShardIterator: str, Limit: int) -> Any:
        name, _, start = ShardIterator.partition(":")
        if self.lag[name]:
            self.lag[name] -= 1
            return {"Records": [], "NextShardIterator": ShardIterator}
        found = self.records[name][int(start) : int(start) + 2]
        place = int(start) + len(found)
        done = name in self.closed and place == len(self.records[name])
        return {"Records": found, **({} if done else {"NextShardIterator": f"{name}:{place}"})}

    # -- the driver that writes the fences

    def run(self, protocol: Any) -> None:
        for step in protocol:
            assert isinstance(step, Send)
            key = step.request.get("Item", step.request.get("Key"))["tagging_id"]["S"]
            self.write(key, "INSERT" if step.operation == "PutItem" else "REMOVE")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced, "PAUSE", 0.0)
    monkeypatch.setattr(fenced, "RAISE_EVERY", 0.0)


def fenced_stream(shards: Shards) -> FencedStream:
    schema = Tagging.tagged.child_schema
    return FencedStream("Tag.uses", schema, Stream(shards, ARN), shards, "1-x")  # type: ignore[arg-type]


def own(changes: Any) -> list[str]:
    return sorted(change.keys["tagging_id"]["S"] for change in changes if not is_fence(change.keys))


@pytest.mark.parametrize("seed", range(20))
def test_all_that_was_written_before_is_read_whatever_shards_it_lies_in(seed: int) -> None:
    shards = Shards(5, seed)
    stream = fenced_stream(shards)
    for n in range(40):
        shards.write(f"a{n:02}")
        if n in (10, 25):
            shards.split(f"shard-{shards.chance.randrange(5)}" if n == 10 else f"shard-{len(shards.parents) - 1}")
    assert own(stream.up_to_now()) == [f"a{n:02}" for n in range(40)]
    for n in range(20):
        shards.write(f"b{n:02}")
    assert own(stream.up_to_now()) == [f"b{n:02}" for n in range(20)]
    stream.clear()
    assert not stream.written


@pytest.mark.parametrize("seed", range(20))
def test_a_shard_that_splits_while_it_is_read_leaves_nothing_out(seed: int) -> None:
    shards = Shards(3, seed)
    for n in range(30):
        shards.write(f"a{n:02}")
    found = []
    for place, change in enumerate(fenced_stream(shards).up_to_now()):
        found.append(change)
        if place in (5, 12):
            shards.split(next(name for name in shards.parents if name not in shards.closed))
    assert own(found) == [f"a{n:02}" for n in range(30)]


def test_a_shard_that_shows_no_fence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fenced, "STREAM_DEADLINE", 0.0)
    shards = Shards(1)
    shards.write = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(CounterContention, match="showed no fence in time; nothing was set"):
        list(fenced_stream(shards).up_to_now())
