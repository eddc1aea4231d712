"""Counters that are kept from the stream of a table, each record once."""

from pynacount.streams.consuming import StreamTally
from pynacount.streams.reports import BatchReport, Drift, Failed, Poisoned, Uncounted

__all__ = ["BatchReport", "Drift", "Failed", "Poisoned", "StreamTally", "Uncounted"]
