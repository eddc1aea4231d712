"""All the tallies of a table that is live: seeding, auditing and repairing parent after parent.

A Lambda, a step function or a notebook can drive it: what is here gives iterators of results.
"""

from pynacount.tallies.auditing import audit
from pynacount.tallies.migrating import Seeded, migrate
from pynacount.tallies.results import Audited
from pynacount.tallies.scanning import Tracking

__all__ = ["Audited", "Seeded", "Tracking", "audit", "migrate"]
