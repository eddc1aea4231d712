"""The documentation: its snippets run, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pynamodb.models import Model

import pynacount
from pynacount import errors, testing
from pynacount.testing import create_tables

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TO_READ = "python title="
"""A snippet that is shown but not run is marked so: ```python title="settings.py"."""


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path) -> list[tuple[int, str]]:
    """The Python blocks of a page, each with the number of its first line."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)) + 1, match[1]) for match in found]


def create_new_tables(names: dict[str, Any]) -> None:
    models = [v for v in names.values() if inspect.isclass(v) and issubclass(v, Model) and hasattr(v, "Meta")]
    create_tables(*[model for model in models if getattr(model.Meta, "table_name", None)])


class Checker(doctest.OutputChecker):
    """Lets a page leave out DynamoDB's response, which ``save()`` and ``delete()`` return."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return (not want and got.startswith("{")) or super().check_output(want, got, optionflags)


FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run(page: Path, line: int, source: str, names: dict[str, Any]) -> None:
    if ">>> " not in source:
        exec(compile("\n" * (line - 1) + source, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(source, names, page.name, str(page), line - 1)
    told: list[str] = []
    doctest.DocTestRunner(Checker(), optionflags=FLAGS).run(test, out=told.append, clear_globs=False)
    names.update(test.globs)
    assert not told, "".join(told)


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=page_id)
def test_the_snippets_of_a_page_run_and_print_what_it_says(page: Path, engine: testing.Engine) -> None:
    names: dict[str, Any] = {"__name__": f"docs_{page.stem.replace('-', '_')}"}
    for line, source in snippets(page):
        run(page, line, source, names)
        create_new_tables(names)


def test_few_snippets_are_only_to_be_read() -> None:
    assert sum(page.read_text().count(TO_READ) for page in PAGES) <= 5


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=page_id)
def test_every_page_is_in_the_table_of_contents(page: Path) -> None:
    contents = (ROOT / "docs/index.md").read_text()
    name = str(page.relative_to(ROOT / "docs").with_suffix(""))
    assert name == "index" or f"\n{name}\n" in contents


REFERENCE = (ROOT / "docs/reference.md").read_text()


@pytest.mark.parametrize("name", [n for n in pynacount.__all__ if n != "errors"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert f":: pynacount.{name}\n" in REFERENCE


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_for_tests_is_documented(name: str) -> None:
    assert f":: pynacount.testing.{name}\n" in REFERENCE or f"`{name}`" in REFERENCE


@pytest.mark.parametrize(
    "name", [n for n, v in vars(errors).items() if inspect.isclass(v) and v.__module__ == "pynacount.errors"]
)
def test_every_error_is_in_the_reference(name: str) -> None:
    assert f"`{name}`" in REFERENCE


def test_the_ci_runs_the_commands_of_the_readme_word_for_word() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    (tests,) = [command for command in commands if command.endswith("pytest")]
    assert f"\n{tests}\n" in (ROOT / ".ci/run").read_text()
