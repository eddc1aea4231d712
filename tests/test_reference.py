"""The reference: its tables of signatures, of exit statuses and of a stack say what the code says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import pynacount
from pynacount import idempotency, relations, streams, tallies, transactions
from pynacount.commands import group

DOCS = Path(__file__).parent.parent / "docs"
REFERENCE = (DOCS / "reference.md").read_text()

OWNERS: dict[str, Any] = {
    "CountedModel": pynacount.CountedModel,
    "KeyAttribute": pynacount.KeyAttribute,
    "CounterField": pynacount.CounterField,
    "CountedIn": pynacount.CountedIn,
    "CountedSet": pynacount.CountedSet,
    "BoundSet": relations.BoundSet,
    "transaction": pynacount.transaction,
    "Transaction": transactions.Transaction,
    "uncounted": pynacount.uncounted,
    "idempotency_key": idempotency.idempotency_key,
    "StreamTally": streams.StreamTally,
    "streams": streams,
    "tallies": tallies,
}
MADE = ("KeyAttribute", "CounterField", "CountedIn", "CountedSet", "StreamTally")
"""Classes that an application makes instances of."""
FUNCTIONS = (
    *("transaction", "uncounted", "idempotency_key"),
    *("streams.seed", "streams.migrate", "streams.run"),
    *("tallies.migrate", "tallies.audit", "tallies.repair", "tallies.reshard"),
)


class Elided:
    """A default that has no text of its own."""

    def __repr__(self) -> str:
        return "..."


def members(owner: str) -> list[str]:
    """What the directives of the reference name of a class."""
    found = re.search(rf"autoclass:: pynacount\.[\w.]*\b{owner}\n   :members: (.*)", REFERENCE)
    return [] if found is None else [name for name in found[1].split(", ") if not name.startswith("_")]


def wanted() -> list[str]:
    names: list[str] = []
    for owner, thing in OWNERS.items():
        if owner in (*MADE, *FUNCTIONS):
            names.append(owner)
        if inspect.isclass(thing):
            names += [f"{owner}.{name}" for name in members(owner)]
    return names + [name for name in FUNCTIONS if "." in name]


def row(name: str) -> str:
    """The row of the table, as the code has it."""
    owner, _, rest = name.partition(".")
    thing = inspect.getattr_static(OWNERS[owner], rest) if rest else OWNERS[owner]
    thing = getattr(thing, "__func__", thing)
    found = inspect.signature(thing)
    parameters = [
        parameter.replace(
            annotation=inspect.Parameter.empty,
            default=Elided() if inspect.isfunction(parameter.default) else parameter.default,
        )
        for parameter in found.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    call = f"{name}{found.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"
    returns = str(found.return_annotation).replace("|", "\\|")
    if inspect.isclass(thing):
        return f"| `{call}` | `{name}` |"
    if hasattr(thing, "__wrapped__"):  # by contextmanager
        given = returns.removeprefix("Iterator[").removesuffix("]")
        return f"| `{call}` | for `with`, gives `{given}` |"
    return f"| `{call}` | `{returns}` |"


def test_the_table_of_signatures_is_that_of_the_code() -> None:
    section = REFERENCE.partition("## Signatures\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [row(name) for name in wanted()]


def test_every_command_has_its_exit_statuses() -> None:
    head = next(line for line in REFERENCE.splitlines() if line.startswith("| status |"))
    assert set(re.findall(r"`(\w+)`", head)) == set(group.commands)
    table = REFERENCE[REFERENCE.index(head) :].partition("\n\n")[0].splitlines()
    assert {line.count("|") for line in table} == {len(group.commands) + 2}


@pytest.mark.parametrize("page", ["howto/streams.md"])
def test_a_stack_makes_the_tables_that_the_models_name(page: str) -> None:
    text = (DOCS / page).read_text()
    stack = text.partition("```yaml\n")[2].partition("```")[0]
    made = dict(
        re.findall(r"^  (\w+):\n    Type: AWS::DynamoDB::Table\n    Properties:\n      TableName: (\w+)$", stack, re.M)
    )
    models = re.findall(r'^class (?:FileCount|Event)\(.*?table_name = "(\w+)"', text, re.M | re.S)
    assert sorted(made.values()) == sorted(models)
    assert stack.count("AWS::DynamoDB::Table\n") == len(made)


if __name__ == "__main__":
    print("\n".join(row(name) for name in wanted()))
