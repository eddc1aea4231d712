"""Drives a protocol against DynamoDB: sends, retries, and says what came of it.

The whole of the decision what a *definite* refusal means is the protocol's. What is decided here is what is
no answer at all: a conflict, a throttle, a 500, a lost connection. Those are tried again, under one deadline and,
for one logical operation, under one ``ClientRequestToken``, so that a try that did land is not run twice.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ProxyConnectionError,
)
from pynamodb import exceptions as pynamodb_errors
from pynamodb.connection import Connection

from pynacount.errors import CounterContention, OutcomeUnknown
from pynacount.steps import CONDITION_FAILED, Answer, Protocol, Reason, Refusal, Send, Wait

T = TypeVar("T")

FIRST_BACKOFF = 0.025
"""Seconds: the most that is waited before the second try; doubled for each further one."""
MAX_BACKOFF = 1.0
"""Seconds: the most that is waited between two tries."""

AGAIN = (
    "Adding, discarding, saving or deleting the same item again is safe: it is counted once. For an update() that "
    "adds, read the item first"
)
"""What to do when an outcome is unknown."""

CANCELED = "TransactionCanceledException"
REFUSED = "ConditionalCheckFailedException"
INVALID = "ValidationException"
_TRANSIENT = frozenset(
    {
        "TransactionConflictException",
        "TransactionInProgressException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "Throttling",
        "LimitExceededException",
        "ServiceUnavailable",
        "InternalServerError",
        "InternalFailure",
    }
)
_TRANSIENT_REASONS = frozenset(
    {"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError", "RequestLimitExceeded"}
)
_NEVER_SENT = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)
_READS = frozenset({"GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems"})
_ERRORS: dict[str, type[pynamodb_errors.PynamoDBException]] = {
    "TransactWriteItems": pynamodb_errors.TransactWriteError,
    "PutItem": pynamodb_errors.PutError,
    "UpdateItem": pynamodb_errors.UpdateError,
    "DeleteItem": pynamodb_errors.DeleteError,
    "GetItem": pynamodb_errors.GetError,
    "BatchGetItem": pynamodb_errors.GetError,
    "Query": pynamodb_errors.QueryError,
    "Scan": pynamodb_errors.ScanError,
}


@dataclass(frozen=True, slots=True)
class Driver:
    """Runs protocols on one connection. ``deadline`` in seconds; ``about`` opens an error message."""

    connection: Connection
    deadline: float
    about: Callable[[], str]
    renew: bool = False
    """Whether each answered step renews the deadline: for work that is long because there is much of it."""
    retrying: Callable[[str], None] | None = None
    """Told what was met, whenever something is tried again."""
    again: str = AGAIN
    """What an error says of calling again, where the outcome is unknown."""
    spent: float = 0.0
    """Seconds of the deadline that had passed before the protocol began."""

    def run(self, protocol: Protocol[T]) -> T:
        """Drive the protocol to its end and return its result.

        Raises what the protocol raises; :class:`CounterContention` when the deadline passed and nothing of the step
        was written; :class:`OutcomeUnknown` when it passed and that is not known.
        """
        until = time.monotonic() + self.deadline - self.spent
        answer: Answer = {}
        transaction: Send | None = None
        token = ""
        tries = 0
        try:
            step = next(protocol)
            while True:
                if type(step) is Send:
                    again = step is transaction
                    if again:
                        tries += 1  # the same operation under the same token: something was mended under it
                    elif step.operation == "TransactWriteItems":
                        transaction, token, tries = step, os.urandom(16).hex(), 0
                    if (again and tries > 1) or time.monotonic() > until:
                        self._pause(tries, until, None, unknown=False)
                    answer = self._send(step, token if step is transaction else "", until)
                    if self.renew:
                        until = time.monotonic() + self.deadline
                elif isinstance(step, Wait):
                    time.sleep(step.seconds)
                    if not step.spends:
                        until += step.seconds
                    answer = {}
                step = protocol.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, step: Send, token: str, until: float) -> Answer:
        unknown = False
        attempt = 0
        while True:
            request = dict(step.request)  # PynamoDB adds to what it is given
            if token:
                request["ClientRequestToken"] = token
            try:
                return self.connection.dispatch(step.operation, request)
            except ClientError as wrapped:
                # PynamoDB's own wrapper leaves out the item that a refusal returns.
                error = wrapped.__cause__ if isinstance(wrapped.__cause__, ClientError) else wrapped
                refusal = read_refusal(error)
                if refusal is not None and step.operation not in _READS:
                    return replace(refusal, in_doubt=True) if unknown and not token else refusal
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                unknown = unknown or (status >= 500 and step.operation not in _READS)
                if not is_transient(error):
                    raise self._failed(step, error, unknown=unknown) from error
                cause: Exception = error
            except (HTTPClientError, ConnectionError) as lost:
                unknown = unknown or not (isinstance(lost, _NEVER_SENT) or step.operation in _READS)
                cause = lost
            except BotoCoreError as local:
                raise self._failed(step, local, unknown=unknown) from local
            attempt += 1
            self._pause(attempt, until, cause, unknown=unknown, reads=step.operation in _READS)

    def _pause(
        self, attempt: int, until: float, cause: Exception | None, *, unknown: bool, reads: bool = False
    ) -> None:
        """Full jitter: between nothing and an exponentially growing bound (AWS Architecture Blog, 2015)."""
        if self.retrying is not None:
            self.retrying(_what_was_met(cause))
        delay = random.uniform(0, min(MAX_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt - 1, 16)))
        if time.monotonic() + delay < until:
            time.sleep(delay)
            return
        met = _what_was_met(cause)
        if unknown:
            raise OutcomeUnknown(
                f"{self.about()}: the answer to a write was lost, and within {self.deadline:g} s it could not be "
                f"learnt whether it landed ({met}). {self.again}",
                cause,
            ) from cause
        came = "no answer came" if reads else "nothing was written"
        raise CounterContention(
            f"{self.about()}: {came} within {self.deadline:g} s ({met}). Try again later, or raise "
            f"Meta.counted_deadline",
            cause,
        ) from cause

    def _failed(self, step: Send, error: Exception, *, unknown: bool) -> pynamodb_errors.PynamoDBException:
        if unknown and step.operation not in _READS:
            return OutcomeUnknown(
                f"{self.about()}: the answer to a write was lost, and asking again failed ({error}). {self.again}",
                error,
            )
        return failure(step.operation, self.about(), error)


def failure(operation: str, about: str, error: Exception) -> pynamodb_errors.PynamoDBException:
    """PynamoDB's own error for what is neither a refusal nor passes by itself: no rights, no table, no region."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
    hint = "; create the table, or mend Meta.table_name, Meta.region and Meta.host" if "NotFound" in code else ""
    return _ERRORS.get(operation, pynamodb_errors.PynamoDBException)(f"{about}: {error}{hint}", error)


def is_transient(error: ClientError) -> bool:
    """Whether the same request may well pass a moment later: conflict, throttle, or a fault of the service."""
    code = error.response.get("Error", {}).get("Code", "")
    if code == CANCELED:
        return any(reason.get("Code") in _TRANSIENT_REASONS for reason in error.response.get("CancellationReasons", ()))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return code in _TRANSIENT or status >= 500 or status == 429


def read_refusal(error: ClientError) -> Refusal | None:
    """The definite refusal in an error, or None where the error settles nothing.

    One transient reason makes the whole cancellation transient: asked again, the service answers the rest.
    """
    response: Any = error.response
    code = response.get("Error", {}).get("Code", "")
    message = response.get("Error", {}).get("Message", "")
    if code == CANCELED:
        reasons = response.get("CancellationReasons", ())
        if not reasons or is_transient(error):
            return None
        return Refusal(code, tuple(_reason(reason) for reason in reasons), message)
    if code == REFUSED:
        return Refusal(code, (Reason(CONDITION_FAILED, response.get("Item"), message),), message)
    if code == INVALID:
        return Refusal(code, (), message)
    return None


def _reason(reason: dict[str, Any]) -> Reason | None:
    if reason.get("Code", "None") == "None":
        return None
    return Reason(reason["Code"], reason.get("Item") or None, reason.get("Message") or "")


def _what_was_met(cause: Exception | None) -> str:
    if cause is None:
        return "other writers kept changing the item"
    if isinstance(cause, ClientError):
        error: Any = cause.response
        reasons = [r.get("Code") for r in error.get("CancellationReasons", ()) if r.get("Code", "None") != "None"]
        return ", ".join(dict.fromkeys(reasons)) or error.get("Error", {}).get("Code", "")
    return f"{type(cause).__name__}: {cause}"
