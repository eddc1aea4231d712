"""Injecting the faults that no local engine has."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import TracebackType
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.client import BaseClient
from typing_extensions import Self

from pynacount.testing.answers import ErrorAnswer, Reason
from pynacount.testing.fault_kinds import DATA_OPERATIONS, Effect, Fault, Lose, Refuse, effect_of
from pynacount.testing.wire import operation_of, parsed_body

# botocore calls the handlers of the more specific event first, so the decision falls before anything else happens,
# and what was decided is done after the recorder has seen the request, but before moto, which listens at the same
# event, would run it.
_DECIDE = "before-send.dynamodb.*"
_ACT = "before-send"

_NOWHERE = "http://answered.invalid/"
"""An address that no engine answers: every handler is called even if one has answered, and moto goes by the URL."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request that came by an injector, and what was done to it (None: nothing)."""

    operation: str
    fault: Fault | ErrorAnswer | None


@dataclass(frozen=True, slots=True)
class _Scripted:
    fault: Fault | ErrorAnswer | None
    operation: str | None

    def hits(self, operation: str, request: dict[str, Any]) -> bool:
        if self.operation is None:
            if operation not in DATA_OPERATIONS:
                return False
        elif operation != self.operation:
            return False
        return not isinstance(self.fault, Fault) or self.fault.can_hit(operation, request)


class FaultInjector:
    """Makes requests of botocore clients fail as they fail in production, on any engine.

    Two ways, which can be mixed; a script comes first::

        with FaultInjector(connection.client) as injector:
            injector.next(Fault.LOST_RESPONSE, Fault.CONFLICT, operation="TransactWriteItems")
            ...

        with FaultInjector(client, rates={Fault.CONFLICT: 0.10, Fault.THROTTLE: 0.05}, seed=7):
            ...

    Faults happen below botocore's retries: each attempt is a call of its own, and the client's settings decide what
    the application sees. May be used by threads; with several of them the seed fixes how many faults there are, not
    whom they hit.
    """

    def __init__(
        self,
        *clients: BaseClient,
        rates: Mapping[Fault, float] | None = None,
        seed: int = 0,
        operations: Collection[str] | None = None,
    ) -> None:
        """``rates`` gives each fault's probability per call, 0 to 1; together they may not pass 1.

        ``operations`` narrows the rates to these (default: all operations on items). A fault that cannot hit a
        request, such as a conflict a ``GetItem``, leaves it alone. Raises ``ValueError``.
        """
        self._rates = dict(rates or {})
        if any(rate < 0 for rate in self._rates.values()) or sum(self._rates.values()) > 1:
            raise ValueError(f"rates must be 0 or more and add up to 1 at most: {self._rates}")
        self._clients = clients
        self._operations = DATA_OPERATIONS if operations is None else frozenset(operations)
        self._chance = Random(seed)
        self._script: list[_Scripted] = []
        self._lock = threading.Lock()
        self._decided = threading.local()
        self._handlers: list[tuple[BaseClient, str, Callable[..., Any], str]] = []
        self.log: list[Call] = []
        """Every request that came by, in order."""

    def next(self, *faults: Fault | None, operation: str | None = None) -> None:
        """Let the next calls meet these faults, in this order (None: the call passes unharmed).

        Each fault waits for the first call of ``operation`` (default: any on items) that it can hit.
        """
        with self._lock:
            self._script += [_Scripted(fault, operation) for fault in faults]

    def next_error(
        self,
        code: str,
        message: str = "",
        *,
        status: int = 400,
        reasons: Sequence[Reason] | None = None,
        operation: str | None = None,
    ) -> None:
        """Answer the next call with this error, without sending it.

        ``code`` is the exception's name, ``reasons`` the cancellation reasons of a transaction: for each write a
        code, a mapping with ``Code``, ``Message``, ``Item``, or None.
        """
        error = ErrorAnswer(code, message, status, None if reasons is None else tuple(reasons))
        with self._lock:
            self._script.append(_Scripted(error, operation))

    @property
    def pending(self) -> int:
        """How many faults of the script have not happened yet."""
        return len(self._script)

    @property
    def injected(self) -> int:
        """How many calls met a fault."""
        return sum(call.fault is not None for call in self.log)

    def __enter__(self) -> Self:
        for client in self._clients:
            handlers: list[tuple[str, Callable[..., Any]]] = [
                (_DECIDE, self._decide),
                (_ACT, partial(self._act, client)),
            ]
            for event, handler in handlers:
                unique_id = f"pynacount-injector-{id(self)}-{event}"
                client.meta.events.register_first(event, handler, unique_id)
                self._handlers.append((client, event, handler, unique_id))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        while self._handlers:
            client, event, handler, unique_id = self._handlers.pop()
            client.meta.events.unregister(event, handler, unique_id)

    def _decide(self, request: AWSPreparedRequest, event_name: str, **_: Any) -> None:
        operation, parameters = operation_of(event_name), parsed_body(request)
        effect: Effect | None = None
        with self._lock:
            fault = self._pick(operation, parameters)
            self.log.append(Call(operation, fault))
            if isinstance(fault, Fault):
                effect = effect_of(fault, operation, parameters, str(request.url), self._chance)
            else:
                effect = fault
        self._decided.effect = effect
        if isinstance(effect, Refuse):
            raise effect.error

    def _pick(self, operation: str, parameters: dict[str, Any]) -> Fault | ErrorAnswer | None:
        for place, scripted in enumerate(self._script):
            if scripted.hits(operation, parameters):
                return self._script.pop(place).fault
        if not self._rates or operation not in self._operations:
            return None
        drawn = self._chance.random()
        for fault, rate in self._rates.items():
            if drawn < rate:
                return fault if fault.can_hit(operation, parameters) else None
            drawn -= rate
        return None

    def _act(self, client: BaseClient, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        effect, self._decided.effect = getattr(self._decided, "effect", None), None
        if isinstance(effect, ErrorAnswer):
            url, request.url = str(request.url), _NOWHERE
            return effect.response(url)
        if isinstance(effect, Lose):
            _run(client, request)
            raise effect.error
        return None


def _run(client: BaseClient, request: AWSPreparedRequest) -> None:
    """Send the request as botocore would go on to do, and drop the answer."""
    moto = sys.modules.get("moto.core.models")
    if moto is None or moto.botocore_stubber("before-send", request) is None:
        endpoint: Any = vars(client)["_endpoint"]
        endpoint.http_session.send(request)
