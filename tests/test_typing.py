"""The package and an application on it, as a type checker sees them; and that the types are true."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
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
IMPORTS = """\
from __future__ import annotations

from typing import Any

from pynacount import CountedIn, CountedModel, CountedSet, CounterField, KeyAttribute, models

"""


def load_application() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("application", APPLICATION)
    assert spec is not None and spec.loader is not None
    module = sys.modules["application"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


application = load_application()


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where mypy finds its configuration and the package."""
    monkeypatch.chdir(ROOT)


@pytest.fixture
def complaints(tmp_path: Path) -> Callable[[str], str]:
    """What ``mypy --strict`` says of a small application: its errors and revealed types, one a line."""

    def check(source: str) -> str:
        file = tmp_path / "small.py"
        file.write_text(IMPORTS + dedent(source))
        report, trouble, _ = api.run(["--strict", "--no-error-summary", str(file)])
        return (report + trouble).replace(f"{file}:", "small.py:")

    return check


# -- what the checker says


def test_the_package_and_an_application_pass_strict_checking() -> None:
    """``mistakes.py`` is part of it: a mistake that the checker would not notice is an unused ``type: ignore``."""
    report, trouble, status = api.run(["--strict"])
    assert status == 0, report + trouble


def test_mypy_of_this_project_checks_the_package_and_the_application_strictly() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '\nfiles = ["pynacount", "tests/typing", "docs/examples"]\n' in text
    assert "\nstrict = true\n" in text


def test_the_application_uses_every_public_name() -> None:
    used = {node.id for node in ast.walk(tree()) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree()) if isinstance(node, ast.Attribute)}
    public = {*pynacount.__all__, *testing.__all__, *own_classes(models), *own_classes(errors)}
    assert public <= used, public - used


def test_the_application_uses_every_member_that_the_reference_lists() -> None:
    listed = re.findall(r"^   :members: (.+)$", (ROOT / "docs/reference.md").read_text(), re.MULTILINE)
    members = {name for line in listed for name in line.split(", ")}
    assert {"add", "value", "cost"} <= members
    used = {node.attr for node in ast.walk(tree()) if isinstance(node, ast.Attribute)}
    assert members - {"__iter__"} <= used, members - used


def own_classes(module: types.ModuleType) -> set[str]:
    return {
        name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module.__name__
    }


POST = """
class Post(CountedModel):
    class Meta:
        table_name = "Social"

    post_id: str
    pk = KeyAttribute("POST#{post_id}#{part}", hash_key=True, attr_name="PK")
    like_tally = CounterField(attr_name="likeTally")
"""


def test_a_key_variable_has_the_type_that_it_is_declared_with(complaints: Callable[[str], str]) -> None:
    assert complaints(POST + "\nid: str = Post(post_id='a', part='b').post_id\n") == ""
    assert '"Post" has no attribute "part"' in complaints(POST + "\nprint(Post(post_id='a', part='b').part)\n")


def test_a_subclass_may_be_of_few_lines_and_adds_to_the_types_of_its_base(complaints: Callable[[str], str]) -> None:
    source = """
        class Post(models.PostMeta):
            class Meta:
                table_name = "Social"

        class Like(models.Like):
            post = CountedIn(Post.like_tally)

            class Meta:
                table_name = "Social"

        ref: Post = Post.ref(post_id="a")
        tally: int | None = ref.like_tally
        for like in ref.likes:
            name: str = like.user_id
    """
    assert complaints(source) == ""


LIKE = """
class Like(CountedModel):
    class Meta:
        table_name = "Social"

    pk = KeyAttribute("POST#{post_id}", hash_key=True, attr_name="PK")
    sk = KeyAttribute("LIKE#{user_id}", range_key=True, attr_name="SK")
    post = CountedIn(Post.like_tally)
"""


def test_a_set_whose_child_is_named_by_a_string_needs_no_annotation(complaints: Callable[[str], str]) -> None:
    """As the README and the tutorial write it; what it iterates over is Any then."""
    source = POST + '    likes = CountedSet("Like", tally="like_tally")\n' + LIKE
    assert complaints(source) == ""


def test_a_subclass_says_of_which_model_its_inherited_set_is(complaints: Callable[[str], str]) -> None:
    source = """
        class Post(models.PostMeta):
            likes: CountedSet[Like]

        class Like(models.Like):
            stars: int

        def stars(post: Post) -> list[int]:
            return [like.stars for like in post.likes]
    """
    assert complaints(source) == ""


# -- that it is true


def test_membership_is_refused_in_favour_of_contains(tables: Callable[..., None]) -> None:
    tables(*application.TABLES)
    application.Post(post_id="a").save()
    likes = application.Post.ref(post_id="a").likes
    likes.add(user_id="u")
    with pytest.raises(TypeError, match=r"contains\(user_id="):
        _ = application.Like(post_id="a", user_id="u") in likes


def tree() -> ast.Module:
    return ast.parse(APPLICATION.read_text())


def agrees(value: Any, kind: Any) -> bool:
    """Whether a value is what a checker takes it for."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin in (typing.Union, types.UnionType):
        return any(agrees(value, argument) for argument in arguments)
    if origin is typing.Literal:
        return value in arguments
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    if isinstance(value, Ref):  # typed as its model, as ref() says
        return repr(value).startswith(f"{kind.__name__}.ref(")
    if not isinstance(value, origin or kind):
        return False
    if origin is dict:
        return all(agrees(name, arguments[0]) and agrees(item, arguments[1]) for name, item in value.items())
    if origin is tuple:
        return all(agrees(item, argument) for item, argument in zip(value, arguments, strict=True))
    if origin in (list, set):
        return all(agrees(item, arguments[0]) for item in value)
    return True


def asserted_lines(program: Callable[[], None]) -> set[int]:
    name = program.__name__
    function = next(node for node in tree().body if isinstance(node, ast.FunctionDef) and node.name == name)
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return {call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "assert_type"}


@pytest.mark.parametrize("program", application.PROGRAMS, ids=lambda program: program.__name__)
def test_what_the_checker_is_told_is_true_when_it_runs(
    program: Callable[[], None], tables: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: set[int] = set()

    def checked(value: Any, kind: Any) -> Any:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        reached.add(frame.f_back.f_lineno)
        assert agrees(value, kind), f"line {frame.f_back.f_lineno}: {value!r} is no {kind}"
        return value

    monkeypatch.setattr(application, "assert_type", checked)
    tables(*application.TABLES)
    program()
    assert reached == asserted_lines(program)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, int),
        (True, int),
        (1, bool),
        ("1", int | None),
        ({1: None}, dict[int, int]),
        ([1, "1"], list[int]),
        ((1,), tuple[str]),
        ("b", typing.Literal["a"]),
        (application.Like.ref(post_id="a", user_id="u"), application.Post),
    ],
)
def test_a_type_that_is_untrue_is_noticed(value: Any, kind: Any) -> None:
    assert not agrees(value, kind)


# -- that it is shipped


def shipped() -> list[str]:
    """The patterns of files beside the modules that are installed."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.packages.find"]["include"].split() == ["pynacount", "pynacount.*"]
    return setup["options.package_data"]["*"].split()


def is_shipped(path: Path) -> bool:
    """A pattern is taken from each package's own folder."""
    folders = [folder for folder in path.parents if (PACKAGE / folder / "__init__.py").exists()]
    return any(fnmatch(str(path.relative_to(folder)), pattern) for folder in folders for pattern in shipped())


def test_the_package_ships_its_mark_of_being_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert "py.typed" in shipped()


def test_every_file_of_the_package_is_shipped() -> None:
    beside = [
        path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    forgotten = [str(path) for path in beside if path.suffix != ".py" and not is_shipped(path)]
    assert forgotten == []


def test_every_folder_of_the_package_is_a_package_that_setuptools_finds() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []
