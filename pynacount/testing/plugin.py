"""The pytest plugin ``pynacount``: an engine for each test, empty, and the tables of the application's models.

It is there as soon as pynacount is installed. ``pytest --dynamodb dynamodb-local`` chooses the engine, or
``dynamodb_engine`` in the configuration; moto where nothing is said.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pynacount.testing.engines import ENGINES, Engine, engine
from pynacount.testing.tables import create_tables


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--dynamodb``, and what may be said in the configuration."""
    group = parser.getgroup("pynacount")
    group.addoption("--dynamodb", choices=ENGINES, help="the DynamoDB that the fixture `dynamodb` runs on")
    parser.addini(
        "dynamodb_engine", "the DynamoDB that the fixture `dynamodb` runs on: moto or dynamodb-local", default="moto"
    )
    parser.addini("dynamodb_models", "modules whose models' tables the fixture `counted_tables` creates", type="args")


@pytest.fixture(scope="session")
def _dynamodb_local() -> Iterator[Engine]:
    with engine("dynamodb-local") as running:  # one for all tests: it takes a second or two to start
        yield running


@pytest.fixture
def dynamodb(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The chosen engine, running and empty. No request of the test leaves for AWS."""
    name = request.config.getoption("--dynamodb") or request.config.getini("dynamodb_engine")
    if name not in ENGINES:
        raise pytest.UsageError(f"dynamodb_engine = {name}: choose one of {', '.join(ENGINES)}")
    if name == "moto":
        with engine(name) as running:
            yield running
    else:
        running = request.getfixturevalue("_dynamodb_local")
        running.reset()
        yield running


@pytest.fixture
def counted_tables(dynamodb: Engine, request: pytest.FixtureRequest) -> Callable[..., None]:
    """The tables of all models in the modules that ``dynamodb_models`` names; called with models, theirs too."""
    modules = request.config.getini("dynamodb_models")
    if not modules:
        raise pytest.UsageError(
            'counted_tables: name your models\' modules, as in dynamodb_models = ["app.models"]; or take the fixture '
            "dynamodb and pynacount.testing.create_tables(Post, Like)"
        )
    for module in modules:
        create_tables(*_models(module))
    return create_tables


def _models(module: str) -> list[Any]:
    from pynamodb.models import Model

    try:
        found = vars(importlib.import_module(module)).values()
    except ImportError as error:
        raise pytest.UsageError(f"dynamodb_models: {module} does not import: {error}") from error
    return [
        value
        for value in found
        if isinstance(value, type)
        and issubclass(value, Model)
        and getattr(getattr(value, "Meta", None), "table_name", None)
    ]
