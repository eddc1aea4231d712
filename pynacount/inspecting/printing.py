"""Showing an inspection, for a person to read in 80 columns."""

from __future__ import annotations

import textwrap
from functools import singledispatchmethod

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from pynacount.amounts import Amount
from pynacount.inspecting.parts import Child, Family, FamilyEnd, Parent, Part, PlainSum, Price, Summary
from pynacount.inspecting.texts import notes, plain, price_of, printable, sum_of, verdict
from pynacount.protocols.standings import Standing

INDENT = "  "
NUMBER_WIDTH = 9
MOST_LABEL = 30
"""Columns of the longest name that is still in the table."""


class Printer:
    """Shows part after part."""

    def __init__(self, console: Console) -> None:
        """``console`` decides on width and colour."""
        self._console = console
        self._parent: Parent | None = None
        self._standings = 0

    @singledispatchmethod
    def show(self, part: Part) -> None:
        """Show one part."""
        raise TypeError(part)

    @show.register
    def _(self, part: Parent) -> None:
        self._parent = part
        size = f", {part.size} bytes" if part.item else ""
        self._line(Text(printable(f"{part.model} {part.key}"), "bold"))
        self._cut(f"table {part.key.table}{size}", "dim")
        if part.item is None:
            self._line(Text(f"{INDENT}There is no such item.", "bold red"))
            return
        shown = {name: value for name, value in part.item.items() if name not in part.key.names}
        width = min(max(map(cell_len, shown), default=0), MOST_LABEL)
        for name, value in sorted(shown.items()):
            self._cut(f"{printable(name):<{width}}  {plain(value)}")

    @show.register
    def _(self, part: Standing) -> None:
        assert self._parent is not None
        if not self._standings:
            self._line(Text())
            self._line(Text(INDENT + _row("counter", "tally", "count", "drift"), "dim"))
        self._standings += 1
        word = verdict(part)
        label = printable(part.counter)
        if cell_len(label) > MOST_LABEL:
            self._cut(label)
            label = ""
        row = _row(label, _shown(part.tally), _shown(part.count), _shown(part.drift))
        style = "bold red" if part.wrong else "green" if word == "ok" else "yellow"
        self._line(Text(f"{INDENT}{row}   ").append(word, style))
        for note in notes(part, self._parent):
            self._wrapped(note, INDENT * 2)

    @show.register
    def _(self, part: PlainSum) -> None:
        assert self._parent is not None
        self._line(Text())
        self._cut(f"{printable(part.counter)}, a plain counter: {_shown(part.tally)}")
        self._wrapped(sum_of(part, self._parent), INDENT * 2)

    @show.register
    def _(self, part: Family) -> None:
        self._line(Text())
        self._line(Text(f"{part.model}, counted in {', '.join(part.counters)}", "bold"))
        if part.problem:
            self._wrapped(part.problem, INDENT)

    @show.register
    def _(self, part: Child) -> None:
        assert self._parent is not None
        own = [f"{n}={v}" for n, v in part.variables.items() if n not in self._parent.variables]
        name = " ".join(own) or str(part.key)
        counts = " ".join(
            f"{amount:+}" if len(part.counts) == 1 else f"{label.rpartition('.')[2]}{amount:+}"
            for label, amount in part.counts.items()
        )
        rest = " ".join(f"{n}={plain(v)}" for n, v in sorted(part.item.items()) if n not in part.key.names)
        self._cut(printable("  ".join(filter(None, (name, counts, rest)))))
        if part.problem:
            self._wrapped(part.problem, INDENT * 2, "bold red")

    @show.register
    def _(self, part: FamilyEnd) -> None:
        if part.more:
            self._line(Text(f"{INDENT}... and more; --all shows all, -n N the first N", "dim"))
        elif not part.shown:
            self._line(Text(f"{INDENT}none", "dim"))
        if part.strays:
            self._wrapped(
                f"{part.strays} of the items here have keys that only begin like a {part.model}'s; they are counted "
                f"with them. Give them another sort key",
                INDENT,
                "yellow",
            )

    @show.register
    def _(self, part: Price) -> None:
        self._line(Text())
        self._wrapped(price_of(part), "")

    @show.register
    def _(self, part: Summary) -> None:
        self._line(Text())
        if part.clean:
            self._line(Text("No drift.", "bold green"))
        elif not part.exists:
            self._line(Text("The parent is missing.", "bold red"))
        elif part.wrong:
            self._wrapped(f"Wrong: {', '.join(part.wrong)}", "", "bold red")
        if part.exists and part.unknown:
            self._wrapped(f"Not told: {', '.join(part.unknown)}", "", "bold yellow")

    def _cut(self, text: str, style: str = "") -> None:
        """One line, cut where it is too long for the width."""
        room = self._console.width - len(INDENT)
        if cell_len(text) > room:
            text = set_cell_size(text, room - 3).rstrip() + "..."
        self._line(Text(INDENT + text.rstrip(), style))

    def _wrapped(self, text: str, indent: str, style: str = "") -> None:
        width = self._console.width
        for line in textwrap.wrap(printable(text), width, initial_indent=indent, subsequent_indent=indent):
            self._line(Text(line, style))

    def _line(self, text: Text) -> None:
        # Lines are laid out by now; rich is not to wrap them once more.
        self._console.print(text, soft_wrap=True)


def _row(label: str, *numbers: str) -> str:
    return "  ".join([f"{label:<{MOST_LABEL}}", *(f"{number:>{NUMBER_WIDTH}}" for number in numbers)])


def _shown(number: Amount | None) -> str:
    return "-" if number is None else str(number)
