"""Showing the demonstration, for a person to read in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from functools import singledispatchmethod

from rich.console import Console
from rich.text import Text

from pynacount.demo.parts import Call, Part, Request, Scene, Seeding, Verdict, shown

INDENT = "  "
MOST_STATEMENTS = 2
"""Statements of one request that are shown."""
INTRODUCTION = (
    "How many children an item has is kept on the item itself, and stays exact whatever happens. All of this runs in "
    "this process, on moto; nothing leaves the machine. Requests are shown as they were sent, condensed, with values "
    "in place of their placeholders. WCU is the price of the call's plan; DynamoDB charges for a refused write too."
)


class Printer:
    """Shows part after part, and collects what was wrong."""

    def __init__(self, console: Console) -> None:
        """``console`` decides on width and colour."""
        self.wrong: list[str] = []
        self._console = console
        self._number = 0

    def show(self, part: Part) -> None:
        """Show one part."""
        if not self._number:
            self._line(Text("pynacount demo", "bold"))
            self._wrapped(INTRODUCTION, indent="")
        self._show(part)
        self.wrong += part.wrong()

    def conclude(self) -> None:
        """Say whether all was right, or what was wrong."""
        self._line(Text())
        if not self.wrong:
            self._line(Text("All right: every number, every answer, every expected error.", "bold green"))
            return
        self._line(Text(f"Wrong, {len(self.wrong)} in all:", "bold red"))
        for text in self.wrong:
            self._wrapped(f"- {text}", "red", hang=INDENT)

    @singledispatchmethod
    def _show(self, part: Part) -> None:
        raise TypeError(part)

    @_show.register
    def _(self, part: Seeding) -> None:
        self._title("A table that was never counted")
        self._wrapped(
            f"{part.women} women, {len(part.events)} events, {part.attendances} attendances (Davis, Gardner and "
            f"Gardner, Deep South, 1941), written without this library: no event has a tally. While it has none, no "
            f"writer of this library adds or removes a child, so what one scan counts is right, however long it takes."
        )
        self._call(part.call)
        self._line(Text())
        self._table(
            ("event", "tally before", "tally now", "published"),
            [((e.event, shown(e.before), shown(e.tally), str(e.published)), e.right) for e in part.events],
        )

    @_show.register
    def _(self, part: Scene) -> None:
        self._title(part.title)
        self._wrapped(part.why)
        for call in part.calls:
            self._call(call)
        self._line(Text())
        self._outcome(f"tally {shown(part.before)} -> {shown(part.after)}", part.after == part.expected_after)
        for fact in part.facts:
            self._outcome(fact.text, fact.holds)

    @_show.register
    def _(self, part: Verdict) -> None:
        self._title("The verdict")
        self._wrapped("Every tally, beside its children counted now by PynamoDB's own query, without this library.")
        self._line(Text())
        self._table(
            ("parent", "tally", "count", "drift"),
            [((s.parent, shown(s.tally), str(s.count), str(s.drift)), s.right) for s in part.standings],
        )

    def _call(self, call: Call) -> None:
        self._line(Text())
        self._at_ends(Text(f">>> {call.code}", "bold"), Text(f"{call.wcu:g} WCU" if call.wcu else ""))
        for request in call.requests:
            self._request(request)
        if call.answer is not None or call.expected is not None:
            self._outcome(str(call.answer), call.answer == call.expected)
        if call.message:
            self._wrapped(call.message, "dim", indent=INDENT * 2)

    def _request(self, request: Request) -> None:
        lines = request.lines
        if request.operation == "TransactWriteItems":
            self._wrapped(f"{request.operation}  token {(request.token or 'none')[:8]}", "cyan", indent=INDENT * 2)
        else:
            lines = (f"{request.operation} {lines[0]}", *lines[1:])
        if request.operation == "BatchExecuteStatement" and len(lines) > MOST_STATEMENTS:
            rest = f"and {len(lines) - MOST_STATEMENTS} more like these"
            lines = (*lines[:MOST_STATEMENTS], rest)
        for line in lines:
            self._written(line, INDENT * (3 if request.operation == "TransactWriteItems" else 2))
        self._wrapped(f"=> {request.came}", "cyan", indent=INDENT * 2)

    def _written(self, line: str, indent: str) -> None:
        """One item of a request; its condition goes to a line of its own where the room is short."""
        if len(indent + line) <= self._console.width:
            self._line(Text(indent + line))
            return
        write, mark, condition = line.partition("  if ")
        for text in (write, mark.strip() + " " + condition):
            self._wrapped(text, indent=indent, hang=INDENT * 2)
            indent += INDENT

    def _title(self, title: str) -> None:
        self._number += 1
        self._line(Text())
        self._line(Text(f"{self._number}. {title}", "bold cyan"))

    def _outcome(self, text: str, right: bool) -> None:
        self._at_ends(Text(text), _mark(right))

    def _at_ends(self, left: Text, right: Text) -> None:
        """``left`` at the left margin; ``right`` at the right one, or on a line of its own."""
        line = Text(INDENT).append_text(left)
        if right:
            gap = self._console.width - line.cell_len - right.cell_len
            line.append(" " * gap if gap > 0 else "\n" + " " * (self._console.width - right.cell_len))
            line.append_text(right)
        self._line(line)

    def _table(self, header: Sequence[str], rows: Iterable[tuple[Sequence[str], bool]]) -> None:
        """The first column to the left, numbers to the right, and at the end whether the row is right."""
        widths = [max(len(name), 9) for name in header]
        self._line(Text(INDENT + _row(header, widths), "dim"))
        for cells, right in rows:
            self._line(Text(f"{INDENT}{_row(cells, widths)}   ").append_text(_mark(right)))

    def _wrapped(self, text: str, style: str = "", indent: str = INDENT, hang: str = "") -> None:
        width = self._console.width
        for line in textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + hang):
            self._line(Text(line, style))

    def _line(self, text: Text) -> None:
        # Lines are laid out by now; rich is not to wrap them once more.
        self._console.print(text, soft_wrap=True)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "   ".join([f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in rest)])


def _mark(right: bool) -> Text:
    return Text("ok", "green") if right else Text("WRONG", "bold red")
