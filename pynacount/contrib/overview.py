"""The counters of an application and how they stand, as data; for a page of an admin's."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pynamodb.exceptions import PynamoDBException

from pynacount.fields import CounterField
from pynacount.tallies import Audited, audit
from pynacount.targets import resolve
from pynacount.ways import PROGRAM, Way, is_repaired, way_to_mend, way_to_seed

SAMPLE = 50
"""Parents of each model that are looked at where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One counter: how it is declared, and how a sample of its parents stands.

    ``seed`` and ``mend`` are the ways out. ``looked_at`` parents were compared with their children; ``rows`` are those
    that are not ok. ``problem``: why there are none.
    """

    target: str
    label: str
    attribute: str
    table: str
    children: tuple[str, ...]
    missing: str
    on_delete: str
    seed: Way
    mend: Way
    looked_at: int = 0
    rows: tuple[Audited, ...] = ()
    problem: str = ""

    @property
    def wrong(self) -> int:
        """How many of the sample somebody must see to."""
        return sum(row.wrong for row in self.rows)

    @property
    def unseeded(self) -> int:
        """How many of the sample have no tally yet."""
        return sum(row.state == "unseeded" for row in self.rows)


def counters_of(targets: Iterable[str]) -> tuple[CounterField, ...]:
    """The counters of these targets, each once. Raises :class:`TargetError`."""
    return tuple({counter.tally.target: counter for target in targets for counter in resolve(target)}.values())


def overview(counters: Sequence[CounterField], sample: int = SAMPLE, program: str = PROGRAM) -> Iterator[Overview]:
    """Each counter, and a sample of its parents, audited; nothing is written. ``sample`` 0: nothing is read either.

    ``program`` is how commands are called there. It costs the read units of the sampled parents and their children.
    """
    for counter in counters:
        looked_at, rows, problem = 0, [], ""
        try:
            for found in audit([counter], sample=sample, workers=1) if sample else ():
                looked_at += 1
                if found.state != "ok":
                    rows.append(found)
        except PynamoDBException as error:
            problem = error.msg
        yield Overview(
            counter.tally.target,
            counter.label,
            counter.attr_name,
            counter.owner._counting.table,
            tuple(dict.fromkeys(relation.owner.__name__ for relation in counter.counted_relations)),
            counter.missing,
            counter.on_delete,
            way_to_seed(counter, program),
            way_to_mend(counter, program),
            looked_at,
            tuple(rows),
            problem,
        )


def way_to_mend_one(counter: CounterField, found: Audited, program: str) -> Way:
    """What mends the tally of one parent; a repair takes it alone."""
    way = way_to_mend(counter, program)
    if not is_repaired(counter):
        return way
    variables = counter.owner._counting.schema.read_key(found.key)
    words = [w for name, value in variables.items() for w in ("--key", f"{name}={value}")]
    return Way(f"{way.command} {shlex.join(words)}")
