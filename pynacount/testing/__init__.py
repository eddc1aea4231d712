"""For tests: engines to run against, faults to inject, requests to look at.

Needs nothing beyond the library itself until an engine is entered: :class:`MotoEngine` then needs moto
(``pip install "pynacount[demo]"``), :class:`DynamoDBLocalEngine` Java 17 and npm.
"""

from pynacount.testing.answers import ErrorAnswer
from pynacount.testing.conflicts import Conflicts
from pynacount.testing.dynamodb_local import DynamoDBLocalEngine
from pynacount.testing.dynamodb_package import EngineUnavailable
from pynacount.testing.engines import ENGINES, Engine, engine
from pynacount.testing.exact import assert_exact
from pynacount.testing.fault_kinds import Fault
from pynacount.testing.faults import Call, FaultInjector
from pynacount.testing.moto_engine import MotoEngine
from pynacount.testing.recording import record_requests
from pynacount.testing.tables import create_tables

__all__ = [
    "ENGINES",
    "Call",
    "Conflicts",
    "DynamoDBLocalEngine",
    "Engine",
    "EngineUnavailable",
    "ErrorAnswer",
    "Fault",
    "FaultInjector",
    "MotoEngine",
    "assert_exact",
    "create_tables",
    "engine",
    "record_requests",
]
