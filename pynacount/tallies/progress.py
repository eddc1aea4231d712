"""Where a pass over a table stands, kept in a file, so that it goes on where it stopped, also after a kill.

SQLite: each page is one small transaction, so the file is whole at every moment.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pynacount.errors import StateError
from pynacount.steps import Item

VERSION = 3
LOCKED = 1.0
"""Seconds to wait for another run to let go of the file."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a segment goes on: after which key, with which running group; ``done`` once it was read to its end."""

    start: Item | None
    group: str | None
    done: bool


class Positions(Protocol):
    """Where the segments of one scan stand."""

    def position(self, segment: int) -> Position:
        """Where the segment goes on."""
        ...

    def save(self, segment: int, position: Position) -> None:
        """Keep the position."""
        ...


class State:
    """The positions of the segments of one pass, and what the pass keeps beside them. One run has it at a time.

    Without a path they are kept in a database of one's own, which SQLite writes to a temporary file only past its cache
    (https://sqlite.org/inmemorydb.html, "Temporary Databases").
    """

    def __init__(self, path: str | Path | None, identity: Mapping[str, Any]) -> None:
        self._lock = threading.RLock()
        self._path = path
        try:
            self._base = sqlite3.connect(path or "", timeout=LOCKED, check_same_thread=False, isolation_level=None)
        except sqlite3.DatabaseError as error:
            raise StateError(f"the state file {path} cannot be opened ({error}); name another file") from error
        try:
            self._open(json.dumps(dict(identity), sort_keys=True))
        except BaseException:
            self._base.close()
            raise

    def _open(self, identity: str) -> None:
        try:
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute("PRAGMA locking_mode=EXCLUSIVE")  # the lock goes with the process, killed or not
            self._base.execute("BEGIN EXCLUSIVE")
            self._base.execute("COMMIT")
            self._base.execute("CREATE TABLE IF NOT EXISTS pass (version INTEGER, identity TEXT)")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS segments (segment INTEGER PRIMARY KEY, start TEXT, part TEXT, done INTEGER)"
            )
            self._check(identity)
        except sqlite3.DatabaseError as error:
            if "locked" in str(error):
                raise StateError(f"{self._path} is in use by another run; give each run a file of its own") from error
            raise StateError(f"{self._path} is no state file of this command ({error}); name another file") from error

    def _check(self, identity: str) -> None:
        found = self._base.execute("SELECT version, identity FROM pass").fetchone()
        if found is None:
            self._base.execute("INSERT INTO pass VALUES (?, ?)", (VERSION, identity))
        elif found != (VERSION, identity):
            raise StateError(
                f"{self._path} is the state of another pass: {found[1]} (version {found[0]}), and this is {identity} "
                f"(version {VERSION}); give the same options, or name another file"
            )

    def position(self, segment: int) -> Position:
        """Where the segment goes on."""
        with self._lock:
            found = self._base.execute(
                "SELECT start, part, done FROM segments WHERE segment = ?", (segment,)
            ).fetchone()
        if found is None:
            return Position(None, None, False)
        return Position(json.loads(found[0]) if found[0] else None, found[1], bool(found[2]))

    def save(self, segment: int, position: Position) -> None:
        """Keep the position; it is on its way to the disk when this returns."""
        row = (segment, json.dumps(position.start) if position.start else None, position.group, int(position.done))
        with self._lock:
            self._base.execute("INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?)", row)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The database, for one thread. What is done to it in the block, positions included, is kept whole or not.

        Raises :class:`StateError` where it cannot be written.
        """
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
                try:
                    yield self._base
                    self._base.execute("COMMIT")
                finally:
                    if self._base.in_transaction:
                        self._base.execute("ROLLBACK")
            except sqlite3.DatabaseError as error:
                where = self._path or "a temporary file (SQLITE_TMPDIR says where)"
                raise StateError(
                    f"the state in {where} cannot be written: {error}; name a file on another disk"
                ) from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database, for one thread, to read what is kept beside the positions."""
        with self._lock:
            yield self._base

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()
