"""All the tallies of a table that is live: seeding, auditing and repairing parent after parent.

A Lambda, a step function or a notebook can drive it: what is here gives iterators of results.
"""

from pynacount.tallies.auditing import audit
from pynacount.tallies.migrating import migrate
from pynacount.tallies.repairing import repair
from pynacount.tallies.results import Audited, Repaired, Seeded
from pynacount.tallies.saved import read_audit
from pynacount.tallies.scanning import Tracking

__all__ = ["Audited", "Repaired", "Seeded", "Tracking", "audit", "migrate", "read_audit", "repair"]
