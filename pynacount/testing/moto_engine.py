"""The engine in process: moto, taught to honour ``ClientRequestToken`` and the conditions of PartiQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar
from unittest import mock
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.httpsession import URLLib3Session

from pynacount.testing.engines import Engine
from pynacount.testing.moto_statements import batch_execute_statement
from pynacount.testing.tokens import TokenMemory, TokenReused


class MotoEngine(Engine):
    """`moto <https://docs.getmoto.org>`_ in this process: nothing to install but it, nothing to start.

    Moto ignores ``ClientRequestToken``; here a repeated token is answered as DynamoDB answers it: for ten minutes
    with success and without running again, or with ``IdempotentParameterMismatchException`` if the request differs.
    Moto ignores the conditions of PartiQL's ``UPDATE`` too; here they hold.
    Every botocore client is caught, whether it was made before or after moto was first imported.

    It copies whole tables on every transaction, so keep them small. It answers one request at a time, whatever the
    number of threads: enough for a server under development, and no place to look for races. Entering raises
    ``ImportError`` if moto is not installed.
    """

    name: ClassVar[str] = "moto"
    threads: ClassVar[bool] = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives the seconds by which tokens grow old."""
        super().__init__()
        self._tokens = TokenMemory(clock)

    def reset(self) -> None:
        """Drop all tables and forget all tokens."""
        self._require_running()
        from moto.core.models import MockAWS

        MockAWS().reset()
        self._tokens.clear()

    def _start(self, stack: ExitStack) -> None:
        try:
            from moto import mock_aws
            from moto.core.botocore_stubber import BotocoreStubber
            from moto.core.models import botocore_stubber
            from moto.dynamodb.responses import DynamoHandler
        except ImportError as error:
            raise ImportError(
                f'the moto engine needs moto, which is not installed: pip install "pynacount[demo]" ({error})'
            ) from error
        self._tokens.clear()
        stack.enter_context(mock_aws())
        in_turn = _one_at_a_time(BotocoreStubber.process_request)
        stack.enter_context(mock.patch.object(BotocoreStubber, "process_request", in_turn))
        stack.enter_context(mock.patch.object(URLLib3Session, "send", _answered_by(botocore_stubber)))
        stack.enter_context(mock.patch.object(DynamoHandler, "transact_write_items", self._transact_write_items()))
        stack.enter_context(mock.patch.object(DynamoHandler, "batch_execute_statement", batch_execute_statement))

    def _transact_write_items(self) -> Callable[[Any], Any]:
        from moto.core.responses import ActionResult
        from moto.dynamodb.exceptions import ERROR_TYPE_PREFIX, DynamodbException
        from moto.dynamodb.responses import DynamoHandler

        tokens, run = self._tokens, DynamoHandler.transact_write_items

        def transact_write_items(handler: Any) -> Any:
            token = handler.body.get("ClientRequestToken")
            if token is None:
                return run(handler)
            key, request = (handler.current_account, handler.region, token), _fingerprint(handler.body)
            try:
                if tokens.committed(key, request):
                    return ActionResult({"ConsumedCapacity": [], "ItemCollectionMetrics": {}})
            except TokenReused:
                raise DynamodbException(
                    ERROR_TYPE_PREFIX + "IdempotentParameterMismatchException",
                    "The ClientRequestToken was used before with another request",
                ) from None
            result = run(handler)
            tokens.remember(key, request)
            return result

        return transact_write_items


def _fingerprint(body: dict[str, Any]) -> str:
    """The request less what may differ between two sendings of it."""
    return json.dumps(
        {name: value for name, value in body.items() if name not in ("ClientRequestToken", "ReturnConsumedCapacity")},
        sort_keys=True,
        default=repr,
    )


def _one_at_a_time(process: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Moto's tables are not safe under threads: one request is answered after another."""
    lock = threading.RLock()

    def in_turn(stubber: Any, request: Any) -> Any:
        with lock:
            return process(stubber, request)

    return in_turn


def _answered_by(stubber: Callable[..., AWSResponse | None]) -> Callable[[URLLib3Session, Any], AWSResponse]:
    """A way to send that asks moto first.

    Moto hooks into clients as they are made, so it misses those made before it was imported; their requests would
    leave for AWS. What it does not answer is refused: a test or a demo must never reach a real table.
    """

    def answered(session: URLLib3Session, request: AWSPreparedRequest) -> AWSResponse:
        response = stubber("before-send", request)
        if response is None:
            raise RuntimeError(
                f"a request to {urlsplit(request.url).netloc} would leave this process: moto stands in for AWS alone. "
                f"While MotoEngine runs, set no Meta.host, no AWS_ENDPOINT_URL and no host in PynamoDB's settings"
            )
        return response

    return answered
