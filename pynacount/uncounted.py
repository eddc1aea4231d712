"""Children written without counting, for a backfill; never silently wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pynacount.writing.blocks import Uncounted, uncounted_block


@contextmanager
def uncounted() -> Iterator[Uncounted]:
    """Within the block, children are saved and deleted without moving a tally.

    Each such write takes its parent's tally away in the same transaction, so that what is present stays exact; the
    parent is counted again when it is next needed, or by ``seed(ref)``. Yields an object with the keys of the parents
    that were ``unseeded``, and of those that are ``missing``: children were written for them, and they do not exist.
    Save a missing parent within such a block too: there it is born without a tally, and so is counted when it is first
    needed. Outside it would be born with 0.

    It holds for the current thread or task; a thread that is started inside it counts.
    """
    block = Uncounted()
    token = uncounted_block.set(block)
    try:
        yield block
    finally:
        uncounted_block.reset(token)
