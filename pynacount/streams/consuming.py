"""The consumer itself: a batch of records in, the counters moved, an answer out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pynamodb.exceptions import PynamoDBException

from pynacount.amounts import Amount
from pynacount.contributions import Tally, Target
from pynacount.errors import CounterContention, DeclarationError, StreamRecordError
from pynacount.fields import CounterField
from pynacount.markers import clock
from pynacount.model import CountedModel
from pynacount.relations import CountedIn
from pynacount.steps import Protocol
from pynacount.streams.keeping import Keeping, Way, keeping, streamed_relations
from pynacount.streams.marking import MARKER_HOURS, Marking, count_by_markers
from pynacount.streams.moves import Batch, ByFunctions, ByRelation, Counted, Step
from pynacount.streams.records import Change, read_change, sequence_of
from pynacount.streams.reports import BatchReport, Drift, Failed, Poisoned, Uncounted, log
from pynacount.streams.spots import Outcome, Spot
from pynacount.streams.watermarks import count_by_watermark

Of: TypeAlias = CounterField | CountedIn | type[CountedModel]
"""What a consumer is told to keep: a counter, a relation, or all of a model."""

TIME_KEPT = 0.1
"""The part of an invocation's time that is left for its answer."""


class StreamTally:
    """Keeps counters from the stream of their children's table; its ``lambda_handler`` is all that a Lambda needs.

    Each record counts once, however often it is delivered, by how many consumers, in whatever batches.

    :param of: counters (``FileCount.count``), relations (``Event.file``), children (``Event``) or parents: what is
        declared ``CountedIn(..., by="stream")``. With ``key``, one counter that no relation names.
    :param key: instead of a declaration: a function of an item, given as plain Python values, that returns the
        variables of the counter's key, or None for an item that does not count.
    :param amount: with ``key``: what an item counts for, a number or a function of the item.
    :param table: with ``key``: the table whose stream it is.
    :param once_by: ``"watermark"`` or ``"markers"``, where the choice by declaration is not wanted. A watermark loses
        counts without a word where a counter's records come from more than one partition of a table. That is refused
        where the declaration shows it; with ``key``, which may say anything, it is for the application to know.
    :param creates: whether the item of a counter is made where there is none; by default where its model has nothing
        but keys and counters.
    :param on_poisoned: told of a record that cannot be counted, which is then passed over. Without it
        :class:`StreamRecordError` is raised, after what comes before it was counted.
    :param on_drift: told of a counter that went past a bound.
    :param on_uncounted: told of records of a counter whose item does not exist.
    :param report_failures: answer with the records that failed, for an event source mapping that has
        ``ReportBatchItemFailures``; else the first failure is raised, and the whole batch comes again.
    :param skip_cancelled: write nothing where a counter's records cancel each other out, after a read of what is
        counted. Exact only while one consumer at a time reads a shard.
    :raises DeclarationError: for what is not kept from a stream.
    """

    def __init__(
        self,
        *of: Of,
        key: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None,
        amount: Callable[[Mapping[str, Any]], Any] | Amount = 1,
        table: str = "",
        once_by: Way | None = None,
        creates: bool | None = None,
        on_poisoned: Callable[[Poisoned], object] | None = None,
        on_drift: Callable[[Drift], object] | None = None,
        on_uncounted: Callable[[Uncounted], object] | None = None,
        report_failures: bool = True,
        skip_cancelled: bool = False,
    ) -> None:
        if once_by not in (None, "watermark", "markers"):
            raise DeclarationError(f'StreamTally(once_by={once_by!r}) is not known; write "watermark" or "markers"')
        relations: list[CountedIn] = []
        if key is not None:
            counter = _one_counter(of, table)
            counters = [counter]
            counted: list[Counted] = [ByFunctions(counter, table, key, amount)]
        else:
            relations = relations_of(of)
            counters = list({id(relation.counter): relation.counter for relation in relations}.values())
            counted = [ByRelation(relation) for relation in relations]
        self._counted: Sequence[Counted] = counted
        self.keepings: tuple[Keeping, ...] = tuple(
            keeping(c, [] if key is not None else streamed_relations(c), once_by, creates) for c in counters
        )
        self._by_tally: dict[Tally, Keeping] = {one.counter.tally: one for one in self.keepings}
        self._by_identity = {identity_of(one.counter): one.counter.tally for one in self.keepings}
        self.relations = tuple(relations)
        self.tables = tuple(dict.fromkeys(one.table for one in counted))
        self._on_poisoned, self._on_drift, self._on_uncounted = on_poisoned, on_drift, on_uncounted
        self._report_failures, self._skip_cancelled = report_failures, skip_cancelled

    def lambda_handler(self, event: Any, context: Any = None) -> dict[str, Any]:
        """Count the records of one invocation, and answer as ``ReportBatchItemFailures`` wants it.

        Raises :class:`StreamRecordError` for a record that cannot be counted, where there is no ``on_poisoned``; and
        without ``report_failures`` what kept a counter from being written.
        """
        remaining = getattr(context, "get_remaining_time_in_millis", None)
        seconds = None if remaining is None else remaining() / 1000 * (1 - TIME_KEPT)
        return self.handle(event, seconds=seconds).answer()

    def handle(self, event: Any, *, seconds: float | None = None) -> BatchReport:
        """As :meth:`lambda_handler`, but tells what became of the batch.

        :param seconds: after these, counters that are not written yet are given up as failed.
        """
        until = None if seconds is None else time.monotonic() + seconds
        report = BatchReport()
        batch, poison = self._read(event, report)
        report.moved = batch.moved
        for target, steps in batch.ordered().items():
            self._count(target, steps, report, until)
        if poison is not None:
            raise poison
        if report.failed and not self._report_failures:
            raise report.failed[0].error
        return report

    def model_of(self, table: str) -> Any:
        """A model whose settings say where a table is: one of its own, or else that of a counter."""
        for relation in self.relations:
            if relation.child_schema.table == table:
                return relation.owner
        return self.keepings[0].counter.owner

    # -- reading

    def _read(self, event: Any, report: BatchReport) -> tuple[Batch, StreamRecordError | None]:
        """The batch up to a record that cannot be counted, if that is to be raised."""
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, Sequence) or isinstance(records, (str, bytes)):
            raise StreamRecordError("the event has no Records: it is no invocation by a DynamoDB stream")
        batch = Batch(any(one.way == "markers" for one in self.keepings))
        for record in records:
            try:
                batch.take(self._change(record), self._counted, self._by_identity)
            except StreamRecordError as error:
                error.sequence = error.sequence or sequence_of(record)
                if self._on_poisoned is None:
                    return batch, error
                poisoned = Poisoned(record, error)
                report.poisoned.append(poisoned)
                log.warning("passed over: %s", error.msg)
                self._on_poisoned(poisoned)
            report.records += 1
        return batch, None

    def _change(self, record: Any) -> Change:
        change = read_change(record, self.tables[0] if len(self.tables) == 1 else "")
        if change.table not in self.tables:
            raise StreamRecordError(
                f"the record {change.sequence} is of table {change.table or '(none)'}, and what is counted lies in "
                f"{', '.join(self.tables)}: mend the event source mapping",
                change.sequence,
            )
        return change

    # -- counting

    def _count(self, target: Target, steps: Sequence[Step], report: BatchReport, until: float | None) -> None:
        tally, key = target
        try:
            if until is not None and time.monotonic() > until:
                raise CounterContention(f"{tally.label} of the item {key}: no time was left to write it")
            outcome = self._run(target, steps)
        except PynamoDBException as error:
            log.warning("%s of the item %s failed, and is to be delivered again: %s", tally.label, key, error)
            report.failed.append(Failed(tally.label, key, steps[0].sequence, error))
            return
        self._tell(target, outcome, report)

    def _run(self, target: Target, steps: Sequence[Step]) -> Outcome:
        """Run the protocol of one counter."""
        tally, key = target
        kept = self._by_tally[tally]
        driver = kept.counter.owner._counting.driver(f"{tally.label} of the item {key}")
        outcome: Outcome = driver.run(self.protocol(kept, target, steps))
        return outcome

    def protocol(self, kept: Keeping, target: Target, steps: Sequence[Step]) -> Protocol[Outcome]:
        """How the records of one counter are counted."""
        spot = Spot(*target, kept.creates, kept.bounds)
        if kept.way == "watermark":
            return count_by_watermark(spot, steps, skip_cancelled=self._skip_cancelled)
        return count_by_markers(spot, steps, marking_of(kept.counter, target), skip_cancelled=self._skip_cancelled)

    def _tell(self, target: Target, outcome: Outcome, report: BatchReport) -> None:
        tally, key = target
        report.repeated += outcome.repeated
        report.written += outcome.status in ("counted", "unseeded")
        report.unseeded += outcome.status == "unseeded"
        if outcome.status == "unseeded":
            log.info("%s of the item %s has no tally yet; its records wait for pynacount migrate", tally.label, key)
        if outcome.status == "missing":
            lost = Uncounted(tally.label, key, outcome.amount)
            report.uncounted.append(lost)
            log.warning("%s", lost)
            if self._on_uncounted is not None:
                self._on_uncounted(lost)
        bounds = self._by_tally[tally].bounds
        if outcome.number is not None and outcome.amount:
            bound = bounds.minimum if outcome.amount < 0 else bounds.maximum
            if bound is not None and (outcome.number < bound if outcome.amount < 0 else outcome.number > bound):
                drift = Drift(tally.label, key, outcome.number, outcome.amount, bound)
                report.drifts.append(drift)
                log.warning("%s", drift)
                if self._on_drift is not None:
                    self._on_drift(drift)


def identity_of(counter: CounterField) -> str:
    """What a fence calls a counter by: two programs may import its model under different names."""
    return f"{counter.owner._counting.table}/{counter.attr_name}"


def marking_of(counter: CounterField, target: Target) -> Marking:
    """Where the markers of one counter of one item are."""
    variables = counter.owner._counting.schema.read_key(target[1])
    markers = counter.markers
    return Marking(
        key=lambda source: markers.marker(f"stream-{source}", variables).key,
        expires_name=markers.expires_name,
        expires=int(clock()) + MARKER_HOURS * 3600,
    )


def relations_of(of: Sequence[Of]) -> list[CountedIn]:
    """The relations that count by stream, of all that a consumer was told to keep; each once."""
    found: dict[CountedIn, None] = {}
    if not of:
        raise DeclarationError("StreamTally() was not told what to keep; give it a counter, as in FileCount.count")
    for one in of:
        found.update(dict.fromkeys(_relations_of(one)))
    return list(found)


def _relations_of(one: Any) -> tuple[CountedIn, ...]:
    if isinstance(one, CounterField):
        return streamed_relations(one)
    if isinstance(one, CountedIn):
        if one.by == "stream":
            return (one,)
        raise DeclarationError(f'{one.label} counts by transaction; declare it CountedIn(..., by="stream")')
    if isinstance(one, type) and issubclass(one, CountedModel):
        counting = one._counting
        relations = tuple(relation for relation in counting.declared if relation.by == "stream")
        counters = [counter for counter in counting.counters.values() if counter.is_streamed]
        relations += tuple(relation for counter in counters for relation in streamed_relations(counter))
        if relations:
            return relations
        raise DeclarationError(
            f'{one.__name__} neither counts nor is counted in by stream; declare CountedIn(..., by="stream")'
        )
    raise DeclarationError(
        f"StreamTally({one!r}) must be given counters, relations or models, as in StreamTally(FileCount.count)"
    )


def _one_counter(of: Sequence[Of], table: str) -> CounterField:
    if len(of) != 1 or not isinstance(of[0], CounterField):
        raise DeclarationError("StreamTally(..., key=...) keeps one counter: give it as the first argument")
    counter = of[0]
    if counter.is_counted:
        raise DeclarationError(
            f"StreamTally({counter.label}, key=...): children are counted in it by a declaration; leave key= out"
        )
    if not table:
        raise DeclarationError(f'StreamTally({counter.label}, key=...) needs table="...", whose stream it reads')
    return counter
