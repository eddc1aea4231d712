"""Making one call of the library, and keeping all that there is to see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.client import BaseClient
from pynamodb.exceptions import PynamoDBException

from pynacount.connections import connection_for
from pynacount.demo.condensing import condense
from pynacount.demo.models import Post
from pynacount.demo.parts import Call
from pynacount.demo.watching import watched
from pynacount.plan import Plan
from pynacount.testing import Fault, FaultInjector


def call(
    code: str,
    act: Callable[[], object],
    *,
    expected: object = None,
    plan: Plan | None = None,
    wcu: float = 0,
    fault: Fault | None = None,
) -> Call:
    """Run ``act``, which is what ``code`` says; ``fault`` is what its first write meets.

    ``expected`` is the answer, or the name of an error; ``wcu`` what the plan should cost.
    """
    answer: object
    message = ""
    counted, plain = _clients()
    with FaultInjector(counted) as injector, watched(counted, plain) as requests:
        if fault is not None:
            injector.next(fault, operation="TransactWriteItems")
        try:
            answer = act()
        except PynamoDBException as error:
            answer, message = type(error).__name__, error.msg
    writes = [request for request in requests if request.operation not in ("GetItem", "Query")]
    planned = None if plan is None else (plan.operation, condense(plan.operation, plan.request()))
    return Call(
        code=code,
        requests=tuple(requests),
        answer=answer,
        expected=expected,
        wcu=0 if plan is None else plan.cost().wcu,
        expected_wcu=wcu,
        as_planned=planned is None or {(write.operation, write.lines) for write in writes} == {planned},
        message=message,
    )


def _clients() -> tuple[BaseClient, BaseClient]:
    """The one that counted operations use, and the one that PynamoDB itself reads with."""
    reading: Any = Post._get_connection().connection
    return connection_for(Post.Meta).client, reading.client
