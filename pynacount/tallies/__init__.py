"""All the tallies of a table that is live: seeding, auditing, repairing and resharding parent after parent.

A Lambda, a step function or a notebook can drive it: what is here gives iterators of results.
"""

from pynacount.tallies.auditing import audit
from pynacount.tallies.migrating import migrate
from pynacount.tallies.repairing import repair
from pynacount.tallies.resharding import reshard
from pynacount.tallies.results import Audited, Repaired, Seeded, Spread
from pynacount.tallies.saved import read_audit
from pynacount.tallies.scanning import Tracking

__all__ = ["Audited", "Repaired", "Seeded", "Spread", "Tracking", "audit", "migrate", "read_audit", "repair", "reshard"]
