"""Whole tables that are live: seeding all their parents, one after another, by a scan that counts as it goes.

A Lambda, a step function or a notebook can drive it: what is here gives iterators of results.
"""

from pynacount.tables.migrating import Seeded, Tracking, migrate

__all__ = ["Seeded", "Tracking", "migrate"]
