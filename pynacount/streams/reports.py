"""What a consumer of a stream tells of a batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pynacount.amounts import Amount
from pynacount.errors import StreamRecordError
from pynacount.keys import ItemKey

log = logging.getLogger("pynacount.streams")


@dataclass(frozen=True, slots=True)
class Drift:
    """A counter went past a bound: what the stream says was applied, and something else must be wrong.

    ``number`` is what it is now, ``by`` what the batch moved it by, ``bound`` the one it is past.
    """

    counter: str
    key: ItemKey
    number: Amount
    by: Amount
    bound: Amount

    def __str__(self) -> str:
        return (
            f"{self.counter} of the item {self.key} is {self.number} after it was moved by {self.by}, past its bound "
            f"of {self.bound}: it has drifted. Count it anew: pynacount migrate --anew, or pynacount.streams.seed(..., "
            f"anew=True)"
        )


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A record that cannot be counted, and why. It counts for nothing."""

    record: Mapping[str, Any]
    error: StreamRecordError

    @property
    def sequence(self) -> str:
        """Its sequence number; empty where it has none."""
        return self.error.sequence


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Records of a counter whose item does not exist and is not made: there is no number to keep.

    ``by`` is what they came to.
    """

    counter: str
    key: ItemKey
    by: Amount

    def __str__(self) -> str:
        return (
            f"{self.counter}: the item {self.key} does not exist in table {self.key.table}, so records that come to "
            f"{self.by} are counted nowhere. Where such items are to be made, write StreamTally(..., creates=True)"
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """A counter that could not be written; ``sequence`` is the first of its records in the batch."""

    counter: str
    key: ItemKey
    sequence: str
    error: Exception


@dataclass(slots=True)
class BatchReport:
    """What became of one batch.

    ``records`` were read, ``moved`` of them count for something. ``written``: counters that were written to;
    ``repeated``: records that were counted before; ``unseeded``: counters whose records were summed up for a seeder,
    as they have no tally yet.
    """

    records: int = 0
    moved: int = 0
    written: int = 0
    repeated: int = 0
    unseeded: int = 0
    drifts: list[Drift] = field(default_factory=list)
    poisoned: list[Poisoned] = field(default_factory=list)
    uncounted: list[Uncounted] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)

    def add(self, other: BatchReport) -> None:
        """Take up another batch's report: all its figures and lists."""
        self.records += other.records
        self.moved += other.moved
        self.written += other.written
        self.repeated += other.repeated
        self.unseeded += other.unseeded
        self.drifts += other.drifts
        self.poisoned += other.poisoned
        self.uncounted += other.uncounted
        self.failed += other.failed

    @property
    def lowest_failed(self) -> str:
        """The sequence number from which Lambda has to deliver again; empty where all went well."""
        return min((failure.sequence for failure in self.failed), key=int, default="")

    def answer(self) -> dict[str, list[dict[str, str]]]:
        """What Lambda is answered under ``ReportBatchItemFailures``.

        It delivers again from the lowest sequence number on (AWS: "Configuring partial batch response with DynamoDB
        and Lambda"), so that one is all it needs.
        """
        lowest = self.lowest_failed
        return {"batchItemFailures": [{"itemIdentifier": lowest}] if lowest else []}
