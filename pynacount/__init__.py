"""Counters that cannot go wrong, on DynamoDB, over PynamoDB."""

from pynacount import errors
from pynacount.fields import CounterField, KeyAttribute
from pynacount.model import CountedModel
from pynacount.relations import CountedIn, CountedSet
from pynacount.transactions import transaction
from pynacount.uncounted import uncounted

__version__ = "0.1.0"

__all__ = [
    "CountedIn",
    "CountedModel",
    "CountedSet",
    "CounterField",
    "KeyAttribute",
    "errors",
    "transaction",
    "uncounted",
]
