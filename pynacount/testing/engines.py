"""What an engine is: a DynamoDB to run tests and the demo against."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import ClassVar

from typing_extensions import Self

from pynacount.testing.environment import ISOLATED, environment, forget_clients


class Engine(ABC):
    """A DynamoDB that stands in for AWS's while the ``with`` block runs.

    Entering starts it and sets the process environment, so that every client made from then on by PynamoDB or
    boto3, with no settings of its own, reaches it. PynamoDB models that were used before are pointed at it too.
    Leaving stops it and puts the environment back. An engine can be entered again; it then starts empty.
    """

    name: ClassVar[str]
    """The name that :func:`engine` knows it by."""

    threads: ClassVar[bool]
    """Whether several threads may use it at once."""

    _clients_belong_to: ClassVar[str | None] = None
    """Where the clients that live now lead to, as far as an engine has decided it."""

    def __init__(self) -> None:
        self._stack: ExitStack | None = None

    @property
    def endpoint_url(self) -> str | None:
        """Where it listens, for a client that is given an endpoint by hand; None for an engine in process."""
        return None

    @abstractmethod
    def reset(self) -> None:
        """Drop all tables. Raises ``RuntimeError`` outside the ``with`` block."""

    @abstractmethod
    def _start(self, stack: ExitStack) -> None:
        """Start, leaving on ``stack`` what stops it again."""

    def _environment(self) -> dict[str, str | None]:
        """What it sets beyond :data:`ISOLATED`, once started."""
        return {}

    def __enter__(self) -> Self:
        if self._stack is not None:
            raise RuntimeError(f"the {self.name} engine is running already: leave it before entering it again")
        with ExitStack() as stack:
            stack.enter_context(environment(ISOLATED))
            self._start(stack)
            stack.enter_context(environment(self._environment()))
            self._claim_clients(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()

    def _claim_clients(self, stack: ExitStack) -> None:
        """Drop cached clients that lead elsewhere. They are kept where they can be: making one takes 20 ms or more."""
        before, here = Engine._clients_belong_to, self.endpoint_url or self.name

        def give_back() -> None:
            # After an engine in process nothing is left to reach, and the next test uses the same clients again.
            if before != here and (before is not None or self.endpoint_url is not None):
                forget_clients()
                Engine._clients_belong_to = before

        if before != here:
            forget_clients()
        Engine._clients_belong_to = here
        stack.callback(give_back)

    def _require_running(self) -> None:
        if self._stack is None:
            raise RuntimeError(f"the {self.name} engine is not running: use it inside its `with` block")


def engine(name: str) -> Engine:
    """A new engine by name: ``"moto"`` or ``"dynamodb-local"``. Raises ``ValueError`` for any other."""
    if name == "moto":
        from pynacount.testing.moto_engine import MotoEngine

        return MotoEngine()
    if name == "dynamodb-local":
        from pynacount.testing.dynamodb_local import DynamoDBLocalEngine

        return DynamoDBLocalEngine()
    raise ValueError(f"no engine is called {name!r}: choose one of {', '.join(ENGINES)}")


ENGINES = ("moto", "dynamodb-local")
"""The names that :func:`engine` takes."""
