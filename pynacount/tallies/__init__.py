"""Tallies of whole tables: seeding them, one parent after another, while the table is live.

The commands are thin over what is here; a Lambda, a step function or a notebook can drive it as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pynacount.tallies.migrating import Seeded, Tracking, migrate
    from pynacount.tallies.repairing import Repair

_HOMES = {"Repair": "repairing", "Seeded": "migrating", "Tracking": "migrating", "migrate": "migrating"}

__all__ = ["Repair", "Seeded", "Tracking", "migrate"]


def __getattr__(name: str) -> Any:
    """Import on demand: what an application declares is built on some of these modules, and some on it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
