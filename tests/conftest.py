"""The engine that the tests run on, chosen by ``--engine``, and the tables on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from pynacount import marks
from pynacount.testing import ENGINES, DynamoDBLocalEngine, Engine, MotoEngine, create_tables

# The time of one example is the engine's, and says nothing about the code.
settings.register_profile("pynacount", deadline=None)
settings.register_profile("search", deadline=None, max_examples=500)  # --hypothesis-profile=search looks longer
settings.load_profile("pynacount")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=ENGINES, default="moto", help="the DynamoDB to run on (default: moto)")


def pytest_report_header(config: pytest.Config) -> str:
    return f"engine: {config.getoption('--engine')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--engine") == "moto":
        skip = pytest.mark.skip(reason="needs an engine that is safe under threads")
        for item in items:
            if item.get_closest_marker("real_engine"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[Engine]:
    """One DynamoDB Local for all tests: it takes a second or two to start."""
    with DynamoDBLocalEngine() as engine:
        yield engine


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The chosen engine, running and empty."""
    if request.config.getoption("--engine") == "moto":
        with MotoEngine() as engine:
            yield engine
    else:
        engine = request.getfixturevalue("dynamodb_local")
        engine.reset()
        yield engine


@pytest.fixture
def tables(engine: Engine) -> Callable[..., None]:
    """``tables(Post, Like)`` creates the tables of these models, one for all that share it."""
    return create_tables


@pytest.fixture
def marks_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks of every parent begin at 0, so that a test can tell how often they were raised."""
    monkeypatch.setattr(marks, "birth_mark", lambda: 0)
