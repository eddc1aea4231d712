"""What DynamoDB remembers of a ``ClientRequestToken``."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

TOKEN_LIFETIME = 600.0
"""Seconds for which a token is remembered after its transaction finished (TransactWriteItems API reference)."""


class TokenReused(Exception):
    """A token came again with another request (``IdempotentParameterMismatchException``)."""


@dataclass(frozen=True, slots=True)
class _Commit:
    request: str
    at: float


class TokenMemory:
    """Remembers which transactions were committed under which token, for ten minutes.

    Only commits are remembered: the token of a cancelled transaction is as good as new. AWS's own DynamoDB Local
    does the same.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds."""
        self._clock = clock
        self._commits: dict[Hashable, _Commit] = {}

    def committed(self, token: Hashable, request: str) -> bool:
        """Whether ``request`` was committed under ``token`` already. Raises :class:`TokenReused` if another was."""
        commit = self._commits.get(token)
        if commit is None or self._clock() - commit.at > TOKEN_LIFETIME:
            return False
        if commit.request != request:
            raise TokenReused(token)
        return True

    def remember(self, token: Hashable, request: str) -> None:
        """``request`` has just been committed under ``token``."""
        now = self._clock()
        for old in [key for key, commit in self._commits.items() if now - commit.at > TOKEN_LIFETIME]:
            del self._commits[old]
        self._commits[token] = _Commit(request, now)

    def clear(self) -> None:
        """Forget all."""
        self._commits.clear()
