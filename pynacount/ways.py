"""What mends or seeds the tallies of a counter: the one place that knows which command takes which counter."""

from __future__ import annotations

from dataclasses import dataclass

from pynacount.fields import CounterField
from pynacount.tallies.passes import is_elsewhere

PROGRAM = "pynacount"


@dataclass(frozen=True, slots=True)
class Way:
    """The way out: a ``command``, or, where none takes the counter, what is to be done ``by_hand``."""

    command: str = ""
    by_hand: str = ""

    @property
    def said(self) -> str:
        """Whichever it is."""
        return self.command or self.by_hand


def is_repaired(counter: CounterField) -> bool:
    """Whether ``repair`` takes it."""
    return not counter.is_streamed and not is_elsewhere(counter)


def way_to_mend(counter: CounterField, program: str = PROGRAM) -> Way:
    """What gives a wrong tally its right number; ``program`` is how commands are called there."""
    if counter.is_streamed:
        return Way(f"{program} migrate {counter.tally.target} --anew")
    if is_repaired(counter):
        return Way(f"{program} repair {counter.tally.target}")
    return Way(
        by_hand=f"no repair takes {counter.label}, since only a scan finds its children: declare an index on them; "
        f"or, while nobody writes, remove {counter.attr_name} where it drifted and run {program} migrate "
        f"{counter.tally.target}"
    )


def way_to_seed(counter: CounterField, program: str = PROGRAM) -> Way:
    """What gives a parent its tally that has none."""
    return Way(f"{program} migrate {counter.tally.target}")
