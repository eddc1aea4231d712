"""The package and an application on it, as a type checker sees them; and that the types are true."""

from __future__ import annotations

import ast
import collections.abc
import configparser
import importlib.util
import sys
import types
import typing
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from mypy import api

import pynacount
from pynacount import errors, models, testing
from pynacount.refs import Ref

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pynacount"
APPLICATION = ROOT / "tests/typing/application.py"


def load_application() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("application", APPLICATION)
    assert spec is not None and spec.loader is not None
    module = sys.modules["application"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


application = load_application()


def complaints(source: str) -> str:
    """What ``mypy --strict`` says of a small application, after the usual imports."""
    header = "from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models\n"
    report, trouble, _ = api.run(["--strict", "--no-error-summary", "-c", header + dedent(source)])
    return report + trouble


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where mypy looks for its configuration and the package


def test_the_package_and_an_application_pass_strict_checking() -> None:
    """``mistakes.py`` is part of it: a mistake that the checker would not notice is an unused ``type: ignore``."""
    report, trouble, status = api.run(["--strict"])
    assert status == 0, report + trouble


def test_the_checker_really_looks_at_the_package_and_the_application() -> None:
    """Were the package not found, or untyped, everything would be Any and nothing would be wrong."""
    report, _, _ = api.run(["--strict", "-c", "import pynacount; reveal_type(pynacount.transaction())"])
    assert '"pynacount.transactions.Transaction"' in report
    listed, _, _ = api.run(["--strict", "--verbose", "--no-incremental", "-c", "import application"])
    del listed
