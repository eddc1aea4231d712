"""A tally beside its count, looked at again where they differ: a like may be under way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pynacount.amounts import Amount, difference
from pynacount.contributions import Tally
from pynacount.errors import CounterNotSeeded, CounterTypeError
from pynacount.items import number
from pynacount.keys import ItemKey
from pynacount.protocols.counting import count
from pynacount.protocols.spreading import read_whole
from pynacount.shards import ON_THE_PARENT, Layout, layout_of
from pynacount.steps import Item, Protocol, Wait

MOST_LOOKS = 5
"""How often tally and count are read before it is said that they do not stand still."""

State: TypeAlias = Literal["present", "zero", "unseeded", "repairing", "closed", "unreadable", "missing"]
"""How a tally stands on its parent:

``present``, and so exact; ``zero``: absent, which ``missing="zero"`` takes for 0; ``unseeded``: absent;
``repairing``: absent, its old value kept aside; ``closed`` by a cascade that has not finished; ``unreadable``: stored
as something else than a number; ``missing``: there is no such parent.
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """A tally beside its count.

    ``was`` and ``pending`` are the marks beside the tally, None where they are absent. ``count`` is None where
    ``problem`` says why there is none; ``failed``: whether that is an error, and not how the model is declared.
    ``layout``: where the tally is; one that is in shards is the sum of their parts.
    ``looks``: how often tally and count were read; ``stood_still``: whether the tally was the same before and after
    the count; ``moving``: whether they never stood still, so that their difference shows nothing.
    """

    counter: str
    attr_name: str
    state: State
    tally: Amount | None
    was: Amount | None
    pending: Amount | None
    count: Amount | None
    layout: Layout = ON_THE_PARENT
    looks: int = 1
    stood_still: bool = True
    moving: bool = False
    problem: str = ""
    failed: bool = False

    @property
    def drift(self) -> Amount | None:
        """Tally less count; None where either is not known."""
        if self.tally is None or self.count is None:
            return None
        return difference(self.tally, self.count)

    @property
    def unknown(self) -> bool:
        """Whether there is a number, and nothing to compare it with."""
        return self.count is None and self.state in ("present", "zero")

    @property
    def wrong(self) -> bool:
        """Whether something is not as it should be, or could not be told."""
        return bool(self.drift) or self.failed or self.state in ("missing", "unreadable")


def standing(tally: Tally, key: ItemKey) -> Protocol[Standing]:
    """The tally of one parent beside the count of its children. A difference is looked at again after ``settle``.

    It is drift where two looks in a row show the same, and the tally did not move during either.
    """
    before: Standing | None = None
    for looks in range(1, MOST_LOOKS + 1):
        found = replace((yield from look(tally, key)), looks=looks)
        if not found.drift or is_the_same(before, found):
            return found
        before = found
        if looks < MOST_LOOKS:
            yield Wait(tally.settle)
    return replace(found, moving=True, failed=True)


def look(tally: Tally, key: ItemKey) -> Protocol[Standing]:
    """Read the tally, count, and where they differ read the tally again."""
    item = yield from read_whole(tally, key)
    found = replace(read_standing(tally, item), layout=layout_of(tally, item or {}) or ON_THE_PARENT)
    try:
        found = replace(found, count=(yield from count(tally, key)))
    except CounterNotSeeded as unknown:
        return replace(found, problem=unknown.msg)
    except CounterTypeError as unreadable:
        return replace(found, problem=unreadable.msg, failed=True)
    if not found.drift:
        return found
    after = read_standing(tally, (yield from read_whole(tally, key)))
    return replace(found, stood_still=(after.state, after.tally) == (found.state, found.tally))


def is_the_same(before: Standing | None, found: Standing) -> bool:
    """Whether two looks in a row show the same difference, and the tally did not move during either."""
    return before is not None and before.stood_still and found.stood_still and before.drift == found.drift


def read_standing(tally: Tally, item: Item | None) -> Standing:
    """What the parent's item says of one tally; no count yet. A number in shards was put in the item."""
    return Standing(
        counter=tally.label,
        attr_name=tally.attr_name,
        state=_state(tally, item),
        tally=0 if _state(tally, item) == "zero" else number(item, tally.attr_name),
        was=number(item, tally.was_name),
        pending=number(item, tally.pending_name),
        count=None,
    )


def _state(tally: Tally, item: Item | None) -> State:
    if item is None:
        return "missing"
    stored = item.get(tally.attr_name)
    if stored is not None:
        return "present" if "N" in stored else "unreadable"
    if tally.closed_name in item:
        return "closed"
    if tally.was_name in item:
        return "repairing"
    return "zero" if tally.missing == "zero" else "unseeded"
