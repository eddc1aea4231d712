"""Where the marks of a parent begin to be raised."""

from __future__ import annotations

import time


def birth_mark() -> int:
    """Where the uncounted writes and the fences of a parent begin to be counted.

    Never the same for two parents that have one key, one after the other: a seeder that slept over the change must not
    take the second for the first.
    """
    return time.time_ns()
