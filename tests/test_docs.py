"""The documentation: its snippets run, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

import pynacount
from pynacount import (
    CountedIn,
    CountedModel,
    CountedSet,
    CounterField,
    KeyAttribute,
    errors,
    models,
    testing,
    uncounted,
)
from pynacount.connections import connection_for
from pynacount.plan import Plan
from pynacount.relations import BoundSet
from pynacount.testing import Fault, FaultInjector, create_tables, record_requests
from pynacount.transactions import Transaction

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
    """The files of the pages on web frameworks are run by ``test_web_pages.py``."""
    pages = [page for page in PAGES if page.name not in ("django.md", "flask.md")]
    assert sum(page.read_text().count(TO_READ) for page in pages) <= 6


AS_A_READER = r"""
import gc, re, sys
from pathlib import Path
from tests.test_docs import run
page, names = Path(sys.argv[1]), {"__name__": "__main__"}
for block in re.findall(r"^```python.*?\n(.*?)^```", page.read_text(), re.M | re.S):
    run(page, 1, block, names)
    gc.collect()  # what the page does not keep is gone
"""


def test_the_tutorial_runs_in_a_fresh_interpreter_with_nothing_but_moto(pytestconfig: pytest.Config) -> None:
    """As a reader goes through it: with the snippets that the test above leaves out, and no table made for it."""
    if pytestconfig.getoption("--engine") != "moto":
        pytest.skip("the page is written for moto")
    command = [sys.executable, "-c", AS_A_READER, str(ROOT / "docs/tutorial.md")]
    without_aws = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(command, cwd=ROOT, env=without_aws, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_snippet_that_prints_something_else_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Expected"):
        run(tmp_path / "page.md", 1, ">>> 1 + 1\n3\n", {})


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
    assert contents.count(f"\n{name}\n") == (0 if name == "index" else 1)


REFERENCE = (ROOT / "docs/reference.md").read_text()


@pytest.mark.parametrize("name", [n for n in pynacount.__all__ if n != "errors"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert f":: pynacount.{name}\n" in REFERENCE


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_for_tests_is_documented(name: str) -> None:
    assert f":: pynacount.testing.{name}\n" in REFERENCE or f"`{name}`" in REFERENCE


def members(*classes: type) -> Iterator[tuple[str, str]]:
    """The methods and properties that a class itself defines, and does not hide by an underscore."""
    for class_ in classes:
        for name, value in vars(class_).items():
            if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, (property, classmethod))):
                yield class_.__name__, name


FOR_PYNAMODB = {
    *("from_raw_data", "deserialize"),
    *("get_save_kwargs_from_instance", "get_update_kwargs_from_instance", "get_delete_kwargs_from_instance"),
}
"""What overrides a method of PynamoDB's that applications do not call."""


@pytest.mark.parametrize(
    ("owner", "name"), list(members(CountedModel, BoundSet, Transaction, Plan, FaultInjector)), ids="{}".format
)
def test_every_verb_is_in_the_reference(owner: str, name: str) -> None:
    if name in FOR_PYNAMODB or (owner, name) == ("Plan", "send"):
        return
    listed = re.search(rf"autoclass:: \S+\.{owner}\n   :members: (.*)$", REFERENCE, re.MULTILINE)
    assert listed and name in listed[1].split(", ")


def test_every_verb_of_a_counter_is_in_the_reference() -> None:
    takes_a_ref = {n for n, v in vars(CounterField).items() if inspect.isfunction(v) and {"ref", "refs"} & signature(v)}
    listed = re.search(r"autoclass:: pynacount.CounterField\n   :members: (.*)$", REFERENCE, re.MULTILINE)
    assert listed and takes_a_ref == set(listed[1].split(", "))


def signature(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


ERRORS = [n for n, v in vars(errors).items() if inspect.isclass(v) and v.__module__ == "pynacount.errors"]


def errors_table() -> dict[str, list[str]]:
    """Of each row that begins with a name, the other cells."""
    rows = [line.strip("| ").split(" | ") for line in REFERENCE.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): [cell.strip() for cell in row[1:]] for row in rows}


@pytest.mark.parametrize("name", ERRORS)
def test_the_reference_says_of_every_error_when_it_is_raised_what_was_written_and_what_to_do(name: str) -> None:
    row = errors_table()[name]
    assert len(row) == 3 and all(row)


def raised_in(source: str) -> set[str]:
    return set(re.findall(r"(?:raise|return) (\w+)\(", source))


def test_the_errors_that_the_reference_says_are_raised_are() -> None:
    raised = set().union(*(raised_in(path.read_text()) for path in (ROOT / "pynacount").rglob("*.py")))
    never = {name for name, row in errors_table().items() if row[0].startswith("never yet")}
    assert never == {name for name in ERRORS if name not in raised}


def test_the_ci_runs_the_commands_of_the_readme_word_for_word() -> None:
    commands = re.findall(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    steps = "\n" + (ROOT / ".ci/run").read_text()
    demo, tests = commands
    assert f"\n{tests}\n" in steps
    assert f"\n{demo.rpartition(' && ')[2]}\n" in steps  # in the environment that the tests were run in


FLOORS = re.findall(r"^\| [^|]+ \| (`[^|]*`) \|$", (ROOT / "docs/design.md").read_text(), re.MULTILINE)


def imported(module: ast.Module) -> Iterator[str]:
    """The modules of pynacount that are imported at run time, each by the name that stands in the table."""
    todo: list[ast.AST] = [module]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pynacount."):
            yield node.module.split(".")[1]
        todo += ast.iter_child_nodes(node)


def test_a_module_imports_only_from_its_own_floor_and_those_below() -> None:
    height = {name.strip("`"): -place for place, row in enumerate(FLOORS) for name in row.split(", ")}
    files = {path: path.relative_to(ROOT / "pynacount") for path in (ROOT / "pynacount").rglob("*.py")}
    beside = {"testing", "demo", "commands", "contrib", "cli", "data", "__init__"}
    for path, name in files.items():
        floor = name.parts[0].removesuffix(".py")
        if floor in beside:
            continue
        for other in imported(ast.parse(path.read_text())):
            assert height[other] <= height[floor], f"{name} imports {other}"


# -- the table of costs: each row names the requests


class Page(CountedModel):
    class Meta:
        table_name = "Wiki"

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("META", range_key=True, attr_name="SK")
    text = UnicodeAttribute(null=True)
    tally = CounterField(attr_name="tally", on_delete="cascade", settle=0)
    views = CounterField(attr_name="views")
    fans: CountedSet[Any] = CountedSet("Fan", tally="tally")


class Fan(CountedModel):
    class Meta:
        table_name = "Wiki"

    pk = KeyAttribute("PAGE#{page_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("FAN#{name}", range_key=True, attr_name="SK")
    weight = NumberAttribute(default=1)
    page = CountedIn(Page.tally, amount="weight")


HOME = {"page_id": "home"}
ADA = {"name": "ada"}
FANS = [{"name": f"fan{number}"} for number in range(98)]
PAGES_OF_A_FEED = [Page.ref(page_id=str(number)) for number in range(100)]
TRANSACTION, READ, QUERY = "TransactWriteItems", "GetItem", "Query"
REQUESTS: list[tuple[str, Callable[[], Any], list[str]]] = [
    ("a like, an unlike", lambda: Page.ref(**HOME).fans.add(name="bob"), [TRANSACTION]),
    ("a double like", lambda: Page.ref(**HOME).fans.add(name="ada"), [TRANSACTION]),
    ("contribution varies, not loaded", lambda: Page.ref(**HOME).fans.discard(name="ada"), [READ, TRANSACTION]),
    ("over an item that exists", lambda: Page(**HOME, text="hi").save(), ["PutItem", "UpdateItem"]),
    ("that only sets values", lambda: Page(**HOME).update([Page.text.set("hi")]), ["UpdateItem"]),
    (
        "a condition or a version",
        lambda: Page(**HOME).update([Page.text.set("hi")], Page.sk.exists()),
        [TRANSACTION, READ],
    ),
    ('under `"cascade"`', lambda: Page(**HOME).delete(), ["UpdateItem", QUERY, TRANSACTION, "DeleteItem"]),
    (
        "`repair()` by a fence",
        lambda: Page.tally.repair(Page.ref(**HOME)),
        ["UpdateItem", READ, READ, QUERY, "UpdateItem"],
    ),
    ("of a plain counter", lambda: Page.views.increment(Page.ref(**HOME)), ["UpdateItem"]),
    ("the same with `once=`", lambda: Page.views.increment(Page.ref(**HOME), once="t"), [TRANSACTION, READ]),
    ("`compare_and_set()`", lambda: Page.views.compare_and_set(Page.ref(**HOME), 0, 1), [TRANSACTION]),
    ("`values()` of 100", lambda: Page.tally.values([Page.ref(page_id=str(n)) for n in range(100)]), ["BatchGetItem"]),
    ("`add_many()`, `discard_many()`", lambda: Page.ref(**HOME).fans.add_many(FANS), [TRANSACTION]),
    ("where some are there already", lambda: Page.ref(**HOME).fans.add_many([*FANS, ADA]), [TRANSACTION, TRANSACTION]),
    ("`increment_many()` of 100", lambda: Page.views.increment_many(PAGES_OF_A_FEED, workers=1), ["UpdateItem"] * 100),
    ("`page()` of 50", lambda: Page.fans.page(PAGES_OF_A_FEED), ["BatchGetItem"]),
    ("parents with a viewer", lambda: Page.fans.page(PAGES_OF_A_FEED[:50], ADA), ["BatchGetItem"]),
    ("`recount()`", lambda: Page.ref(**HOME).fans.recount(), [READ, QUERY]),
]


@pytest.mark.parametrize(("row", "call", "requests"), REQUESTS, ids=[row for row, *_ in REQUESTS])
def test_an_operation_takes_the_requests_that_the_table_of_costs_names(
    row: str, call: Callable[[], Any], requests: list[str], engine: testing.Engine
) -> None:
    assert row in (ROOT / "docs/costs.md").read_text()
    create_tables(Page, Fan)
    Page(**HOME).save()
    Page.ref(**HOME).fans.add(name="ada")
    with record_requests(connection_for(Page.Meta).client) as sent:
        call()
    assert [operation for operation, _ in sent] == requests


# -- what the pages have to warn of: a page can promise it once these pass


class Zero(models.PostMeta):
    class Meta:
        table_name = "Zero"

    like_tally = CounterField(attr_name="likeTally", missing="zero", settle=0)
    likes: CountedSet[Any] = CountedSet("ZeroLike", tally="like_tally")


class ZeroLike(models.Like):
    class Meta:
        table_name = "Zero"

    post = CountedIn(Zero.like_tally)


def test_uncounted_writes_of_a_counter_that_starts_from_zero_are_refused(engine: testing.Engine) -> None:
    create_tables(Zero, ZeroLike)
    Zero(post_id="a91f").save()
    with uncounted(), pytest.raises(errors.UncountedWrite, match="zero"):
        ZeroLike(post_id="a91f", user_id="7c20").save()
    assert Zero.like_tally.value(Zero.ref(post_id="a91f")) == 0


def test_a_counter_that_starts_from_zero_is_not_repaired_by_a_fence(engine: testing.Engine) -> None:
    create_tables(Zero, ZeroLike)
    Zero(post_id="a91f").save()
    with pytest.raises(errors.DeclarationError, match='Declare missing="seed"'):
        Zero.like_tally.repair(Zero.ref(post_id="a91f"))


class Video(CountedModel):
    class Meta:
        table_name = "Video"
        counted_deadline = 0.1

    pk = KeyAttribute("VIDEO#{video_id}", hash_key=True, attr_name="PK")
    plays = CounterField(attr_name="plays")


def test_who_adds_by_update_is_not_told_that_calling_again_is_safe(engine: testing.Engine) -> None:
    create_tables(Video)
    Video(video_id="9f3a").save()
    with FaultInjector(connection_for(Video.Meta).client) as injector:
        injector.next(Fault.LOST_RESPONSE, *[Fault.REFUSED_CONNECTION] * 30)
        with pytest.raises(errors.OutcomeUnknown) as told:
            Video(video_id="9f3a").update(actions=[Video.plays.add(1)])
    assert "will not count twice" not in str(told.value)
