"""Numbers of things, as people write them."""

from __future__ import annotations


def several(number: int, one: str, many: str = "") -> str:
    """``1 parent``, ``2 parents``; ``many``: the plural where it is no mere ``s`` more."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tallies(number: int) -> str:
    """``1 tally``, ``2 tallies``."""
    return several(number, "tally", "tallies")
