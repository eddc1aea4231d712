"""Deliveries as they must be feared of a stream: some twice, some overlapping, some cut in two, some cut short."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pynacount.contributions import Target
from pynacount.streams import StreamTally
from pynacount.streams.moves import Step
from pynacount.streams.spots import Outcome


class Trouble(Exception):
    """What a Lambda dies of."""


class Fragile(StreamTally):
    """Dies before the counter that ``die_before`` says, counted from now; never, where it is None."""

    die_before: int | None = None

    def _run(self, target: Target, steps: Sequence[Step]) -> Outcome:
        if self.die_before is not None:
            if self.die_before <= 0:
                raise Trouble("in the middle of a batch")
            self.die_before -= 1
        return super()._run(target, steps)


class Deliveries:
    """A handler that passes batches on to another, with trouble: each kind at its rate, by a seeded chance."""

    def __init__(self, tally: Fragile, seed: int, again: float = 0.2, cut: float = 0.1, crash: float = 0.1) -> None:
        self.tally, self.chance = tally, random.Random(seed)
        self.again, self.cut, self.crash = again, cut, crash
        self.met = {"again": 0, "cut": 0, "crash": 0, "batches": 0}
        self._last: list[Any] = []

    def __call__(self, event: dict[str, Any]) -> Any:
        records = event["Records"]
        self.met["batches"] += 1
        luck = self.chance.random()
        if luck < self.crash:
            self.met["crash"] += 1
            self.tally.die_before = self.chance.randrange(8)
        try:
            answer = self.tally.lambda_handler(event)
        finally:
            self.tally.die_before = None
        if self.crash <= luck < self.crash + self.cut and len(records) > 1:
            self.met["cut"] += 1
            raise Trouble("after the batch was counted, so that it comes again in two halves")
        if luck > 1 - self.again:
            self.met["again"] += 1
            back = [*self._last, *records]
            start = self.chance.randrange(len(back))
            self.tally.lambda_handler({"Records": back[start : start + len(records)]})
        self._last = records
        return answer


def changes(chance: random.Random, many: int, files: int, exponent: float) -> Iterator[tuple[str, int, str | None]]:
    """Changes of items as ``(verb, number of the item, file)``: three inserts for each delete and each update."""
    weights = [1 / place**exponent for place in range(1, files + 1)]
    names = [f"f{place}" for place in range(files)]
    drawn = iter(chance.choices(names, weights, k=many))
    there: list[int] = []
    for number in range(many):
        luck = chance.random()
        if luck < 0.6 or not there:
            there.append(number)
            yield "insert", number, next(drawn)
        elif luck < 0.8:
            yield "update", chance.choice(there), next(drawn)
        else:
            place = chance.randrange(len(there))
            there[place], there[-1] = there[-1], there[place]
            yield "delete", there.pop(), None


def article(client: Any, table: str, stop_after: int | None = None) -> Callable[[dict[str, Any]], Any]:
    """The article's handler, as field guide 1c has it: one write for each record, guarded against going below 0."""

    def handler(event: dict[str, Any]) -> None:
        for done, record in enumerate(event["Records"]):
            if done == stop_after:
                raise Trouble("in the middle of a batch")
            name = record["dynamodb"].get("NewImage", record["dynamodb"].get("OldImage"))["fileName"]
            request: dict[str, Any] = {
                "TableName": table,
                "Key": {"fileName": name},
                "UpdateExpression": "ADD #count :by",
                "ExpressionAttributeNames": {"#count": "count"},
                "ExpressionAttributeValues": {":by": {"N": "1"}},
            }
            if record["eventName"] == "INSERT":
                client.update_item(**request)
            elif record["eventName"] == "REMOVE":
                request["ConditionExpression"] = "#count > :zero"
                request["ExpressionAttributeValues"] = {":by": {"N": "-1"}, ":zero": {"N": "0"}}
                client.update_item(**request)

    return handler
