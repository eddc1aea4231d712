"""Texts and numbers as they stand in HTML: nothing that came from a user is markup there."""

from __future__ import annotations

from html import escape

from pynacount.amounts import Amount
from pynacount.inspecting.texts import printable
from pynacount.keys import ItemKey

NONE = '<span class="none" title="none">&ndash;</span>'


def text(value: str) -> str:
    """One line of text. What is not printable is spelled out, so nothing turns the line around or hides in it."""
    return escape(printable(value))


def lines(value: str) -> str:
    """A text of several lines."""
    return "\n".join(map(text, value.splitlines()))


def number(value: Amount | None, *, sign: bool = False) -> str:
    """An amount with all its digits, in groups of three; ``sign`` also shows a plus."""
    if value is None:
        return NONE
    return f"{value:+,}" if sign and value else f"{value:,}"


def many(count: int, one: str) -> str:
    """``1 tally``, ``1,200 tallies``."""
    return f"{count:,} {one if count == 1 else one.removesuffix('y') + 'ies' if one.endswith('y') else one + 's'}"


def key(value: ItemKey) -> str:
    """A key as ``str()`` has it; the names of its attributes stand back behind the values."""
    parts = zip(value.names, value.values, strict=True)
    return " ".join(
        f'<span class="part"><i>{text(name)}=</i>{text(repr(content))}</span>' for name, (_, content) in parts
    )
