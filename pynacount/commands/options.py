"""Options that several commands take."""

from __future__ import annotations

import math
from typing import Any

import click


class _Finite(click.FloatRange):
    """A number within a range; ``nan``, which no comparison refuses, is none, and ``inf`` neither."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is no number", param, ctx)
        return found + 0.0  # -0.0 would be told as $-0.00


class Rate(_Finite):
    """A number above 0."""

    def __init__(self) -> None:
        super().__init__(0, min_open=True)


class Price(_Finite):
    """A number of 0 or more."""

    def __init__(self) -> None:
        super().__init__(0)


def part_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """``2/8`` as the part numbered 1 from 0, of eight; for ``click.option(callback=...)``."""
    if value is None:
        return None
    number, slash, total = value.partition("/")
    if not slash or not number.isdecimal() or not total.isdecimal() or not 1 <= int(number) <= int(total):
        raise click.BadParameter(f"{value!r}: write I/N with I from 1 to N, as in 2/8", ctx, param)
    return int(number) - 1, int(total)


def segments_of(part: tuple[int, int] | None, segments: int | None) -> tuple[int | None, int | None]:
    """How many segments the scan has, and which is the only one to be read. Raises where the options contradict."""
    if part is None:
        return segments, None
    number, total = part
    if segments not in (None, total):
        raise click.UsageError(
            f"--segment {number + 1}/{total} and --segments {segments} contradict each other; leave --segments out"
        )
    return total, number
