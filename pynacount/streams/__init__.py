"""Counters that are kept from the stream of a table, each record once."""

from pynacount.streams.consuming import StreamTally
from pynacount.streams.reports import BatchReport, Drift, Failed, Poisoned, Uncounted
from pynacount.streams.running import Delivered, GivenUp, run
from pynacount.streams.seeding import migrate, seed

__all__ = [
    "BatchReport",
    "Delivered",
    "Drift",
    "Failed",
    "GivenUp",
    "Poisoned",
    "StreamTally",
    "Uncounted",
    "migrate",
    "run",
    "seed",
]
