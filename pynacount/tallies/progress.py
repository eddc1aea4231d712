"""Where a pass over a table stands, kept in a file, so that it goes on where it stopped, also after a kill.

SQLite: each page is one small transaction, so the file is whole at every moment.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pynacount.errors import StateError
from pynacount.steps import Item

VERSION = 2


@dataclass(frozen=True, slots=True)
class Position:
    """Where a segment goes on: after which key, with which running group; ``done`` once it was read to its end."""

    start: Item | None
    group: str | None
    done: bool


class State:
    """The positions of the segments of one pass. Without a path they are kept in memory alone."""

    def __init__(self, path: str | Path | None, identity: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._path = path
        try:
            self._base = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute("CREATE TABLE IF NOT EXISTS pass (version INTEGER, identity TEXT)")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS segments (segment INTEGER PRIMARY KEY, start TEXT, part TEXT, done INTEGER)"
            )
            self._check(json.dumps(dict(identity), sort_keys=True))
        except sqlite3.DatabaseError as error:
            raise StateError(f"{path} is no state file of this command ({error}); name another file") from error

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

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()
