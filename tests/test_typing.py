"""The package and an application on it, as a type checker sees them; and that the types are true."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent
APPLICATION = runpy.run_path(str(ROOT / "tests/typing/application.py"), run_name="application")


def test_the_package_and_an_application_pass_strict_checking(monkeypatch: pytest.MonkeyPatch) -> None:
    """``mistakes.py`` is part of it: a mistake that the checker would not notice is an unused ``type: ignore``."""
    monkeypatch.chdir(ROOT)
    report, trouble, status = api.run(["--strict"])
    assert status == 0, report + trouble


@pytest.mark.parametrize("program", APPLICATION["PROGRAMS"], ids=lambda program: program.__name__)
def test_what_the_checker_is_told_is_true_when_it_runs(program: Callable[[], Any], tables: Callable[..., None]) -> None:
    tables(*APPLICATION["TABLES"])
    program()


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files("pynacount").joinpath("py.typed").is_file()
